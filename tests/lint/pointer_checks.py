"""Comments that send their reader to a file: the file is there, and has what it is said to have."""

import os
import re

import rules
from source_tree import SOURCE, allowed

COMMENTED = (".cc", ".h", ".cu", ".cuh", ".proto", ".py", ".sh")
# A comment's line, or a string of documentation's; what stands before the sign is not looked at.
CPLUSPLUS = re.compile(r"(?:^|\s)//+ ?(.*)$|^\s*/?\*+ ?(.*?)(?:\*/)?$")
HASHED = re.compile(r"(?:^|\s)# ?(.*)$")
NAMED_FILE = re.compile(r"(?<!\]\()(?<![\w.\-/$}*{<~])((?:[\w.\-]+/)*[\w\-]+\."
                        r"(?:h|cc|cu|cuh|proto|py|sh|bzl|md))\b(?![\w*/(<{\[-]|\.\w)")
# `Message of job.proto`, `Message in proto/job.proto`, `job.proto, message Message`.
BEFORE = re.compile(r"\b([A-Z]\w+)(?:\.\w+)* (?:of|in) (?:proto/)?(\w+\.proto)\b")
AFTER = re.compile(r"\b(?:proto/)?(\w+\.proto), (?:message )?([A-Z]\w+)\b")
# Made by a build, or in the place of many names.
NO_FILE = re.compile(r"\.pb\.(?:h|cc)$|(?:^|[/_])[A-Z]+[._]")


def check_pointers(tree):
    """A comment names files that exist, and messages in the file that defines them."""
    paths = set(tree.files)
    # A library's header is known by its being included.
    paths.update(header for path in tree.matching(SOURCE) for _, header in tree.includes(path))
    names = {os.path.basename(path) for path in paths}
    messages = _messages(tree)
    for path in tree.matching(COMMENTED):
        for number, text in comments(path, tree.lines(path)):
            for offset, name in _named_files(text):
                if not _is_there(name, path, paths, names):
                    yield path, number(offset), f"names {name}, which is not there"
            for offset, message, file in _named_messages(text):
                homes = messages.get(message, set())
                if homes and file not in homes and file in messages[""]:
                    home = " or ".join(sorted(homes))
                    yield path, number(offset), f"seeks {message} in {file}; it is in {home}"


def comments(path, lines):
    """(function from an offset to its line, text) of each run of commented lines."""
    block, first = [], 0
    quoted = False  # within a string of documentation
    for number, line in enumerate(lines + [""], 1):
        begins = path.endswith(".py") and line.strip().startswith(('"""', 'r"""'))
        quotes = line.count('"""') if begins or quoted else 0
        comment = line.strip() if begins or quoted else _comment(path, line)
        quoted ^= quotes % 2 == 1
        if comment is not None:
            first = first if block else number
            block.append(comment)
        elif block:
            yield _line_of(first, block), " ".join(block)
            block = []


def _line_of(first, block):
    ends = []
    for text in block:
        ends.append((ends[-1] if ends else 0) + len(text) + 1)
    return lambda offset: first + sum(1 for end in ends if end <= offset)


def _comment(path, line):
    pattern = HASHED if path.endswith((".py", ".sh")) else CPLUSPLUS
    match = pattern.search(line) if "//" in line or "*" in line or "#" in line else None
    return next((group for group in match.groups() if group is not None), None) if match else None


def _named_files(text):
    return [(match.start(), match.group(1)) for match in NAMED_FILE.finditer(text)]


def _named_messages(text):
    found = [(match.start(), match.group(1), match.group(2)) for match in BEFORE.finditer(text)]
    return found + [(match.start(), match.group(2), match.group(1))
                    for match in AFTER.finditer(text)]


def _is_there(name, path, paths, names):
    if NO_FILE.search(name) or allowed(name, rules.FOREIGN_FILES):
        return True
    if "/" not in name:
        return name in names
    near = os.path.normpath(os.path.join(os.path.dirname(path), name))
    return name in paths or near in paths or any(known.endswith("/" + name) for known in paths)


def _messages(tree):
    """{message or enum: {proto files that define it}}, and under "" all proto files."""
    found = {"": set()}
    for path in tree.matching((".proto",)):
        file = os.path.basename(path)
        found[""].add(file)
        for line in tree.lines(path):
            match = re.match(r"\s*(?:message|enum|service) (\w+)", line)
            if match:
                found.setdefault(match.group(1), set()).add(file)
    return found
