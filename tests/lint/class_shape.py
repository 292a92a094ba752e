"""The shape of classes: how wide they are, and which of their files call each other in a circle."""

import cplusplus


class Shape:
    """A class with the functions that are defined for it anywhere."""

    def __init__(self, declared):
        self.declared, self.functions = declared, []

    @property
    def name(self):
        return self.declared.name.replace("monsoon::", "", 1)

    @property
    def methods(self):
        return len(self.declared.methods)

    @property
    def members(self):
        return len(self.declared.members)

    @property
    def lines(self):
        """Of its functions."""
        return sum(function.lines for function in self.functions)

    @property
    def files(self):
        """That define functions of it."""
        return sorted({function.path for function in self.functions})

    def calls(self):
        """{file: {called file}} between the .cc files that define its functions."""
        places = {}
        defined = [function for function in self.functions if function.path.endswith(".cc")]
        for function in defined:
            places.setdefault(function.name, set()).add(function.path)
        arrows = {function.path: set() for function in defined}
        for function in defined:
            for name in cplusplus.calls(function.body):
                # An overload may stand in several files; one of one's own is meant first.
                if function.path not in places.get(name, (function.path,)):
                    arrows[function.path] |= places[name]
        return arrows

    def circle(self):
        """The files of its largest circle by calls, sorted; empty: there is none."""
        found = [part for part in strongly_connected(self.calls()) if len(part) > 1]
        return sorted(max(found, key=len)) if found else []


def read(tree):
    """(classes as shapes, functions) of the C++ sources; they are read once."""
    if "classes" not in tree.read:
        tree.read["classes"] = _read(tree)
    return tree.read["classes"]


def _read(tree):
    shapes, functions = {}, []
    for path in tree.matching((".cc", ".h")):
        source = cplusplus.Source(path, "\n".join(tree.lines(path)) + "\n")
        functions += source.functions
        for declared in source.classes:
            # In an anonymous namespace several files may have one of a name.
            shapes[_key(declared.path, declared.name)] = Shape(declared)
    for function in functions:
        owner = shapes.get(_key(function.path, function.owner)) or shapes.get(function.owner)
        if owner:
            owner.functions.append(function)
    return list(shapes.values()), functions


def _key(path, name):
    return f"{path}:{name}" if path.endswith(".cc") else name


def strongly_connected(arrows):
    """Tarjan's algorithm: the parts of a graph in which each node reaches each other."""
    order, low, stack, parts = {}, {}, [], []

    def visit(node):
        order[node] = low[node] = len(order)
        stack.append(node)
        for target in arrows.get(node, ()):
            if target not in order:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], order[target])
        if low[node] == order[node]:
            at = stack.index(node)
            parts.append(stack[at:])
            del stack[at:]

    for node in arrows:
        if node not in order:
            visit(node)
    return parts
