"""Messages of protocol buffers, by hand, as a hostile client writes them."""

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def varint(value):
    out = b""
    while value > 0x7f:
        out += bytes([value & 0x7f | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    """An int as a varint, bytes or text with their length."""
    if isinstance(value, int):
        return varint(number << 3 | VARINT) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | BYTES) + varint(len(value)) + value


def fixed64(number, value):
    """Of the eight bytes that fields() gives for one."""
    return varint(number << 3 | FIXED64) + value


def fields(data):
    """(number, value) of each field: an int, or bytes."""
    at = 0

    def take():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = take()
        kind = key & 7
        if kind == VARINT:
            yield key >> 3, take()
            continue
        size = {FIXED64: 8, FIXED32: 4}.get(kind) or take()
        yield key >> 3, data[at:at + size]
        at += size
