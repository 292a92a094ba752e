"""What Python lists by hand of the job file: optimizers and wire formats, beside proto/."""

import inspect
import pathlib
import re

import pytest

import monsoon as ms
from monsoon import local, settings
from monsoon.optimizers import ShardOptimizer

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPTIMIZERS = (ROOT / "proto/optimizer.proto").read_text(encoding="utf-8")
FORMATS = (ROOT / "proto/wire_format.proto").read_text(encoding="utf-8")
PAGE = (ROOT / "docs/downpour.md").read_text(encoding="utf-8")


def body(kind, name, text):
    return re.search(rf"^{kind} {name} {{\n(.*?)^}}", text, re.DOTALL | re.MULTILINE)[1]


def kinds():
    """Name in a job file: name of the message."""
    oneof = re.search(r"oneof kind {\n(.*?)}", body("message", "Optimizer", OPTIMIZERS), re.DOTALL)
    return {name: message for message, name in re.findall(r"(\w+) (\w+) = \d+;", oneof[1])}


def fields(message):
    """Name of a field: what the line above says it is where unset, or None."""
    found = re.findall(r"((?: *//[^\n]*\n)*) *(?:optional )?(?:double|uint32) (\w+) = \d+;",
                       body("message", message, OPTIMIZERS))
    unset = {name: re.search(r"Unset(?: or 0)?: ([-\de.]+)\.$", comment.strip())
             for comment, name in found}
    return {name: match and float(match[1]) for name, match in unset.items()}


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
    known = fields(message)
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
