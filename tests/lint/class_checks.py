"""How wide classes are, whether their files call in circles, and how long functions are."""

import ast

import class_shape
import rules


def check_width(tree):
    """A class can be read: it has few methods and few members. What is wider has its ceiling
    in rules.py, which falls with it."""
    widest = {}
    for shape in class_shape.read(tree)[0]:
        place = shape.declared.path, shape.declared.line
        members = shape.members if shape.declared.kind == "class" else 0
        for what, count in (("methods", shape.methods), ("members", members)):
            # Several files may have a class of one name of their own: the widest counts.
            widest[shape.name, what] = max(widest.get((shape.name, what), (0,)), (count, *place))
    most = {"methods": rules.MAX_METHODS, "members": rules.MAX_MEMBERS}
    for (name, what), (count, path, line) in widest.items():
        ceiling = _ceiling(rules.WIDE_CLASSES, name, what)
        yield from _held(path, line, name, count, what, most[what], ceiling)
    yield from _unused(rules.WIDE_CLASSES, widest, "WIDE_CLASSES", tree)


def check_circles(tree):
    """The .cc files of one class do not call each other in a circle: it is one file then, which
    has been cut, or the class has parts that are classes of their own."""
    seen = {}
    for shape in class_shape.read(tree)[0]:
        circle = shape.circle()
        seen[shape.name, "files"] = shape
        ceiling = _ceiling(rules.CALL_CIRCLES, shape.name, "files")
        words = f"files in a circle by calls ({', '.join(circle)})"
        yield from _held(shape.declared.path, shape.declared.line, shape.name, len(circle), words,
                         0, ceiling)
    yield from _unused(rules.CALL_CIRCLES, seen, "CALL_CIRCLES", tree)


def check_functions(tree):
    """No function is too long to see at once."""
    seen = {}
    found = [(function.path, function.first, _full_name(function), function.lines)
             for function in class_shape.read(tree)[1]]
    for path, line, name, count in found + list(_python_functions(tree)):
        key = f"{path}:{name}"
        # Tests of one file have one name here, TEST: the longest counts.
        seen[key, "lines"] = max(seen.get((key, "lines"), (0,)), (count, path, line, name))
    for (key, _), (count, path, line, name) in seen.items():
        ceiling = _ceiling(rules.LONG_FUNCTIONS, key, "lines")
        yield from _held(path, line, name, count, "lines", rules.MAX_FUNCTION_LINES, ceiling)
    yield from _unused(rules.LONG_FUNCTIONS, seen, "LONG_FUNCTIONS", tree)


def _full_name(function):
    owner = function.owner.split("::")[-1]
    return f"{owner}::{function.name}" if owner else function.name


def _python_functions(tree):
    for path in tree.matching((".py",)):
        for node in ast.walk(ast.parse("\n".join(tree.lines(path)), path)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield path, node.lineno, node.name, node.end_lineno - node.lineno + 1


def _ceiling(exceptions, name, what):
    return exceptions.get(name, {}).get(what)


def _held(path, line, name, count, what, most, ceiling):
    """A violation where a count is above its limit, or a ceiling is not where the count is."""
    if ceiling is None:
        if count > most:
            yield path, line, f"{name} has {count} {what}, over {most}"
    elif count > ceiling:
        yield path, line, f"{name} has {count} {what}, over its ceiling of {ceiling} in rules.py"
    elif count <= most:
        yield path, line, f"{name} has {count} {what}: take its ceiling out of rules.py"
    elif count < ceiling:
        yield path, line, f"{name} has {count} {what}: lower its ceiling of {ceiling} in rules.py"


def _unused(exceptions, seen, where, tree):
    if "tests/lint/rules.py" not in tree.files:
        return  # a small tree that a test has made
    for name, ceilings in exceptions.items():
        for what in ceilings:
            if what != "why" and (name, what) not in seen:
                yield "tests/lint/rules.py", 1, f"{where} names {name}, which is not there"
