"""The documentation's lines of Python: docs/python.md's first ones as they stand, the
docstrings' examples, and that all others are Python."""

import doctest
import importlib
import pathlib
import pkgutil
import re
import subprocess
import sys

import pytest

import monsoon as ms
from monsoon.client import Client

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/python.md"


def blocks():
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.skipif(not PAGE.exists(), reason="no page")
def test_the_first_lines_run_as_they_stand(library, monkeypatch, capsys):
    torch = pytest.importorskip("torch")
    exported = []
    monkeypatch.setattr(Client, "export", lambda self, job, path, best=False:
                        exported.append((job, path)))
    from test_torch_loop import X, Y, make_model
    names = dict(model=make_model(), x=X, y=Y, data=X, F=torch.nn.functional)
    exec(compile(blocks()[0], str(PAGE), "exec"), names)
    assert exported == [("gpt-1", "model.safetensors")]
    assert library.jobs["gpt"].done == list(range(20)) * 3
    assert library.joined[0][0] == "127.0.0.1:2221"
    assert "steps=3" in capsys.readouterr().out


@pytest.mark.skipif(not PAGE.exists(), reason="no page")
def test_the_others_are_python():
    assert len(blocks()) >= 5
    for block in blocks():
        compile(block, str(PAGE), "exec")


@pytest.mark.skipif(not PAGE.exists(), reason="no page")
def test_each_public_exception_is_told():
    page = PAGE.read_text(encoding="utf-8")
    for name in ms.__all__:
        thing = getattr(ms, name)
        if isinstance(thing, type) and issubclass(thing, ms.MonsoonError):
            assert f"`{name}`" in page or f"`monsoon.{name}`" in page, name


MODULES = [m.name for m in pkgutil.iter_modules(ms.__path__)
           if m.name not in ("lightning", "huggingface")]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings(name):
    if name in ("binding", "staging", "group", "join"):
        pytest.importorskip("torch")
    told = doctest.testmod(importlib.import_module(f"monsoon.{name}"))
    assert told.failed == 0


def test_files_are_short():
    for path in pathlib.Path(ms.__file__).parent.glob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 300, path


def test_the_import_is_quick():
    code = "import time; t = time.process_time(); import monsoon; print(time.process_time() - t)"
    told = min(float(subprocess.run([sys.executable, "-c", code], check=True, text=True,
                                    stdout=subprocess.PIPE,
                                    env={"PYTHONPATH": ":".join(sys.path)}).stdout)
               for _ in range(3))
    assert told < 0.3
