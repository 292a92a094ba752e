"""Writes protobuf text format: the job file, from plain Python values."""

from __future__ import annotations

import math
from typing import Any, List, Mapping

from .errors import InvalidArgument


class Token(str):
    """A name of an enum, written without quotes."""


def quoted(text: str) -> str:
    """A string literal; what is not printable ASCII is written byte by byte in octal."""
    out = []
    for byte in text.encode("utf-8"):
        character = chr(byte)
        if character in '"\\':
            out.append("\\" + character)
        elif 32 <= byte < 127:
            out.append(character)
        else:
            out.append(f"\\{byte:03o}")
    return '"' + "".join(out) + '"'


def number(name: str, value: float) -> str:
    """A number that reads back as the same one."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidArgument(f"{name} is {value}; it must be finite")
        return repr(float(value))
    return str(int(value))


def write(fields: Mapping[str, Any], indent: str = "") -> str:
    """The text of a message.

    A None is left out, a mapping is a message (an empty one too), a list repeats its field.
    >>> write({"name": "a", "stop": {"epochs": 3}})
    'name: "a"\\nstop {\\n  epochs: 3\\n}\\n'
    """
    lines: List[str] = []
    for name, value in fields.items():
        for item in value if isinstance(value, (list, tuple)) else [value]:
            if item is None:
                continue
            if isinstance(item, Mapping):
                lines.append(f"{indent}{name} {{\n{write(item, indent + '  ')}{indent}}}\n")
                continue
            if isinstance(item, bool):
                text = "true" if item else "false"
            elif isinstance(item, Token):
                text = str(item)
            elif isinstance(item, str):
                text = quoted(item)
            else:
                text = number(name, item)
            lines.append(f"{indent}{name}: {text}\n")
    return "".join(lines)
