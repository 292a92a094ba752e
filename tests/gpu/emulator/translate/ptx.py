"""Reads PTX: what a module's kernels take, declare and do.

The part of the language that nvcc writes for kernels without calls of functions and
without module variables. What is beyond that is a PtxError that names file and line.
"""

import re
from dataclasses import dataclass, field

# Bytes of a value of each type.
SIZES = {
    **{sign + bits: int(bits) // 8 for sign in "usb" for bits in ("8", "16", "32", "64")},
    "f16": 2, "bf16": 2, "f16x2": 4, "bf16x2": 4, "f32": 4, "f64": 8, "pred": 1,
}


class PtxError(Exception):
    """What cannot be translated; says where."""


@dataclass
class Param:
    name: str
    offset: int
    size: int


@dataclass
class Label:
    name: str


@dataclass
class Instruction:
    line: int
    guard: str  # a predicate register, or ""
    guard_negated: bool
    opcode: str
    operands: list  # as written; registers by their unique names


@dataclass
class Entry:
    name: str
    params: list
    max_threads: int  # 0: not bounded
    param_bytes: int = 0
    registers: dict = field(default_factory=dict)  # unique name -> type
    shared: dict = field(default_factory=dict)  # name -> offset
    local: dict = field(default_factory=dict)
    shared_bytes: int = 0
    local_bytes: int = 0
    targets: dict = field(default_factory=dict)  # name of a .branchtargets -> labels
    body: list = field(default_factory=list)  # Label and Instruction

    def param(self, name):
        return next((p for p in self.params if p.name == name), None)


def _align(offset, alignment):
    return (offset + alignment - 1) // alignment * alignment


_VARIABLE = re.compile(
    r"\.(shared|local)\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$%.]+)((?:\[\d*\])*)$")
_PARAM = re.compile(r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$%.]+)(?:\[(\d+)\])?$")
_REGISTER = re.compile(r"\.reg\s+\.(\w+)\s+(.*)$", re.S)
_LABEL = re.compile(r"\s*([$\w%.]+)\s*:(?!:)")
_SPACE = re.compile(r"\s*")
_NAME = re.compile(r"[%$\w.]+")


class _Reader:
    def __init__(self, text, name):
        self.name = name
        # Comments go, their lines stay.
        text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)
        self.text = re.sub(r"//[^\n]*", "", text)

    def fail(self, at, what):
        raise PtxError("%s:%d: %s" % (self.name, self.line(at), what))

    def line(self, at):
        return self.text.count("\n", 0, at) + 1

    def entries(self):
        module = self._without_bodies()
        for word in (".func", ".const", ".tex"):
            if (at := module.find(word + " ")) >= 0:
                self.fail(at, "%s is not supported" % word)
        dynamic = {}
        for match in re.finditer(r"^\s*((?:\.(?:extern|visible|weak|common)\s+)*)\.(global|shared)"
                                 r"\s[^;]*;", module, re.M):
            statement = match.group().strip().rstrip(";")
            variable = _VARIABLE.match(re.sub(r"^(\.(extern|visible|weak|common)\s+)+", "",
                                              statement))
            if not (variable and match.group(2) == "shared"):
                self.fail(match.start(2), "a module variable: " + statement[:60])
            dynamic[variable.group(4)] = statement
        return [self._entry(match, dynamic)
                for match in re.finditer(r"\.entry\s+([\w$]+)\s*(\(|\{)", self.text)]

    def _without_bodies(self):
        """The text with what stands in braces blanked, places kept."""
        depth, out = 0, []
        for c in self.text:
            depth -= c == "}"
            out.append(c if depth == 0 or c == "\n" else " ")
            depth += c == "{"
        return "".join(out)

    def _entry(self, match, dynamic):
        end = self.text.index(")", match.end()) if match.group(2) == "(" else match.start(2)
        params, offset = [], 0
        for text in self.text[match.end():end].split(","):
            if not text.strip():
                continue
            param = _PARAM.match(text.strip())
            if not param:
                self.fail(match.start(), "parameter " + text.strip())
            alignment, kind, name, count = param.groups()
            size = SIZES[kind] * int(count or 1)
            offset = _align(offset, int(alignment or SIZES[kind]))
            params.append(Param(name, offset, size))
            offset += size
        begin = self.text.index("{", end)
        threads = 0
        if limit := re.search(r"\.(?:maxntid|reqntid)\s+([\d, ]+)", self.text[end:begin]):
            threads = 1
            for number in limit.group(1).split(","):
                threads *= int(number)
        entry = Entry(match.group(1), params, threads, param_bytes=offset)
        for name in dynamic:
            entry.shared[name] = None  # behind what has a size, set by _Body
        _Body(self, entry).read(begin + 1)
        return entry


