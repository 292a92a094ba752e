#!/usr/bin/python3
"""Checks of the source tree that no compiler does; rules.py holds the lists.

    tests/lint/lint.py [--root=DIR] [--without=CHECK] [CHECK...]

Prints each violation as FILE:LINE: CHECK: what is wrong, and a last line
`lint: N passed, N failed`, one per check. Exit 0 when all passed.
"""

import os
import sys

import bug_checks
import build_checks
import change_checks
import class_checks
import include_checks
import pointer_checks
import text_checks
from source_tree import Tree

CHECKS = {name[len("check_"):]: function
          for module in (include_checks, build_checks, text_checks, class_checks, pointer_checks,
                         bug_checks, change_checks)
          for name, function in vars(module).items() if name.startswith("check_")}


def run(root, names):
    """{check: [violations]} of the tree under `root`."""
    tree = Tree(root)
    return {name: [f"{path}:{line}: {name}: {text}" for path, line, text in CHECKS[name](tree)]
            for name in names}


def main(arguments):
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    names, left_out = [], []
    for argument in arguments:
        if argument.startswith("--root="):
            root = argument[len("--root="):]
        elif argument[len("--without="):] in CHECKS and argument.startswith("--without="):
            left_out.append(argument[len("--without="):])
        elif argument in CHECKS:
            names.append(argument)
        else:
            print(f"lint.py: no check {argument!r}; there are {', '.join(CHECKS)}",
                  file=sys.stderr)
            return 2
    results = run(root, names or [name for name in CHECKS if name not in left_out])
    for violations in results.values():
        print("\n".join(violations), end="\n" if violations else "")
    failed = [name for name, violations in results.items() if violations]
    print(f"lint: {len(results) - len(failed)} passed, {len(failed)} failed"
          + (f" ({', '.join(failed)})" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
