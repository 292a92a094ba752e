"""What stands in C++ sources: classes with their methods and members, and functions.

It reads the uniform text that clang-format leaves, not the language: a function's body begins
with " {", a braced initialiser without the space. What a preprocessor line says is not seen.
"""

import bisect
import re

# In one go, since a quotation mark may stand in a comment, and the other way round.
SKIPPED = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
                     r"|(?<![\w])'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:\\\n|[^\n])*", re.S | re.M)
TOKEN = re.compile(r"[{}();]")
NAMESPACE = re.compile(r"^(?:inline )?namespace\s*([\w:]*)$")
CLASS = re.compile(r"^(class|struct|union) (?:(?:[A-Z_]{3,}|alignas)(?:\(.*?\))? )*([\w:]+)")
ANNOTATION = re.compile(r"\b(?:ABSL_[A-Z_]+|alignas|__attribute__|decltype|noexcept|requires)\b"
                        r"(?: ?\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))?|\[\[[^\]]*\]\]")
ACCESS = re.compile(r"^(?:(?:public|private|protected) ?: ?)+")
LEADING = re.compile(r"(?:\s|(?:public|private|protected)\s*:(?!:))*")
NO_MEMBER = ("using ", "typedef ", "friend ", "static_assert", "static ", "class ", "struct ",
             "enum ", "union ", "template ", "extern ")


class Function:
    """A definition: `owner` is the class, "" for a free function; `body` its text."""

    def __init__(self, path, owner, name, first, last, body):
        self.path, self.owner, self.name = path, owner, name
        self.first, self.last, self.body = first, last, body

    @property
    def lines(self):
        return self.last - self.first + 1


class Class:
    """`name` is qualified; `methods` are declarations, overloads each, without constructors,
    destructors and what is defaulted or deleted; `members` are non-static."""

    def __init__(self, path, line, name, kind):
        self.path, self.line, self.name, self.kind = path, line, name, kind
        self.methods, self.members = [], []


class Source:
    """The classes and functions of one file."""

    def __init__(self, path, text):
        self.path, self.classes, self.functions = path, [], []
        self._text = SKIPPED.sub(_blank, text)
        self._starts = [0] + [m.end() for m in re.finditer("\n", self._text)]
        self._read()

    def _line(self, position):
        return bisect.bisect_right(self._starts, position)

    def _read(self):
        text, scopes, begin, depth = self._text, [], 0, 0
        skip_until = 0  # the end of a body or an initialiser
        for match in TOKEN.finditer(text):
            at, token = match.start(), match.group()
            if at < skip_until:
                continue
            if token in "()":
                depth += 1 if token == "(" else -1
            elif depth > 0:
                continue  # a default argument
            elif token == ";":
                self._declare(scopes, text[begin:at])
                begin = at + 1
            elif token == "}":
                if scopes:
                    scopes.pop()
                begin = at + 1
            else:
                begin, skip_until = self._open(scopes, begin, at)

    def _open(self, scopes, begin, at):
        """A '{' at `at`, of what began at `begin`: where the next declaration begins, and
        up to where nothing is looked at."""
        header = _plain(self._text[begin:at])
        named = NAMESPACE.match(header)
        class_ = CLASS.match(header)
        if named:
            scopes.append(("namespace", named.group(1), None))
        elif class_ and "(" not in header:
            self._open_class(scopes, class_, at)
        elif header in ("extern", 'extern ""', 'extern "C"'):
            scopes.append(("namespace", "", None))
        else:
            end = _closing(self._text, at)
            if "(" not in header or _is_initialiser(header) or self._text[at - 1] not in " \n":
                return begin, end
            self._add_function(scopes, header, begin, at, end)
            return end, end
        return at + 1, at + 1

    def _open_class(self, scopes, match, at):
        outer = [name for _, name, _ in scopes if name]
        name = "::".join(outer + [match.group(2)])
        found = Class(self.path, self._line(at), name, match.group(1))
        self.classes.append(found)
        scopes.append(("class", match.group(2), found))

    def _add_function(self, scopes, header, begin, at, end):
        called = _function_name(header)
        if not called:
            return
        outer = [name for _, name, _ in scopes if name]
        parts = outer + called.split("::")
        in_class = scopes and scopes[-1][0] == "class"
        owned = in_class or "::" in called
        first = LEADING.match(self._text, begin).end()
        self.functions.append(Function(self.path, "::".join(parts[:-1]) if owned else "",
                                       parts[-1], self._line(first), self._line(end - 1),
                                       self._text[at:end]))
        if in_class:
            self._count_method(scopes[-1][2], header, parts[-1])

    def _declare(self, scopes, text):
        if not scopes or scopes[-1][0] != "class":
            return
        found, header = scopes[-1][2], _plain(text)
        called = _function_name(header)
        if called and not header.startswith(("using ", "typedef ", "friend ", "static_assert")):
            self._count_method(found, header, called)
        elif header and not header.startswith(NO_MEMBER):
            found.members.append(_member_name(header))

    def _count_method(self, found, header, name):
        simple = found.name.split("::")[-1]
        if name not in (simple, "~" + simple) and not re.search(r"= ?(default|delete)$", header):
            found.methods.append(name)


