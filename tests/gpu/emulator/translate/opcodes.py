"""One function per PTX instruction: its C++, or Unsupported.

Each takes the modifiers behind the opcode and the operands; a modifier that it does not
know is an error, so that nothing is translated to something near it.
"""

from operands import CPP_TYPES, Unsupported
from ptx import SIZES

_ROUNDINGS = {"rz": "FE_TOWARDZERO", "rm": "FE_DOWNWARD", "rp": "FE_UPWARD"}
_INTEGER_ROUNDINGS = {"rni": "kNearest", "rzi": "kZero", "rmi": "kDown", "rpi": "kUp"}
_CACHE = {"ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "weak", "volatile", "relaxed",
          "gpu", "cta", "sys", "L1::no_allocate", "L1::evict_last", "L1::evict_first",
          "L1::evict_normal", "L1::evict_unchanged", "L2::64B", "L2::128B", "L2::256B"}


def _kind(modifiers, *allowed):
    """The type, which stands last; the others must be among those allowed."""
    for modifier in modifiers[:-1]:
        if modifier not in allowed:
            raise Unsupported("modifier ." + modifier)
    if not modifiers or modifiers[-1] not in CPP_TYPES:
        raise Unsupported("type")
    return modifiers[-1]


def _is_float(kind):
    return kind in ("f16", "bf16", "f32", "f64")


def _unsigned(kind):
    return kind.replace("s", "u") if kind[0] == "s" else kind


def _finish(modifiers, value):
    if "ftz" in modifiers:
        value = "Flush(%s)" % value
    return "Saturate(%s)" % value if "sat" in modifiers else value


def _floats(o, modifiers, operands, kind):
    values = [o.read(x, kind) for x in operands]
    return ["Flush(%s)" % v for v in values] if "ftz" in modifiers else values


def _binary(function, sign):
    def emit(o, m, a):
        kind = _kind(m, "rn", "rz", "rm", "rp", "ftz", "sat", "lo", "full", "approx")
        if not _is_float(kind):
            if "sat" in m:
                raise Unsupported("modifier .sat of an integer")
            kind = _unsigned(kind)  # wraps around
            return o.write(a[0], "As<%s>(%s %s %s)" % (CPP_TYPES[kind], o.read(a[1], kind), sign,
                                                      o.read(a[2], kind)))
        x, y = _floats(o, m, a[1:], kind)
        rounding = next((_ROUNDINGS[r] for r in m if r in _ROUNDINGS), None)
        value = "Rounded(%s, Op::%s, %s, %s)" % (rounding, function, x, y) if rounding else \
            "%s %s %s" % (x, sign, y)
        return o.write(a[0], _finish(m, value))
    return emit


def _mul(o, m, a):
    if m[0] in ("wide", "hi"):
        kind = _kind(m, m[0])
        return o.write(a[0], "%s(%s, %s)" % ("MulWide" if m[0] == "wide" else "MulHigh",
                                             o.read(a[1], kind), o.read(a[2], kind)))
    return _binary("kMul", "*")(o, m, a)


def _mad(o, m, a):
    if m[-1] in ("f32", "f64"):
        return _fma(o, m, a)
    kind = _kind(m, "lo", "wide", "hi")
    x, y = o.read(a[1], kind), o.read(a[2], kind)
    if m[0] == "lo":
        u = _unsigned(kind)
        return o.write(a[0], "As<%s>(%s * %s + %s)" % (
            CPP_TYPES[u], o.read(a[1], u), o.read(a[2], u), o.read(a[3], u)))
    wide = kind[0] + str(2 * SIZES[kind] * 8) if m[0] == "wide" else kind
    product = "%s(%s, %s)" % ("MulWide" if m[0] == "wide" else "MulHigh", x, y)
    u = _unsigned(wide)
    return o.write(a[0], "As<%s>(As<%s>(%s) + %s)" % (CPP_TYPES[u], CPP_TYPES[u], product,
                                                    o.read(a[3], u)))


