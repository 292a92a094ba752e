"""What a change of each kind touches: the places that name a thing of that kind which is there.

A place is a file; a list is where, within a few lines, the thing stands beside others of its
kind, so that the next one has to be added there too.
"""

import re
from typing import NamedTuple

from source_tree import SOURCE

# Lines between the thing and another of its kind, or between two mentions, in one list.
NEAR = 3


class Change(NamedTuple):
    """`thing` and `others` are patterns of what code calls them; `own`: of files that are the
    thing's alone, and no list."""
    kind: str
    sample: str
    thing: str
    others: str
    own: str = r"$^"


_OPTIMIZERS = r"[Aa]dagrad|ADAGRAD|\b[Aa]dam|kAdam|[Nn]esterov|[Rr]ms_?[Pp]rop"
_FORMATS = r"\bINT[48]\b|FLOAT16|TOP_K|Int[48]Codec|codec/int[48]\.h|codec/float16\.h"
_SETTINGS = (r"n_fetch|n_push|local_steps|fetch_changes|push_format|fetch_format|clip_norm|"
             r"clip_value|fragments|dynamic_local_steps|away_steps|quorum|rounds")
_FIGURES = (r"\b\w*(?:duplicates|refused|bytes_fetched|bytes_pushed|retries|replicas_lost|"
            r"kept_bytes|replayed|staleness_unknown|evaluation_fetches|away_steps)\b")
_COMMANDS = (r"(?:Create|Delete|Restore)(?:Shard)?Job|(?:Open|Close)Session|ReduceRate|"
             r"kCheckpoint")

CHANGES = [
    Change("optimizer", "rms_prop", r"(?i:rms_?prop)", _OPTIMIZERS, r"/rms_prop\.\w+$"),
    Change("optimizer", "nesterov", r"[Nn]esterov", _OPTIMIZERS, r"/nesterov\w*\.\w+$"),
    Change("wire format", "INT8", r"\bINT8\b|codec/int8\.h|Int8Codec", _FORMATS, r"/int8\w*\.\w+$"),
    Change("wire format", "INT4", r"\bINT4\b|codec/int4\.h|Int4Codec", _FORMATS, r"/int4\w*\.\w+$"),
    Change("scalar setting", "grace_seconds", r"grace_seconds", _SETTINGS),
    Change("scalar setting", "max_refused", r"max_refused", _SETTINGS),
    Change("scalar setting", "landing_steps", r"landing_steps|LandingSteps", _SETTINGS),
    Change("scalar setting", "clip_norm", r"(?<![a-z]_)clip_norm", _SETTINGS),
    Change("figure of a replica", "evaluation_fetches", r"evaluation_fetches", _FIGURES),
    Change("figure of a replica", "staleness_unknown", r"staleness_unknown", _FIGURES),
    Change("figure of a replica", "kept_bytes", r"(?<!/)kept_(?:limit_)?bytes", _FIGURES),
    Change("shard command", "ReduceRate", r"ReduceRate", _COMMANDS),
    Change("mode", "a batch job, outside its rooms",
           r"\b(?:has_)?sandblaster\(\)|kSandblaster|SandblasterJob\b|IsBatch", r"downpour\(\)",
           r"^(?:coordinator|worker)/sandblaster/|^coordinator/lbfgs/"),
    Change("mode", "a joined job", r"\bjoined\(\)|has_joined|IsJoined", r"sandblaster\(\)"),
]


def places(tree, change, production):
    """{"files": all that name it, "production": those of these that are shipped, "lists": in
    them, "all_lists": in all}. What comments of C++ and proto say is no place."""
    counts = {"files": 0, "production": 0, "lists": 0, "all_lists": 0}
    thing, others, own = (re.compile(text) for text in (change.thing, change.others, change.own))
    for path, numbers in named(tree, change).items():
        lists = 0 if own.search(path) else len(_lists(code(tree, path), numbers, thing, others))
        counts["files"] += 1
        counts["all_lists"] += lists
        if path in production:
            counts["production"] += 1
            counts["lists"] += lists
    return counts


def named(tree, change):
    """{file: indices of the lines that name the thing}."""
    thing, own = re.compile(change.thing), re.compile(change.own)
    outside = change.kind == "mode"  # what is its own room is no place of a mode
    found = {}
    for path in tree.files:
        if _is_kept_apart(path) or (outside and own.search(path)):
            continue
        numbers = [number for number, line in enumerate(code(tree, path)) if thing.search(line)]
        if numbers:
            found[path] = numbers
    return found


def code(tree, path):
    """The lines of a file, those of C++ and proto without their comments."""
    if not path.endswith(SOURCE + (".proto",)):
        return tree.lines(path)
    return [line.split("//", 1)[0] for line in tree.lines(path)]


def _is_kept_apart(path):
    """History and results are not extended, and data, planted bugs and the page that says what is
    to be touched name what they like."""
    return path.startswith(("tests/lint/", "tests/mutations", "CHANGELOG", "CONTRIBUTING")) or (
        "/results/" in path or "/testdata/" in path or "/data/" in path and path.startswith("tests"))


def _lists(lines, named, thing, others):
    """The runs of mentions with another of the kind near them."""
    runs = []
    for number in named:
        if runs and number - runs[-1][-1] <= NEAR:
            runs[-1].append(number)
        else:
            runs.append([number])
    return [run for run in runs if any(
        others.search(thing.sub("", line))
        for line in lines[max(0, run[0] - NEAR):run[-1] + NEAR + 1])]