class _Body:
    """Reads the statements of one entry. Names declared in an inner scope get a suffix."""

    def __init__(self, reader, entry):
        self.reader = reader
        self.entry = entry
        self.scopes = [{}]
        self.scope_count = 0

    def read(self, at):
        text = self.reader.text
        while self.scopes:
            at = _SPACE.match(text, at).end()
            if text[at] == "{":
                self.scopes.append({})
                self.scope_count += 1
                at += 1
            elif text[at] == "}":
                self.scopes.pop()
                at += 1
            elif (label := _LABEL.match(text, at)) and label.start(1) == at:
                targets = re.compile(r"\s*\.branchtargets\s+([^;]*);").match(text, label.end())
                if targets:
                    names = [name.strip() for name in targets.group(1).split(",")]
                    self.entry.targets[label.group(1)] = names
                    at = targets.end()
                else:
                    self.entry.body.append(Label(label.group(1)))
                    at = label.end()
            else:
                end = text.find(";", at)
                if end < 0:
                    self.reader.fail(at, "a statement without an end")
                self._statement(text[at:end], at)
                at = end + 1
        for name, offset in self.entry.shared.items():
            if offset is None:
                self.entry.shared[name] = self.entry.shared_bytes = _align(
                    self.entry.shared_bytes, 16)

    def _statement(self, text, at):
        text = text.strip()
        if not text or text.startswith((".pragma", ".loc ", ".loc\t")):
            return
        if declaration := _REGISTER.match(text):
            self._registers(declaration.group(1), declaration.group(2))
        elif variable := _VARIABLE.match(text):
            self._variable(*variable.groups())
        elif text.startswith("."):
            self.reader.fail(at, "not supported: " + text[:60])
        else:
            self._instruction(text, at)

    def _registers(self, kind, names):
        for name in (n.strip() for n in names.split(",")):
            counted = re.match(r"([%\w$]+)<(\d+)>$", name)
            all_names = [counted.group(1) + str(i) for i in range(int(counted.group(2)))] \
                if counted else [name]
            for one in all_names:
                unique = one if len(self.scopes) == 1 else "%s_%d" % (one, self.scope_count)
                self.scopes[-1][one] = unique
                self.entry.registers[unique] = kind

    def _variable(self, space, alignment, kind, name, dimensions):
        size = SIZES[kind]
        for number in re.findall(r"\d+", dimensions):
            size *= int(number)
        places = self.entry.shared if space == "shared" else self.entry.local
        used = self.entry.shared_bytes if space == "shared" else self.entry.local_bytes
        places[name] = _align(used, int(alignment or SIZES[kind]))
        if space == "shared":
            self.entry.shared_bytes = places[name] + size
        else:
            self.entry.local_bytes = places[name] + size

    def _unique(self, match):
        for scope in reversed(self.scopes):
            if match.group() in scope:
                return scope[match.group()]
        return match.group()

    def _instruction(self, text, at):
        guard, negated = "", False
        if guarded := re.match(r"@(!?)\s*([%\w$]+)\s+", text):
            negated = guarded.group(1) == "!"
            guard = _NAME.sub(self._unique, guarded.group(2))
            text = text[guarded.end():]
        opcode, _, rest = text.partition(" ") if " " in text else text.partition("\t")
        opcode, _, more = opcode.partition("\t")
        operands = re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s][^,]*", _NAME.sub(
            self._unique, (more + " " + rest).strip()))
        self.entry.body.append(Instruction(self.reader.line(at), guard, negated, opcode,
                                           [o.strip() for o in operands]))


def read(text, name):
    """The entries of a module's text; `name` is the file, for errors."""
    return _Reader(text, name).entries()