def _fma(o, m, a):
    kind = _kind(m, "rn", "rz", "rm", "rp", "ftz", "sat")
    x, y, z = _floats(o, m, a[1:], kind)
    rounding = next((_ROUNDINGS[r] for r in m if r in _ROUNDINGS), None)
    value = "RoundedFma(%s, %s, %s, %s)" % (rounding, x, y, z) if rounding else \
        "Fma(%s, %s, %s)" % (x, y, z)
    return o.write(a[0], _finish(m, value))


def _div(o, m, a):
    if _is_float(m[-1]):
        return _binary("kDiv", "/")(o, m, a)
    kind = _kind(m)
    return o.write(a[0], "Divide(t, %s, %s)" % (o.read(a[1], kind), o.read(a[2], kind)))


def _rem(o, m, a):
    kind = _kind(m)
    return o.write(a[0], "Remainder(t, %s, %s)" % (o.read(a[1], kind), o.read(a[2], kind)))


def _call(function, *allowed, extra=""):
    """function(operands...), all of the instruction's type."""
    def emit(o, m, a):
        kind = _kind(m, *allowed)
        values = _floats(o, m, a[1:], kind)
        return o.write(a[0], _finish(m, "%s(%s%s)" % (function, ", ".join(values), extra)))
    return emit


def _minmax(function):
    def emit(o, m, a):
        kind = _kind(m, "ftz", "NaN")
        x, y = _floats(o, m, a[1:], kind)
        nan = ", true" if "NaN" in m else ""
        return o.write(a[0], "%s<%s>(%s, %s%s)" % (function, CPP_TYPES[kind], x, y, nan))
    return emit


def _rounded_unary(function):
    """rcp and sqrt: approximations are computed to nearest."""
    def emit(o, m, a):
        kind = _kind(m, "rn", "approx", "ftz")
        (x,) = _floats(o, m, a[1:], kind)
        return o.write(a[0], _finish(m, "%s(%s)" % (function, x)))
    return emit


def _logic(sign):
    def emit(o, m, a):
        kind = _kind(m)
        return o.write(a[0], "As<%s>(%s %s %s)" % (CPP_TYPES[kind], o.read(a[1], kind), sign,
                                                  o.read(a[2], kind)))
    return emit


def _not(o, m, a):
    kind = _kind(m)
    return o.write(a[0], "As<%s>(%s%s)" % (CPP_TYPES[kind], "!" if kind == "pred" else "~",
                                          o.read(a[1], kind)))


def _neg(o, m, a):
    kind = _kind(m, "ftz")
    if _is_float(kind):
        return o.write(a[0], "-%s" % _floats(o, m, a[1:], kind)[0])
    u = _unsigned(kind)
    return o.write(a[0], "As<%s>(0 - %s)" % (CPP_TYPES[u], o.read(a[1], u)))


def _shift(function):
    def emit(o, m, a):
        kind = _kind(m)
        return o.write(a[0], "%s(%s, %s)" % (function, o.read(a[1], kind), o.read(a[2], "u32")))
    return emit


def _field(function):
    """bfe and bfi: the last two operands are a place and a length."""
    def emit(o, m, a):
        kind = _kind(m)
        values = [o.read(x, kind) for x in a[1:-2]] + [o.read(x, "u32") for x in a[-2:]]
        return o.write(a[0], "%s(%s)" % (function, ", ".join(values)))
    return emit


def _funnel(o, m, a):
    if len(m) != 3 or m[0] not in "lr" or m[1] not in ("wrap", "clamp") or m[2] != "b32":
        raise Unsupported("form")
    return o.write(a[0], "FunnelShift%s(%s, %s)" % (
        "Left" if m[0] == "l" else "Right", ", ".join(o.read(x, "u32") for x in a[1:]),
        "true" if m[1] == "clamp" else "false"))


def _compare(comparison, kind, x, y):
    signs = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
             "lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
    if _is_float(kind):
        if comparison in ("num", "nan"):
            return "%sUnordered(%s, %s)" % ("!" if comparison == "num" else "", x, y)
        unordered = comparison.endswith("u") and comparison[:-1] in signs
        sign = signs.get(comparison[:-1] if unordered else comparison)
        if sign is None or comparison in ("lo", "ls", "hi", "hs"):
            raise Unsupported("comparison " + comparison)
        both = "Unordered(%s, %s)" % (x, y)
        return "(%s || %s %s %s)" % (both, x, sign, y) if unordered else \
            "(!%s && %s %s %s)" % (both, x, sign, y)
    if comparison not in signs:
        raise Unsupported("comparison " + comparison)
    return "(%s %s %s)" % (x, signs[comparison], y)


