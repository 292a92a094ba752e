"""What is said twice of a change or a setting: CONTRIBUTING.md's tables beside the files that
their examples are in, and what comments of proto say beside the options of fields."""

import re

import house
import house_changes

PAGE = "CONTRIBUTING.md"
# "To add an optimizer, as `rms_prop` (12 files, 4 of them shipped C++ and proto):"
HEADING = re.compile(r"^To add an? [^`]+, as `(\w+)` \((\d+) files, (\d+) of them shipped C\+\+ and "
                     r"proto\):$")


def check_change_tables(tree):
    """A table names every shipped file that has its example, no file that lacks it, and counts
    right. A table's example is one that house_changes.py measures."""
    if PAGE not in tree.files:
        return
    production = house.production(tree)
    lines = tree.lines(PAGE)
    for number, line in enumerate(lines, 1):
        if not line.startswith("To add a"):
            continue
        heading = HEADING.match(line)
        if not heading:
            yield PAGE, number, "no such line as 'To add an X, as `EXAMPLE` (N files, M of them ...'"
            continue
        sample, files, shipped = heading[1], int(heading[2]), int(heading[3])
        changes = [change for change in house_changes.CHANGES if change.sample == sample]
        if not changes:
            yield PAGE, number, f"house_changes.py measures no {sample}"
            continue
        rows = set(_rows(lines[number:], sample))
        there = set(house_changes.named(tree, changes[0]))
        for path in sorted(rows - there):
            yield PAGE, number, f"{path} does not name {sample}"
        for path in sorted((there & production) - rows):
            yield PAGE, number, f"{path} names {sample}, and no row has it"
        if (files, shipped) != (len(rows), len(rows & production)):
            yield PAGE, number, (f"the rows are {len(rows)} files, {len(rows & production)} of them "
                                 "shipped")


def _rows(lines, sample):
    """The files of the table that begins within `lines`; NAME stands for that of the example."""
    begin = next((i for i, line in enumerate(lines) if line.startswith("|")), len(lines))
    for line in lines[begin:]:
        if not line.startswith("|"):
            return
        folder = ""
        for path in re.findall(r"`([^`]+)`", line.split("|")[1]):
            path = path.replace("NAME", sample.lower())
            folder = path.rsplit("/", 1)[0] + "/" if "/" in path else folder
            yield path if "/" in path else folder + path


def check_unset(tree):
    """A comment that ends in "Unset: 10." or "Unset or 0: 10." says what its field's (setting)
    does."""
    for path in tree.matching((".proto",)):
        text = "\n".join(tree.lines(path))
        for match in re.finditer(r"((?: *//[^\n]*\n)+) *[\w ]+ = \d+ \[([^;]*)\];", text):
            comment = " ".join(re.findall(r"// ?(.*)", match[1]))
            said = re.search(r"Unset(?: or 0)?: ([-\de.]*\d)\.$", comment)
            set_to = re.search(r"\bunset: ([-\de.]+)", match[2])
            if said and set_to and float(said[1]) != float(set_to[1]):
                line = text.count("\n", 0, match.start()) + 1
                yield path, line, f"says {said[1]} of what is unset, and its option {set_to[1]}"
