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
        self._includes = {}

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
        if path not in self._includes:
            found = ((number, re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line))
                     for number, line in enumerate(self.lines(path), 1) if "include" in line)
            self._includes[path] = [(number, match.group(1)) for number, match in found if match]
        return self._includes[path]

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


def check_folders(tree):
    """Includes between folders make no circle, and keep the order of rules.ROOMS."""
    arrows = {}  # {folder: {included folder: [(path, line, header)]}}
    for path in tree.matching(SOURCE):
        for number, header in tree.includes(path):
            folder, target = os.path.dirname(path), os.path.dirname(header)
            if header.split("/")[0] in rules.MAY_INCLUDE and target != folder:
                arrows.setdefault(folder, {}).setdefault(target, []).append((path, number, header))
                why = out_of_order(folder, target)
                if why:
                    yield path, number, f"includes {header}, but {why}"
    for circle in circles(arrows):
        words = " -> ".join(circle)
        for folder, target in zip(circle, circle[1:]):
            for path, number, header in arrows[folder][target]:
                yield path, number, f"includes {header}, in a circle of folders: {words}"


def out_of_order(folder, target):
    """Why a file of `folder` may not include one of `target`; "" if it may."""
    house = os.path.commonpath([folder, target]) if folder and target else ""
    levels = {room: level for level, rooms in enumerate(rules.ROOMS.get(house, []))
              for room in rooms.split()}
    if not levels:
        return ""
    above, below = (os.path.relpath(place, house).split("/")[0] for place in (folder, target))
    for room in (above, below):
        if room not in levels:
            return f"rules.ROOMS does not say where {house}/{room} stands"
    if levels[above] > levels[below]:
        return ""
    return f"in {house}, {above} does not stand above {below}"


def circles(arrows):
    """Circles of folders, short ones first; none has an arrow of an earlier one."""
    found = [way for way in (way_back(arrows, start) for start in sorted(arrows)) if way]
    told = set()
    for way in sorted(found, key=len):
        steps = set(zip(way, way[1:]))
        if not steps & told:
            told |= steps
            yield way


def way_back(arrows, start):
    """A shortest way along the arrows from `start` to itself, or None."""
    ways, seen = [[start]], set()
    while ways:
        way = ways.pop(0)
        for target in sorted(arrows.get(way[-1], ())):
            if target == start:
                return way + [target]
            if target not in seen:
                seen.add(target)
                ways.append(way + [target])
    return None


def check_one_definition(tree):
    """A name means one class, struct, union or enum in its namespace."""
    places = {}  # {qualified name: [(path, line)]}
    for path in tree.matching(SOURCE):
        for number, name in definitions(tree.lines(path)):
            places.setdefault(name, []).append((path, number))
    for name, defined in places.items():
        for path, number in defined[1:]:
            if path != defined[0][0]:
                yield path, number, f"{name} is another one in {defined[0][0]}:{defined[0][1]}"


NAMESPACE = re.compile(r"(?:inline )?namespace ?([\w:]*) \{$")
DEFINITION = re.compile(r"(?:template <.*> )?(?:class|struct|union|enum(?: class)?) "
                        r"(?:\[\[.*?\]\] |(?:[A-Z_]+|alignas)(?:\(.*?\))? )*"
                        r"(\w+)(?= final| :| \{|$)")


def definitions(lines):
    """(line, qualified name) of what is defined outside anonymous namespaces. Counts
    on the format: what stands in a namespace, and nothing else, begins in column 0,
    and a namespace of more than one line ends with a comment."""
    scopes = []
    for number, line in enumerate(lines, 1):
        if not line or line[0] in " /#":
            continue
        opened = NAMESPACE.match(line)
        if opened:
            scopes.append((opened.group(1), number))
        elif line.startswith("}") and scopes and (
                line.startswith("}  // namespace") or scopes[-1][1] == number - 2):
            scopes.pop()
        else:
            match = DEFINITION.match(line)
            # The base classes may stand on the next lines.
            text = " ".join(lines[number - 1:number + 9]) if match else ""
            if match and 0 <= text.find("{") < (text + ";").find(";") and all(
                    name for name, _ in scopes):
                yield number, "::".join([name for name, _ in scopes] + [match.group(1)])


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
    # On all cores.
    parts = os.cpu_count() or 1
    running = [subprocess.Popen(["clang-format", "--dry-run", "--ferror-limit=1", "-Werror"] + part,
                                cwd=tree.root, stderr=subprocess.PIPE)
               for part in (files[i::parts] for i in range(parts)) if part]
    errors = "".join([process.communicate()[1].decode() for process in running])
    seen = set()
    for line in errors.splitlines():
        match = re.match(r"(.*?):(\d+):\d+: (error|warning):", line)
        if match and match.group(1) not in seen:
            seen.add(match.group(1))
            yield match.group(1), int(match.group(2)), "is not formatted; run deploy/format.sh"
    if any(process.returncode for process in running) and not seen:
        yield ".clang-format", 1, "clang-format failed: " + errors[:200]


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
