"""The files under a root, their lines, their includes and the rules of their BUILD files."""

import ast
import fnmatch
import os
import re
import subprocess
import sys
import types

SOURCE = (".cc", ".h", ".cu", ".cuh")
TEXT = SOURCE + (".py", ".sh", ".proto", ".bazel", ".bzl", ".md", ".txt", ".textproto")


class Tree:
    """The files under a root, with their lines."""

    def __init__(self, root):
        self.root = root
        self.files = sorted(self._list())
        self._lines = {}
        self._includes = {}
        self._rules = None
        self.read = {}  # what readers of the tree have found, by their names

    def _list(self):
        if os.path.exists(os.path.join(self.root, ".git")):
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
        """(BUILD file, line, kind, attributes) of each rule, those that macros make included."""
        if self._rules is None:
            self._rules = [rule for path in self.matching(("BUILD.bazel", "BUILD"))
                           for rule in self._rules_of(path)]
        return self._rules

    def _rules_of(self, path):
        folder = os.path.join(os.path.dirname(path), "")
        below = [name[len(folder):] for name in self.files if name.startswith(folder)]
        return evaluate_build(path, "\n".join(self.lines(path)), self.macros, below)

    def macros(self, label):
        """The text of the .bzl file of a label, or None: it is of another repository."""
        path = label.lstrip("/").replace(":", "/")
        return "\n".join(self.lines(path)) if path in self.files else None


def evaluate_build(path, text, macros=lambda label: None, files=()):
    """The rules that a BUILD file makes. Starlark is near enough to Python to run it with a
    recorder in place of each rule: comprehensions and the macros that `macros` finds included.
    `files`: below its folder, for glob()."""
    found = []
    frame_file = path

    def recorder(kind):
        def record(*_, **attributes):
            frame = sys._getframe(1)
            while frame and frame.f_code.co_filename != frame_file:
                frame = frame.f_back
            found.append((path, frame.f_lineno if frame else 1, kind, attributes))
            return []
        return record

    tree = ast.parse(text, path)
    names = _names_of(tree, recorder)
    names["glob"] = lambda patterns, exclude=(), **_: [
        name for name in files if _globbed(name, patterns) and not _globbed(name, exclude)]
    names["load"] = lambda label, *wanted, **_: _load(label, wanted, macros, recorder, names)
    exec(compile(tree, path, "exec"), names)
    return found


def _load(label, wanted, macros, recorder, names):
    text = macros(label)
    if text is None or re.search(r"\brule\(|_rule\(", text):
        return  # what has rules of its own is recorded as these
    inner = {"native": types.SimpleNamespace(**{kind: recorder(kind) for kind in set(
        re.findall(r"native\.(\w+)\(", text))})}
    inner["native"].package_name = lambda: ""
    inner["load"] = lambda label, *wanted, **_: _load(label, wanted, macros, recorder, inner)
    inner["struct"] = types.SimpleNamespace
    inner["select"] = _all_cases
    exec(compile(ast.parse(text, label), label, "exec"), inner)
    names.update({name: inner[name] for name in wanted if name in inner})


def _names_of(tree, recorder):
    called = {node.func.id for node in ast.walk(tree)
              if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    names = {name: recorder(name) for name in called - {"len", "range", "str"}}
    names["select"] = _all_cases
    return names


def _globbed(name, patterns):
    """Whether a name matches, where `*` stays in one folder and `**` does not."""
    return any(fnmatch.fnmatch(name, pattern) and
               ("**" in pattern or name.count("/") == pattern.count("/")) for pattern in patterns)


def _all_cases(cases):
    return [item for case in cases.values() for item in case]


def strings(value):
    """An attribute as a list of strings."""
    if value is None:
        return []
    return [value] if isinstance(value, str) else list(value)


def allowed(path, patterns):
    return any(fnmatch.fnmatch(path, pattern) for pattern in patterns)
