"""C++ of PTX entries: a function per kernel that runs one thread.

A thread that must wait for others (bar.sync, shfl.sync and their kin) returns what it
waits for; called again, it goes on from there. Its registers then live in `saved`. The
runtime it is written for is tests/gpu/emulator/device.h.
"""

import opcodes
import ptx
from operands import CPP_TYPES, Operands, Unsupported, cpp_name

_SUSPENDING = ("bar", "barrier", "shfl", "vote", "redux")
_FENCES = ("membar", "fence")
_SHUFFLES = {"up": "kShuffleUp", "down": "kShuffleDown", "bfly": "kShuffleButterfly",
             "idx": "kShuffleIndex"}
_VOTES = {"all": "kVoteAll", "any": "kVoteAny", "uni": "kVoteUniform", "ballot": "kBallot"}
_REDUCTIONS = {"add": "kAdd", "min": "kMin", "max": "kMax", "and": "kAnd", "or": "kOr",
               "xor": "kXor"}


class _Kernel:
    def __init__(self, entry, number, file_name):
        self.entry = entry
        self.number = number
        self.file_name = file_name
        self.operands = Operands(entry)
        self.resume_points = 0
        self.instructions = [i for i in entry.body if isinstance(i, ptx.Instruction)]
        self.suspends = any(i.opcode.split(".")[0] in _SUSPENDING for i in self.instructions)

    def _suspend(self, wait):
        self.resume_points += 1
        return "t.resume = %d; return Wait::%s; case %d:;" % (
            self.resume_points, wait, self.resume_points)

    def _exchange(self, kind, value, mask, first="0", second="0"):
        o = self.operands
        return "t.exchange = {Exchange::%s, %s, %s, %s, %s}; %s" % (
            kind, value, o.read(mask, "u32"), first, second, self._suspend("kWarp"))

    def _warp(self, opcode, m, a):
        """shfl.sync, vote.sync, redux.sync and bar.warp.sync."""
        o = self.operands
        if opcode == "shfl" and m[:1] == ["sync"] and m[1] in _SHUFFLES and m[2:] == ["b32"]:
            register, _, predicate = a[0].partition("|")
            code = self._exchange(_SHUFFLES[m[1]], o.read(a[1], "u32"), a[4],
                                  o.read(a[2], "u32"), o.read(a[3], "u32"))
            code += o.write(register, "t.exchange.result")
            return code + (o.write(predicate, "t.exchange.valid") if predicate else "")
        if opcode == "vote" and m[:1] == ["sync"] and m[1] in _VOTES:
            code = self._exchange(_VOTES[m[1]], "uint32_t{%s}" % o.read(a[1], "pred"), a[2])
            return code + o.write(a[0], "t.exchange.result" if m[1] == "ballot"
                                  else "t.exchange.result != 0")
        if opcode == "redux" and m[:1] == ["sync"] and m[1] in _REDUCTIONS:
            signed = "1" if m[2] == "s32" else "0"
            return self._exchange(_REDUCTIONS[m[1]], o.read(a[1], "u32"), a[2], signed) + \
                o.write(a[0], "t.exchange.result")
        if opcode == "bar" and m == ["warp", "sync"]:
            return self._exchange("kSync", "0", a[0])
        raise Unsupported("form")

    def _control(self, opcode, m, a):
        """What is no plain value: jumps, barriers; None for others."""
        if opcode == "bra":
            return "goto %s;" % self._label(a[0])
        if opcode == "brx":
            cases = " ".join("case %d: goto %s;" % (i, self._label(label))
                             for i, label in enumerate(self.entry.targets[a[1]]))
            return "switch (%s) { %s default: Fault(t, \"a jump out of its table\"); }" % (
                self.operands.read(a[0], "u32"), cases)
        if opcode in ("ret", "exit"):
            return "return Wait::kEnd;"
        if opcode == "trap":
            return "Fault(t, \"trap\");"
        if opcode in _FENCES:
            return ";"
        if opcode in ("bar", "barrier") and m[:1] != ["warp"]:
            if m not in (["sync"], ["cta", "sync"], ["sync", "aligned"]) or a != ["0"]:
                raise Unsupported("only barrier 0 of all threads")
            return self._suspend("kBarrier")
        if opcode in _SUSPENDING:
            return self._warp(opcode, m, a)
        return None

    def _label(self, name):
        return "L" + cpp_name(name)

    def _instruction(self, instruction):
        opcode, *modifiers = instruction.opcode.split(".")
        try:
            code = self._control(opcode, modifiers, instruction.operands)
            if code is None:
                if opcode not in opcodes.OPCODES:
                    raise Unsupported("instruction")
                code = opcodes.OPCODES[opcode](self.operands, modifiers, instruction.operands)
        except (Unsupported, IndexError, KeyError, ValueError) as problem:
            raise ptx.PtxError("%s:%d: no translation of '%s %s' (%s)" % (
                self.file_name, instruction.line, instruction.opcode,
                ", ".join(instruction.operands), problem)) from None
        guard = ""
        if instruction.guard:
            guard = "if (%sr.%s) " % ("!" if instruction.guard_negated else "",
                                      cpp_name(instruction.guard))
        return "  %s{ %s }" % (guard, code)

    def _body(self):
        """The statements, each run of them without a jump counted at its begin."""
        lines, block = [], []

        def close():
            if block:
                lines.append("  t.instructions += %d;" % len(block))
                lines.extend(block)
                block.clear()

        for statement in self.entry.body:
            if isinstance(statement, ptx.Label):
                close()
                lines.append(self._label(statement.name) + ":;")
                continue
            block.append(self._instruction(statement))
            if statement.opcode.split(".")[0] in ("bra", "brx", "ret", "exit"):
                close()
        close()
        return lines

    def function(self):
        entry = self.entry
        fields = " ".join("%s %s;" % (CPP_TYPES[kind], cpp_name(name))
                          for name, kind in entry.registers.items())
        out = ["// " + entry.name,
               "struct Registers%d { %s };" % (self.number, fields),
               "Wait Kernel%d([[maybe_unused]] const uint8_t* params, Thread& t, "
               "[[maybe_unused]] void* saved) {" % self.number]
        if self.suspends:
            out.append("  [[maybe_unused]] Registers%d& r = *static_cast<Registers%d*>(saved);"
                       % (self.number, self.number))
            out.append("  switch (t.resume) { case 0:;")
        else:
            out.append("  [[maybe_unused]] Registers%d r{};" % self.number)
        out += self._body()
        out.append("%s  return Wait::kEnd;\n}" % ("  }\n" if self.suspends else ""))
        return "\n".join(out)

    def row(self):
        entry = self.entry
        params = ", ".join("{%d, %d}" % (p.offset, p.size) for p in entry.params)
        return '{"%s", Kernel%d, %s, %s, %d, %d, %d, %d, {%s}}' % (
            entry.name, self.number,
            "sizeof(Registers%d)" % self.number if self.suspends else "0",
            "true" if self.suspends else "false", entry.shared_bytes, entry.local_bytes,
            entry.max_threads, entry.param_bytes, params)


def translate(modules):
    """C++ of all entries of (file name, text of PTX) pairs.

    What several files have under one name, an instantiation of one template, is taken once.
    """
    kernels = {}
    for file_name, text in modules:
        for entry in ptx.read(text, file_name):
            kernels.setdefault(entry.name, _Kernel(entry, len(kernels), file_name))
    return "\n\n".join(
        ['// Made from PTX by tests/gpu/emulator/translate.\n'
         '#include "tests/gpu/emulator/device.h"\n\n'
         'namespace monsoon::emulator {\nnamespace {']
        + [k.function() for k in kernels.values()]
        + ["const KernelRegistration registration({\n    %s});\n\n}  // namespace\n"
           "}  // namespace monsoon::emulator\n" % ",\n    ".join(
               k.row() for k in kernels.values())])
