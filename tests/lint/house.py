#!/usr/bin/python3
"""Measures the house: its classes, its folders, its BUILD text, and what a change touches.

    tests/lint/house.py [--root=DIR] [--base=REVISION] [--json] [--top=N]

Prints tables for people, or one JSON object. --base: beside each figure that of REVISION, which
git unpacks into a folder of its own. --top: so many of the widest classes and longest functions.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import class_shape
import house_changes
import house_reach
import rules
from source_tree import SOURCE, Tree, strings

TEST_KINDS = ("cc_test", "sh_test", "py_test")
SOURCES_OF = ("srcs", "hdrs", "textual_hdrs")


def measure(tree):
    """{table: {row: {column: number}}} of a tree."""
    shapes, functions = class_shape.read(tree)
    shipped = production(tree)
    return {
        "classes": _classes(shapes),
        "circles by calls": {shape.name: {"files": len(shape.circle())}
                             for shape in shapes if shape.circle()},
        "functions": _functions(functions),
        "lines": _lines(tree, shipped),
        "BUILD": _build(tree),
        "places": {f"{change.kind}: {change.sample}":
                   house_changes.places(tree, change, shipped)
                   for change in house_changes.CHANGES},
        "seen by": house_reach.reach(tree),
    }


def _classes(shapes):
    found = {}
    for shape in sorted(shapes, key=lambda shape: (shape.methods, shape.lines)):
        found[shape.name] = {"methods": shape.methods, "members": shape.members,
                             "lines of functions": shape.lines, "files": len(shape.files)}
    return found


def _functions(functions):
    lengths = sorted(function.lines for function in functions)
    if not lengths:
        return {}
    over = sum(length > rules.MAX_FUNCTION_LINES for length in lengths)
    return {"all": {"count": len(lengths), "median": lengths[len(lengths) // 2],
                    "p99": lengths[len(lengths) * 99 // 100], "max": lengths[-1],
                    f"over {rules.MAX_FUNCTION_LINES}": over}}


def _tests_only(tree):
    """The sources that only tests and targets for them have."""
    tests, shipped = set(), set()
    for path, _, kind, attributes in tree.build_rules():
        only = kind in TEST_KINDS or attributes.get("testonly") or path.startswith("tests/")
        for attribute in SOURCES_OF:
            (tests if only else shipped).update(
                os.path.normpath(os.path.join(os.path.dirname(path), name.lstrip(":")))
                for name in strings(attributes.get(attribute)))
    return tests - shipped


def production(tree):
    """The C++ and proto files that a program may come from."""
    tests = _tests_only(tree)
    return {path for path in tree.matching(SOURCE + (".proto",))
            if path not in tests and not path.startswith("tests/")
            and not path.endswith(("_test.cc", "_fuzz.cc"))}


def _lines(tree, shipped):
    """Of C++ and proto by top folder, of Python, shell and pages by kind."""
    found = {}
    for path in tree.files:
        if path.endswith(SOURCE + (".proto",)):
            row = path.split("/")[0]
            column = "production" if path in shipped else "tests"
        elif path.endswith((".py", ".sh", ".md")):
            row = path.rsplit(".", 1)[1]
            column = "tests" if path.startswith("tests/") or "/tests/" in path else "production"
        else:
            continue
        for name in (row, "C++ and proto") if path.endswith(SOURCE + (".proto",)) else (row,):
            counts = found.setdefault(name, {"production": 0, "tests": 0, "files": 0})
            counts[column] += len(tree.lines(path))
            counts["files"] += 1
    return dict(sorted(found.items()))


def _build(tree):
    kinds = [kind for _, _, kind, _ in tree.build_rules()]
    lines = sum(len(tree.lines(path)) for path in tree.matching(("BUILD.bazel", "BUILD")))
    used = {}
    for path, _, _, attributes in tree.build_rules():
        for name in strings(attributes.get("deps")):
            label = f"//{os.path.dirname(path)}{name}" if name.startswith(":") else name
            used[label] = used.get(label, 0) + 1
    libraries = [f"//{os.path.dirname(path)}:{attributes.get('name')}"
                 for path, _, kind, attributes in tree.build_rules() if kind == "cc_library"]
    return {"all": {"lines": lines, "libraries": kinds.count("cc_library"),
                    "with one user": sum(used.get(label, 0) == 1 for label in libraries),
                    "tests": sum(kinds.count(kind) for kind in TEST_KINDS)}}


def measure_revision(root, revision):
    """The same of what git has at a revision."""
    git = ["git", "-c", "safe.directory=*"]
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(git + ["archive", revision], cwd=root, check=True,
                                 stdout=subprocess.PIPE).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        return measure(Tree(folder))


def table(name, rows, base, top):
    """A table as lines; `base` has the figures of before, or is None."""
    if name == "classes":
        rows = dict(list(rows.items())[:-top - 1:-1])
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    lines = [[name] + columns]
    for row, figures in rows.items():
        was = (base or {}).get(row, {})
        lines.append([row] + [_cell(figures.get(column), was.get(column) if base is not None else None)
                              for column in columns])
    lines += [[row] + [_cell("-", was.get(column)) for column in columns]
              for row, was in (base or {}).items() if row not in rows and name != "classes"]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns) + 1)]
    text = ["  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                      for i, (cell, width) in enumerate(zip(line, widths))) for line in lines]
    return [text[0], "-" * len(text[0])] + text[1:]


def _cell(now, was):
    now = "-" if now is None else str(now)
    return now if was is None else f"{was} -> {now}"


def main(arguments):
    parser = argparse.ArgumentParser(description="Measures the house.")
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(os.path.dirname(
        os.path.abspath(__file__)))))
    parser.add_argument("--base", metavar="REVISION")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--top", type=int, default=15)
    options = parser.parse_args(arguments)
    now = measure(Tree(options.root))
    base = measure_revision(options.root, options.base) if options.base else None
    if options.json:
        print(json.dumps({"now": now, "base": base} if base else now, indent=1))
        return 0
    for name, rows in now.items():
        print("\n".join(table(name, rows, base[name] if base else None, options.top)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
