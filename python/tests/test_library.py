"""How the library is found and checked; its structures against the C header."""

import ctypes
import os
import pathlib
import re
import shutil
import subprocess

import pytest

import monsoon as ms
from fake_library import FakeLibrary
from monsoon import _library, _programs

HEADER = pathlib.Path(__file__).resolve().parents[2] / "worker/client/monsoon.h"
STRUCTURES = {"monsoon_tensor": _library.Tensor, "monsoon_join_options": _library.JoinOptions,
              "monsoon_event": _library.Event, "monsoon_batch": _library.Batch,
              "monsoon_step_info": _library.StepInfo, "monsoon_metric": _library.Metric,
              "monsoon_stats": _library.Stats}


@pytest.fixture
def nothing_loaded():
    before = _library.use(None)
    yield
    _library.use(before)


def test_a_library_that_is_missing_is_told_with_the_places(nothing_loaded, monkeypatch, tmp_path):
    monkeypatch.setenv("MONSOON_LIBRARY", str(tmp_path / "none.so"))
    with pytest.raises(ms.LibraryNotFound, match="MONSOON_LIBRARY is .*none.so, and no such file"):
        _library.load()
    monkeypatch.delenv("MONSOON_LIBRARY")
    monkeypatch.setenv("MONSOON_BIN", str(tmp_path))
    monkeypatch.setattr(_programs, "_PACKAGE", tmp_path / "a" / "b")
    with pytest.raises(ms.LibraryNotFound, match="worker/client/libmonsoon.so"):
        _library.load()


def test_a_file_that_is_no_library(nothing_loaded, monkeypatch, tmp_path):
    (tmp_path / "libmonsoon.so").write_text("nothing")
    monkeypatch.setenv("MONSOON_BIN", str(tmp_path))
    with pytest.raises(ms.LibraryNotFound, match="cannot be loaded"):
        _library.load()


def test_a_library_of_another_version():
    class Old(FakeLibrary):
        def monsoon_abi(self):
            return 7

    for library, words in ((Old(), "has interface 7, this package needs 6"),
                           (FakeLibrary("0.0.9"), "is version 0.0.9, this package is 0.1.0"),
                           (object(), "has no monsoon_abi")):
        # Methods take no attributes; a library's functions do.
        functions = type("Functions", (), {name: staticmethod(
            lambda *a, f=getattr(library, name): f(*a)) for name in _library.SIGNATURES
            if hasattr(library, name)})
        with pytest.raises(ms.VersionsDiffer, match=words):
            _library.check(functions, "libmonsoon.so")


@pytest.mark.skipif(not HEADER.exists() or not shutil.which("gcc"), reason="no header or no gcc")
def test_structures_are_those_of_the_header(tmp_path):
    lines = []
    for name, structure in STRUCTURES.items():
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        lines += [f'printf("{name}.{field} %zu\\n", offsetof({name}, {field}));'
                  for field, _ in structure._fields_]
    source = tmp_path / "offsets.c"
    source.write_text(f'#include <stdio.h>\n#include "{HEADER}"\n'
                      "int main(void) {" + "\n".join(lines) + "}\n")
    subprocess.run(["gcc", "-o", tmp_path / "offsets", source], check=True)
    told = subprocess.run([tmp_path / "offsets"], check=True, stdout=subprocess.PIPE, text=True)
    ours = []
    for name, structure in STRUCTURES.items():
        ours.append(f"{name} {ctypes.sizeof(structure)}")
        ours += [f"{name}.{field} {getattr(structure, field).offset}"
                 for field, _ in structure._fields_]
    assert told.stdout.split("\n")[:-1] == ours


@pytest.mark.skipif(not HEADER.exists(), reason="no header")
def test_functions_are_those_of_the_header():
    declared = set(re.findall(r"MONSOON_API .*?(monsoon_\w+)\(", HEADER.read_text(), re.DOTALL))
    assert declared == set(_library.SIGNATURES)


@pytest.mark.skipif("MONSOON_LIBRARY" not in os.environ and "MONSOON_BIN" not in os.environ,
                    reason="no built library is named")
def test_the_built_library_loads(nothing_loaded):
    if not any(path.is_file() for path in _programs.candidates("libmonsoon.so")):
        pytest.skip("no library is built")
    assert _library.load().monsoon_abi() == _library.ABI


@pytest.mark.skipif("MONSOON_BIN" not in os.environ or not shutil.which("nm"),
                    reason="no build is named, or no nm")
def test_nothing_else_is_exported():
    built = [path for path in _programs.candidates("libmonsoon.so") if path.is_file()]
    if not built:
        pytest.skip("no library is built")
    told = subprocess.run(["nm", "-D", "--defined-only", built[0]], text=True, check=True,
                          stdout=subprocess.PIPE).stdout
    names = {line.split()[-1].split("@")[0] for line in told.splitlines()}
    assert names == set(_library.SIGNATURES)
