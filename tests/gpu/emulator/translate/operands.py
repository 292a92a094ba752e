"""C++ of PTX operands: registers, immediates, special registers, names and addresses."""

import re

CPP_TYPES = {
    "b8": "uint8_t", "u8": "uint8_t", "s8": "int8_t",
    "b16": "uint16_t", "u16": "uint16_t", "s16": "int16_t",
    "b32": "uint32_t", "u32": "uint32_t", "s32": "int32_t",
    "b64": "uint64_t", "u64": "uint64_t", "s64": "int64_t",
    "f16": "Half", "bf16": "Bfloat16", "f32": "float", "f64": "double", "pred": "bool",
}

_SPECIAL = {
    **{"%tid." + c: "t.thread_in_block[%d]" % i for i, c in enumerate("xyz")},
    **{"%ctaid." + c: "t.block_in_grid[%d]" % i for i, c in enumerate("xyz")},
    **{"%ntid." + c: "t.launch->block_size[%d]" % i for i, c in enumerate("xyz")},
    **{"%nctaid." + c: "t.launch->grid_size[%d]" % i for i, c in enumerate("xyz")},
    "%laneid": "(t.index % 32)", "%warpid": "(t.index / 32)", "WARP_SZ": "32u",
    "%lanemask_eq": "(1u << t.index % 32)",
    "%lanemask_lt": "((1u << t.index % 32) - 1)",
    "%lanemask_le": "((2u << t.index % 32) - 1)",
    "%lanemask_gt": "~((2u << t.index % 32) - 1)",
    "%lanemask_ge": "~((1u << t.index % 32) - 1)",
}


class Unsupported(Exception):
    """A form of an instruction that has no translation."""


def cpp_name(name):
    """A PTX name as a C++ one."""
    return re.sub(r"\W", "_", name.lstrip("%"))


class Operands:
    def __init__(self, entry):
        self.entry = entry

    def is_register(self, text):
        return text in self.entry.registers

    def read(self, text, kind):
        """An expression of C++ type CPP_TYPES[kind]."""
        want = CPP_TYPES[kind]
        if kind == "pred" and text.startswith("!"):
            return "!" + self.read(text[1:].strip(), kind)
        if re.match(r"0[fF][0-9A-Fa-f]{8}$", text):
            return "As<%s>(Bits<float>(0x%su))" % (want, text[2:])
        if re.match(r"0[dD][0-9A-Fa-f]{16}$", text):
            return "As<%s>(Bits<double>(0x%sull))" % (want, text[2:])
        if re.match(r"-?(0[xX][0-9A-Fa-f]+|\d+)U?$", text):
            value = text.rstrip("U")
            return "static_cast<%s>(%sull)" % (want, value)
        if text in _SPECIAL:
            return "As<%s>(%s)" % (want, _SPECIAL[text])
        for places in (self.entry.shared, self.entry.local):
            if text in places:
                return "static_cast<%s>(%du)" % (want, places[text])
        if param := self.entry.param(text):  # its address
            return "static_cast<%s>(%du)" % (want, param.offset)
        if self.is_register(text):
            name = "r." + cpp_name(text)
            same = CPP_TYPES[self.entry.registers[text]] == want
            return name if same else "As<%s>(%s)" % (want, name)
        raise Unsupported("operand " + text)

    def write(self, register, value):
        """A statement that sets a register; the value's type says how it is extended."""
        if register == "_":
            return "(void)(%s);" % value
        if not self.is_register(register):
            raise Unsupported("destination " + register)
        kind = CPP_TYPES[self.entry.registers[register]]
        return "r.%s = As<%s>(%s);" % (cpp_name(register), kind, value)

    def address(self, text):
        """('param', offset) or ('', expression) of what stands in brackets."""
        match = re.match(r"\[\s*([%\w$.]+)\s*(?:\+\s*(-?\d+))?\s*\]$", text)
        if not match:
            raise Unsupported("address " + text)
        base, offset = match.group(1), int(match.group(2) or 0)
        if param := self.entry.param(base):
            return "param", str(param.offset + offset)
        return "", "%s + (%dll)" % (self.read(base, "u64"), offset)

    @staticmethod
    def vector(text):
        """The elements of {a, b}, or the one that stands alone."""
        return [e.strip() for e in text.strip("{}").split(",")]
