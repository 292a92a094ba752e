"""Reads protobuf text, as model and job files have it, into dicts: what the tests' peers need of
it. A field is a list of its values; see one() and of(). Knows no schema. ValueError for what is no
protobuf text."""

import re

_TOKEN = re.compile(r"""\s+|\#[^\n]*|(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
                        |(?P<word>[-+.\w]+)|(?P<mark>[{}<>\[\]:,;])""", re.X)


def parse(text):
    tokens = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"protobuf text: what is {text[at:at + 20]!r}?")
        if match.lastgroup:
            tokens.append((match.lastgroup, match.group(match.lastgroup)))
        at = match.end()
    try:
        message, at = _message(tokens, 0)
    except IndexError:
        raise ValueError("protobuf text: it ends within a field") from None
    if at != len(tokens):
        raise ValueError("protobuf text: '}' without '{'")
    return message


def read(path):
    with open(path, encoding="utf-8") as file:
        return parse(file.read())


def of(message, field):
    """All values of a field."""
    return message.get(field, [])


def one(message, field, otherwise=None):
    """The last value of a field."""
    values = of(message, field)
    return values[-1] if values else otherwise


def _message(tokens, at):
    message = {}
    while at < len(tokens) and tokens[at][1] not in ("}", ">"):
        kind, name = tokens[at]
        if kind != "word":
            raise ValueError(f"protobuf text: a field's name, not {name!r}, belongs here")
        at += 1
        if tokens[at][1] == ":":
            at += 1
        if tokens[at][1] == "[":
            values, at = _list(tokens, at + 1)
        else:
            value, at = _value(tokens, at)
            values = [value]
        message.setdefault(name, []).extend(values)
        if at < len(tokens) and tokens[at][1] in (",", ";"):
            at += 1
    return message, at


def _list(tokens, at):
    values = []
    while tokens[at][1] != "]":
        value, at = _value(tokens, at)
        values.append(value)
        if tokens[at][1] == ",":
            at += 1
    return values, at + 1


def _value(tokens, at):
    kind, text = tokens[at]
    if text in ("{", "<"):
        message, at = _message(tokens, at + 1)
        if at == len(tokens):
            raise ValueError("protobuf text: '{' without '}'")
        return message, at + 1
    if kind == "mark":
        raise ValueError(f"protobuf text: a value, not {text!r}, belongs here")
    if kind == "string":
        parts = []
        while at < len(tokens) and tokens[at][0] == "string":
            parts.append(tokens[at][1][1:-1].encode().decode("unicode_escape"))
            at += 1
        return "".join(parts), at
    if text in ("true", "false"):
        return text == "true", at + 1
    try:
        return _number(text), at + 1
    except ValueError:
        return text, at + 1


def _number(text):
    if re.fullmatch(r"[-+]?0\d+", text):
        return int(text, 8)
    hexadecimal = re.match(r"[-+]?0[xX]", text)
    return float(text) if not hexadecimal and re.search(r"[.eEn]", text) else int(text, 0)