def _setp(o, m, a):
    booleans = {"and": "&&", "or": "||", "xor": "!="}
    kind = _kind(m, "ftz", *m[:2])
    read = "u" + kind[1:] if m[0] in ("lo", "ls", "hi", "hs") else kind
    x, y = _floats(o, m, a[1:3], read)
    value = _compare(m[0], kind, x, y)
    first, _, second = a[0].partition("|")
    combine = ""
    if len(m) > 2 and m[1] in booleans:
        combine = " %s %s" % (booleans[m[1]], o.read(a[3], "pred"))
    elif len(m) > 2 and m[1] != "ftz":
        raise Unsupported("modifier ." + m[1])
    code = o.write(first, value + combine)
    if second:
        code = "const bool q = !%s%s; %s %s" % (value, combine, code, o.write(second, "q"))
    return code


def _selp(o, m, a):
    kind = _kind(m)
    return o.write(a[0], "%s ? %s : %s" % (o.read(a[3], "pred"), o.read(a[1], kind),
                                           o.read(a[2], kind)))


def _mov(o, m, a):
    kind = _kind(m)
    if a[0].startswith("{"):
        parts = o.vector(a[0])
        part = "b%d" % (SIZES[kind] * 8 // len(parts))
        code = "const uint64_t v = %s;" % o.read(a[1], kind)
        for i, register in enumerate(parts):
            code += " " + o.write(register, "static_cast<%s>(v >> %d)" % (
                CPP_TYPES[part], i * SIZES[part] * 8))
        return code
    if a[1].startswith("{"):
        parts = o.vector(a[1])
        part = "b%d" % (SIZES[kind] * 8 // len(parts))
        terms = ["static_cast<uint64_t>(%s) << %d" % (o.read(x, part), i * SIZES[part] * 8)
                 for i, x in enumerate(parts)]
        return o.write(a[0], "static_cast<%s>(%s)" % (CPP_TYPES[kind], " | ".join(terms)))
    return o.write(a[0], o.read(a[1], kind))


def _cvt(o, m, a):
    if len(m) < 2:
        raise Unsupported("form")
    to, source, rest = m[-2], m[-1], m[:-2]
    for modifier in rest:
        if modifier not in ("rn", "ftz", "sat", *_ROUNDINGS, *_INTEGER_ROUNDINGS):
            raise Unsupported("modifier ." + modifier)
    if to in ("f16x2", "bf16x2") and source == "f32" and rest == ["rn"]:
        half = CPP_TYPES[to[:-2]]
        return o.write(a[0], "Pack<%s>(%s, %s)" % (half, o.read(a[1], "f32"),
                                                   o.read(a[2], "f32")))
    if to not in CPP_TYPES or source not in CPP_TYPES:
        raise Unsupported("types")
    (value,) = _floats(o, rest, a[1:], source)
    integer_rounding = next((_INTEGER_ROUNDINGS[r] for r in rest if r in _INTEGER_ROUNDINGS), None)
    rounding = next((_ROUNDINGS[r] for r in rest if r in _ROUNDINGS), "FE_TONEAREST")
    cpp = CPP_TYPES[to]
    if _is_float(source) and not _is_float(to):
        value = "ToInteger<%s>(%s, Integral::%s)" % (cpp, value, integer_rounding or "kZero")
    elif _is_float(to):
        if integer_rounding:
            value = "ToIntegral(%s, Integral::%s)" % (value, integer_rounding)
        value = _finish(rest, "ToFloat<%s>(%s, %s)" % (cpp, value, rounding))
    elif "sat" in rest:
        value = "ClampTo<%s>(%s)" % (cpp, value)
    else:
        value = "static_cast<%s>(%s)" % (cpp, value)
    return o.write(a[0], value)


def _cvta(o, m, a):
    """Generic addresses of shared and local memory stand in windows of their own."""
    windows = {"global": "0", "shared": "kSharedWindow", "local": "kLocalWindow", "param": None}
    space = m[1] if m[0] == "to" else m[0]
    space = space.removesuffix("::cta")
    if windows.get(space) is None:
        raise Unsupported("space " + space)
    return o.write(a[0], "%s %s %s" % (o.read(a[1], "u64"), "-" if m[0] == "to" else "+",
                                       windows[space]))


def _memory(m):
    """(space, type, elements) of ld and st."""
    space, count = "Generic", 1
    spaces = {"global": "Global", "shared": "Shared", "local": "Local", "param": "Param"}
    for modifier in m[:-1]:
        name = modifier.removesuffix("::cta") if modifier.startswith("shared") else modifier
        if name in spaces:
            space = spaces[name]
        elif modifier in ("v2", "v4", "v8"):
            count = int(modifier[1])
        elif modifier not in _CACHE:
            raise Unsupported("modifier ." + modifier)
    if m[-1] not in CPP_TYPES:
        raise Unsupported("type")
    return space, m[-1], count


def _ld(o, m, a):
    space, kind, count = _memory(m)
    where, address = o.address(a[1])
    registers = o.vector(a[0])
    if (where == "param" and space != "Param") or len(registers) != count:
        raise Unsupported("form")
    size, cpp = SIZES[kind], CPP_TYPES[kind]
    if space == "Param" and where != "param":
        return "const uint64_t at = %s; %s" % (address, " ".join(
            o.write(r, "ParameterAt<%s>(t, params, %d, at + %d)"
                    % (cpp, o.entry.param_bytes, i * size)) for i, r in enumerate(registers)))
    if space == "Param":
        return " ".join(o.write(r, "Parameter<%s>(params + %s)" % (cpp, int(address) + i * size))
                        for i, r in enumerate(registers))
    # All are read before any is written: a register may be the address too.
    return "const auto v = Load%s<%s, %d>(t, %s); %s" % (
        space, cpp, count, address,
        " ".join(o.write(r, "v[%d]" % i) for i, r in enumerate(registers)))


def _st(o, m, a):
    space, kind, count = _memory(m)
    where, address = o.address(a[0])
    values = o.vector(a[1])
    if where == "param" or len(values) != count:
        raise Unsupported("form")
    cpp = CPP_TYPES[kind]
    return "Store%s<%s, %d>(t, %s, {%s});" % (space, cpp, count, address,
                                             ", ".join(o.read(v, kind) for v in values))


def _atomic(o, m, a):
    raise Unsupported("atomics: the order of their sums is not defined, and so are the bits")


OPCODES = {
    "add": _binary("kAdd", "+"), "sub": _binary("kSub", "-"), "mul": _mul, "mad": _mad,
    "fma": _fma, "div": _div, "rem": _rem, "min": _minmax("Min"), "max": _minmax("Max"),
    "abs": _call("Absolute", "ftz"), "neg": _neg, "copysign": _call("CopySign"),
    "sad": _call("SumOfDifference"), "rcp": _rounded_unary("Reciprocal"),
    "sqrt": _rounded_unary("SquareRoot"), "rsqrt": _rounded_unary("ReciprocalRoot"),
    "ex2": _call("PowerOfTwo", "approx", "ftz"), "lg2": _call("Log2", "approx", "ftz"),
    "sin": _call("Sine", "approx", "ftz"), "cos": _call("Cosine", "approx", "ftz"),
    "tanh": _call("HyperbolicTangent", "approx"),
    "and": _logic("&"), "or": _logic("|"), "xor": _logic("^"), "not": _not,
    "shl": _shift("ShiftLeft"), "shr": _shift("ShiftRight"), "shf": _funnel,
    "bfe": _field("ExtractField"), "bfi": _field("InsertField"), "brev": _call("ReverseBits"),
    "popc": _call("CountOnes"), "clz": _call("CountLeadingZeros"), "prmt": _call("PermuteBytes"),
    "bfind": _call("HighestBit"), "lop3": _call("AnyLogic"), "setp": _setp, "selp": _selp,
    "mov": _mov, "cvt": _cvt, "cvta": _cvta, "ld": _ld, "ldu": _ld, "st": _st,
    "atom": _atomic, "red": _atomic,
}