def _member_name(header):
    plain = re.split(r"\{| = | : ", _without_angles(header))[0]
    return re.search(r"(\w*)[^\w]*$", re.sub(r"\[.*|\)\(.*", "", plain)).group(1)


def calls(body):
    """Names that a body calls on its own object, or that are free functions."""
    return set(re.findall(r"(?:(?<=this->)|(?<![\w.>:~]))([A-Za-z]\w*)\(", body))


def _blank(match):
    text = match.group()
    if text.startswith('"'):
        return '""' + " " * (len(text) - 2)
    return re.sub(r"[^\n]", " ", text)


def _plain(header):
    """A header in one line, without what only annotates it."""
    header = " ".join(header.split())
    header = ACCESS.sub("", header)
    while header.startswith("template <"):
        header = header[_angle_end(header, len("template ")):].lstrip()
        header = re.sub(r"^requires .*?(?=\b(?:class|struct|void|auto|[A-Za-z_:]+ \w+\())", "",
                        header)
    return " ".join(ANNOTATION.sub("", header).split())


def _angle_end(text, at):
    depth = 0
    for index in range(at, len(text)):
        depth += {"<": 1, ">": -1}.get(text[index], 0)
        if depth == 0:
            return index + 1
    return len(text)


def _without_angles(header):
    header = header.replace("->", "  ").replace("operator<<", "operator__")
    header = re.sub(r"operator(<=>|>>|<=|>=|<|>)", "operator__", header)
    while True:
        shorter = re.sub(r"<[^<>]*>", "", header)
        if shorter == header:
            return header
        header = shorter


def _function_name(header):
    """The name, qualified as it is written, of what the header declares; "" if no function."""
    plain = _without_angles(header)
    if "(" not in plain:
        return ""
    before = plain.split("(", 1)[0]
    if "operator" in before:
        owner = re.search(r"((?:\w+::)*)operator", before)
        return (owner.group(1) if owner else "") + "operator"
    if "=" in before or "{" in before or re.match(r"\(\s*\*", plain[len(before):]):
        return ""
    name = re.search(r"((?:\w+::)*~?\w+)\s*$", before)
    return name.group(1) if name else ""


def _is_initialiser(header):
    before = _without_angles(header).split("(", 1)[0]
    return header.endswith(("=", ",", "return")) or ("=" in before and "operator" not in before)


def _closing(text, at):
    """Behind the brace that closes the one at `at`."""
    depth = 0
    for match in re.compile(r"[{}]").finditer(text, at):
        depth += 1 if match.group() == "{" else -1
        if depth == 0:
            return match.end()
    return len(text)
