#!/usr/bin/python3
"""Checks of the source tree that no compiler does; rules.py holds the lists.

    tests/lint/lint.py [--root=DIR] [CHECK...]

Prints each violation as FILE:LINE: CHECK: what is wrong, and a last line
`lint: N passed, N failed`, one per check. Exit 0 when all passed.
"""

import ast
import fnmatch
import os
import re
import shutil
import subprocess
import sys

import rules

SOURCE = (".cc", ".h", ".cu", ".cuh")
TEXT = SOURCE + (".py", ".sh", ".proto", ".bazel", ".bzl", ".md", ".txt", ".textproto")
RULE_SOURCES = ("srcs", "hdrs", "textual_hdrs")


class Tree:
    """The files under a root, with their lines."""

    def __init__(self, root):
        self.root = root
        self.files = sorted(self._list())
        self._lines = {}

    def _list(self):
        if os.path.isdir(os.path.join(self.root, ".git")):
            command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached"]
            out = subprocess.run(command + ["--others", "--exclude-standard"], cwd=self.root,
                                 check=True, stdout=subprocess.PIPE).stdout.decode()
            names = out.split("\0")
        else:
            names = [os.path.relpath(os.path.join(folder, name), self.root)
                     for folder, _, entries in os.walk(self.root) for name in entries]
        return {n for n in names if n and os.path.isfile(os.path.join(self.root, n))}

    def lines(self, path):
        if path not in self._lines:
            with open(os.path.join(self.root, path), encoding="utf-8", errors="replace") as f:
                self._lines[path] = f.read().splitlines()
        return self._lines[path]

    def matching(self, endings):
        return [f for f in self.files if f.endswith(endings)]

    def includes(self, path):
        """(line number, header) of each include."""
        for number, line in enumerate(self.lines(path), 1):
            match = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
            if match:
                yield number, match.group(1)

    def build_rules(self):
        """(BUILD file, line, kind, attributes) of each rule."""
        for path in self.matching(("BUILD.bazel", "BUILD")):
            yield from evaluate_build(path, "\n".join(self.lines(path)))


