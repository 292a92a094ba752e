"""What Python lists by hand of the job file: optimizers and wire formats, beside proto/."""

import inspect
import pathlib
import re

import pytest

import monsoon as ms
from monsoon import local, settings
from monsoon.optimizers import ShardOptimizer

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What is behind a field's number: its options.
OPTIONS = r"(?: \[(\s*\(.*?})\s*\])?;"


def proto(name):
    return (ROOT / "proto" / name).read_text(encoding="utf-8")


def without_options(text):
    return re.sub(OPTIONS, ";", text, flags=re.DOTALL)


OPTIMIZERS = proto("optimizer.proto")
DOWNPOUR = proto("downpour.proto")
FORMATS = without_options(proto("wire_format.proto"))
PAGE = (ROOT / "docs/downpour.md").read_text(encoding="utf-8")


def body(kind, name, text):
    return re.search(rf"^{kind} {name} {{\n(.*?)^}}", text, re.DOTALL | re.MULTILINE)[1]


def kinds():
    """Name in a job file: name of the message."""
    optimizer = without_options(body("message", "Optimizer", OPTIMIZERS))
    oneof = re.search(r"oneof kind {\n(.*?)}", optimizer, re.DOTALL)
    return {name: message for message, name in re.findall(r"(\w+) (\w+) = \d+;", oneof[1])}


def settings_of(message, text):
    """Name of a number: what its (setting) says, as {"most": 65536.0, "unset": 1.0}."""
    found = re.findall(r"(?:double|uint32) (\w+) = \d+" + OPTIONS, body("message", message, text),
                       re.DOTALL)
    return {name: {end: float(number) for end, number in
                   re.findall(r"\b(least|above|most|below|unset): ([-\de.]+)", options)}
            for name, options in found}


def classes(parent=ShardOptimizer):
    for child in parent.__subclasses__():
        yield child
        yield from classes(child)


def rule(optimizer):
    """What its class writes into the kind's message, of the settings that nobody gave."""
    needed = [name for name, parameter in inspect.signature(optimizer).parameters.items()
              if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty]
    made = optimizer(0.1, **{name: 2 for name in needed})
    return {name: value for name, value in made.text()[optimizer.kind].items()
            if name not in needed}, needed


def test_every_optimizer_of_a_job_file_is_a_class():
    assert {optimizer.kind for optimizer in classes()} == set(kinds())
    for optimizer in classes():
        assert optimizer.__name__ in ms.__all__
        assert getattr(ms, optimizer.__name__) is optimizer


@pytest.mark.parametrize("kind, message", kinds().items())
def test_every_setting_of_an_optimizer_is_a_keyword(kind, message):
    known = {name: setting.get("unset")
             for name, setting in settings_of(message, OPTIMIZERS).items()}
    given = {}
    for optimizer in classes():
        if optimizer.kind == kind:
            values, needed = rule(optimizer)
            given.update(values)
            given.update({name: None for name in needed})
    assert set(given) == set(known)
    for name, value in given.items():
        if value is not None and known[name] is not None:
            assert value == known[name], f"{kind}.{name} is {known[name]} where it is unset"


def test_the_page_names_every_optimizer():
    rows = re.findall(r"^\| [^|]+ \| `(\w+)` \| \d", PAGE, re.MULTILINE)
    assert sorted(rows) == sorted(optimizer.__name__ for optimizer in classes())


def test_every_wire_format_has_a_name():
    names = {name: int(number) for name, number in
             re.findall(r"^  (\w+) = (\d+);", body("enum", "WireFormat", FORMATS), re.MULTILINE)}
    assert list(settings._FORMATS) == [name.lower() for name in names]
    for name, text in settings._FORMATS.items():
        assert text == (None if names[name.upper()] == 0 else name.upper())
        assert re.search(rf"\b{name}\b", ms.join.__doc__), name
    assert set(local._CHANGES) <= set(settings._FORMATS)


@pytest.mark.parametrize("message, field, make", [
    ("Rounds", "quorum", lambda value: ms.Rounds(quorum=int(value))),
    ("Rounds", "grace_seconds", lambda value: ms.Rounds(quorum=1, grace=value)),
    ("Rounds", "adaptive_share", lambda value: ms.Rounds(quorum=1, grace=2, adaptive=value)),
    ("Fragments", "count", lambda value: ms.Fragments(int(value))),
    ("LocalSteps", "steps", lambda value: ms.Local(None, every=int(value))),
    ("LocalSteps", "mixing", lambda value: ms.Local(None, mixing=value)),
    ("LocalSteps", "weight_reference",
     lambda value: ms.Local(None, weight="steps", weight_reference=value)),
    ("Nesterov", "period", lambda value: ms.DelayedNesterov(period=int(value))),
    ("Nesterov", "momentum", lambda value: ms.Nesterov(momentum=value)),
])
def test_ranges_are_those_of_job_files(message, field, make):
    setting = settings_of(message, DOWNPOUR if f"\nmessage {message} " in DOWNPOUR
                          else OPTIMIZERS)[field]
    assert setting, f"{message}.{field} says no range"
    for inside, step in (("least", -1), ("most", 1)):
        if inside in setting:
            make(setting[inside])
            with pytest.raises(ms.InvalidArgument):
                make(setting[inside] + step)
    if "below" in setting:
        with pytest.raises(ms.InvalidArgument):
            make(setting["below"])
