"""Which file may include which, and what a name means."""

import os
import re

import rules
from source_tree import SOURCE, allowed


def check_headers(tree):
    """System headers are included only where rules.py lists it."""
    for path in tree.matching(SOURCE):
        for number, header in tree.includes(path):
            for what, pattern, users in rules.HEADER_USERS:
                if re.match(pattern, header) and not allowed(path, users):
                    yield path, number, f"<{header}>: {what}"


def check_directions(tree):
    """Includes go down: proto <- common <- ps_server <- coordinator <- worker <- tests."""
    for path in tree.matching(SOURCE):
        top = path.split("/")[0]
        if top not in rules.MAY_INCLUDE:
            continue
        may = [top + "/", "proto/"] + rules.MAY_INCLUDE[top]
        for folder, narrower in rules.FOLDER_MAY_INCLUDE.items():
            may = narrower if path.startswith(folder) else may
        for number, header in tree.includes(path):
            if header.split("/")[0] in rules.MAY_INCLUDE and not header.startswith(tuple(may)):
                yield path, number, f"may not include {header}; allowed: {' '.join(may)}"


def check_folders(tree):
    """Includes between folders make no circle, and keep the order of rules.ROOMS."""
    arrows = {}  # {folder: {included folder: [(path, line, header)]}}
    for path in tree.matching(SOURCE):
        for number, header in tree.includes(path):
            folder, target = os.path.dirname(path), os.path.dirname(header)
            if header.split("/")[0] in rules.MAY_INCLUDE and target != folder:
                arrows.setdefault(folder, {}).setdefault(target, []).append((path, number, header))
                why = out_of_order(folder, target)
                if why:
                    yield path, number, f"includes {header}, but {why}"
    for circle in circles(arrows):
        words = " -> ".join(circle)
        for folder, target in zip(circle, circle[1:]):
            for path, number, header in arrows[folder][target]:
                yield path, number, f"includes {header}, in a circle of folders: {words}"


def out_of_order(folder, target):
    """Why a file of `folder` may not include one of `target`; "" if it may."""
    house = os.path.commonpath([folder, target]) if folder and target else ""
    levels = {room: level for level, rooms in enumerate(rules.ROOMS.get(house, []))
              for room in rooms.split()}
    if not levels:
        return ""
    above, below = (os.path.relpath(place, house).split("/")[0] for place in (folder, target))
    for room in (above, below):
        if room not in levels:
            return f"rules.ROOMS does not say where {house}/{room} stands"
    if levels[above] > levels[below]:
        return ""
    return f"in {house}, {above} does not stand above {below}"


def circles(arrows):
    """Circles of folders, short ones first; none has an arrow of an earlier one."""
    found = [way for way in (way_back(arrows, start) for start in sorted(arrows)) if way]
    told = set()
    for way in sorted(found, key=len):
        steps = set(zip(way, way[1:]))
        if not steps & told:
            told |= steps
            yield way


def way_back(arrows, start):
    """A shortest way along the arrows from `start` to itself, or None."""
    ways, seen = [[start]], set()
    while ways:
        way = ways.pop(0)
        for target in sorted(arrows.get(way[-1], ())):
            if target == start:
                return way + [target]
            if target not in seen:
                seen.add(target)
                ways.append(way + [target])
    return None


def check_one_definition(tree):
    """A name means one class, struct, union or enum in its namespace."""
    places = {}  # {qualified name: [(path, line)]}
    for path in tree.matching(SOURCE):
        for number, name in definitions(tree.lines(path)):
            places.setdefault(name, []).append((path, number))
    for name, defined in places.items():
        for path, number in defined[1:]:
            if path != defined[0][0]:
                yield path, number, f"{name} is another one in {defined[0][0]}:{defined[0][1]}"


NAMESPACE = re.compile(r"(?:inline )?namespace ?([\w:]*) \{$")
DEFINITION = re.compile(r"(?:template <.*> )?(?:class|struct|union|enum(?: class)?) "
                        r"(?:\[\[.*?\]\] |(?:[A-Z_]+|alignas)(?:\(.*?\))? )*"
                        r"(\w+)(?= final| :| \{|$)")


def definitions(lines):
    """(line, qualified name) of what is defined outside anonymous namespaces. Counts
    on the format: what stands in a namespace, and nothing else, begins in column 0,
    and a namespace of more than one line ends with a comment."""
    scopes = []
    for number, line in enumerate(lines, 1):
        if not line or line[0] in " /#":
            continue
        opened = NAMESPACE.match(line)
        if opened:
            scopes.append((opened.group(1), number))
        elif line.startswith("}") and scopes and (
                line.startswith("}  // namespace") or scopes[-1][1] == number - 2):
            scopes.pop()
        else:
            match = DEFINITION.match(line)
            # The base classes may stand on the next lines.
            text = " ".join(lines[number - 1:number + 9]) if match else ""
            if match and 0 <= text.find("{") < (text + ";").find(";") and all(
                    name for name, _ in scopes):
                yield number, "::".join([name for name, _ in scopes] + [match.group(1)])