def evaluate_build(path, text):
    """The rules that a BUILD file makes. Starlark is near enough to Python to
    run it with a recorder in place of each rule; comprehensions included."""
    found = []

    def recorder(kind):
        def record(*_, **attributes):
            found.append((path, sys._getframe(1).f_lineno, kind, attributes))
            return []
        return record

    tree = ast.parse(text, path)
    called = {node.func.id for node in ast.walk(tree)
              if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    names = {name: recorder(name) for name in called - {"len", "range", "str"}}
    names["glob"] = lambda patterns, **_: patterns
    names["select"] = lambda cases: [item for case in cases.values() for item in case]
    names["load"] = lambda *_, **__: None
    exec(compile(tree, path, "exec"), names)
    return found


def strings(value):
    """An attribute as a list of strings."""
    if value is None:
        return []
    return [value] if isinstance(value, str) else list(value)


def allowed(path, patterns):
    return any(fnmatch.fnmatch(path, pattern) for pattern in patterns)


def check_headers(tree):
    """System headers are included only where rules.py lists it."""
    for path in tree.matching(SOURCE):
        for number, header in tree.includes(path):
            for what, pattern, users in rules.HEADER_USERS:
                if re.match(pattern, header) and not allowed(path, users):
                    yield path, number, f"<{header}>: {what}"


def check_directions(tree):
    """Includes go down: proto <- common <- ps_server <- coordinator <- worker <- tests."""
    for path in tree.matching(SOURCE):
        top = path.split("/")[0]
        if top not in rules.MAY_INCLUDE:
            continue
        may = [top + "/", "proto/"] + rules.MAY_INCLUDE[top]
        for folder, narrower in rules.FOLDER_MAY_INCLUDE.items():
            may = narrower if path.startswith(folder) else may
        for number, header in tree.includes(path):
            if header.split("/")[0] in rules.MAY_INCLUDE and not header.startswith(tuple(may)):
                yield path, number, f"may not include {header}; allowed: {' '.join(may)}"


def check_libraries(tree):
    """System libraries are linked only where rules.py lists it."""
    for path, line, kind, attributes in tree.build_rules():
        for name in strings(attributes.get("deps")):
            users = rules.LIBRARY_USERS.get(name)
            if users is not None and not allowed(path, users):
                yield path, line, f"{kind} may not link {name}; allowed in {users}"


def check_targets(tree):
    """Every source file stands in a target of its package."""
    owned = set()
    for path, _, _, attributes in tree.build_rules():
        folder = os.path.dirname(path)
        for attribute in RULE_SOURCES:
            for name in strings(attributes.get(attribute)):
                if "*" in name:
                    owned.update(f for f in tree.files
                                 if fnmatch.fnmatch(f, os.path.join(folder, name)))
                else:
                    owned.add(os.path.normpath(os.path.join(folder, name.lstrip(":"))))
    for path in tree.matching(SOURCE):
        if path not in owned:
            yield path, 1, "is in no BUILD target"


def check_test_tags(tree):
    """Every test has a tag that tests/run.sh runs."""
    for path, line, kind, attributes in tree.build_rules():
        if kind in ("cc_test", "sh_test", "py_test"):
            tags = set(strings(attributes.get("tags")))
            if not tags & rules.TEST_TAGS:
                yield path, line, (f"{attributes.get('name')} has none of the tags "
                                   f"{sorted(rules.TEST_TAGS)}")


def check_shell(tree):
    """Shell scripts parse, are strict and can be executed."""
    for path in tree.matching((".sh", ".ci/run")):
        full = os.path.join(tree.root, path)
        result = subprocess.run(["bash", "-n", full], stderr=subprocess.PIPE, check=False)
        if result.returncode != 0:
            yield path, 1, result.stderr.decode().strip().splitlines()[0]
        if "set -euo pipefail" not in tree.lines(path):
            yield path, 1, "has no line `set -euo pipefail`"
        if not os.access(full, os.X_OK):
            yield path, 1, "is not executable"


def check_length(tree):
    """No file is too long to read."""
    for path in tree.matching(SOURCE + (".py", ".sh", ".proto", ".bazel", ".bzl")):
        if len(tree.lines(path)) > rules.MAX_LINES:
            yield path, rules.MAX_LINES, f"has {len(tree.lines(path))} lines, over {rules.MAX_LINES}"


def check_words(tree):
    """No marks of unfinished work, disabled tests or one machine's paths."""
    for path in tree.matching(TEXT):
        for number, line in enumerate(tree.lines(path), 1):
            for pattern in rules.FORBIDDEN_WORDS:
                if re.search(pattern, line):
                    yield path, number, f"holds {re.search(pattern, line).group(0)!r}"


def check_sleeps(tree):
    """Tests wait for events, not for time."""
    for path in tree.matching(("_test.cc",)):
        if allowed(path, [pattern for pattern, _ in rules.SLEEP_ALLOWED]):
            continue
        for number, line in enumerate(tree.lines(path), 1):
            if re.search(rules.SLEEPS, line.split("//")[0]):
                yield path, number, "sleeps; wait for the event with a deadline"


def check_pragma_once(tree):
    """Every header is guarded by #pragma once."""
    for path in tree.matching((".h", ".cuh")):
        if "#pragma once" not in tree.lines(path):
            yield path, 1, "has no #pragma once"


def check_format(tree):
    """clang-format changes nothing."""
    if shutil.which("clang-format") is None:
        yield "deploy/packages.txt", 1, "clang-format is not installed; run deploy/setup.sh"
        return
    files = tree.matching((".cc", ".h"))
    if not files:
        return
    result = subprocess.run(["clang-format", "--dry-run", "--ferror-limit=1", "-Werror"] + files,
                            cwd=tree.root, stderr=subprocess.PIPE, check=False)
    seen = set()
    for line in result.stderr.decode().splitlines():
        match = re.match(r"(.*?):(\d+):\d+: (error|warning):", line)
        if match and match.group(1) not in seen:
            seen.add(match.group(1))
            yield match.group(1), int(match.group(2)), "is not formatted; run deploy/format.sh"
    if result.returncode != 0 and not seen:
        yield ".clang-format", 1, "clang-format failed: " + result.stderr.decode()[:200]


CHECKS = {name[len("check_"):]: function for name, function in list(globals().items())
          if name.startswith("check_")}


def run(root, names):
    """{check: [violations]} of the tree under `root`."""
    tree = Tree(root)
    return {name: [f"{path}:{line}: {name}: {text}" for path, line, text in CHECKS[name](tree)]
            for name in names}


def main(arguments):
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    names = []
    for argument in arguments:
        if argument.startswith("--root="):
            root = argument[len("--root="):]
        elif argument in CHECKS:
            names.append(argument)
        else:
            print(f"lint.py: no check {argument!r}; there are {', '.join(CHECKS)}",
                  file=sys.stderr)
            return 2
    results = run(root, names or list(CHECKS))
    for violations in results.values():
        print("\n".join(violations), end="\n" if violations else "")
    failed = [name for name, violations in results.items() if violations]
    print(f"lint: {len(results) - len(failed)} passed, {len(failed)} failed"
          + (f" ({', '.join(failed)})" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
