"""Idioms of PyTorch users (idioms_*.py) beside plain torch: a program of a job agrees, or raises an
error that names the tensor. None goes wrong in silence."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

import monsoon as ms  # noqa: E402
from monsoon import _library  # noqa: E402
from test_real import DEADLINE_S, built  # noqa: E402
import idioms  # noqa: E402
import idioms_groups  # noqa: E402, F401
import idioms_loops  # noqa: E402, F401
import idioms_memory  # noqa: E402, F401
import idioms_models  # noqa: E402, F401
import idioms_values  # noqa: E402, F401

HERE = pathlib.Path(__file__).resolve().parent
# They wait more than they compute.
PROGRAMS = 4


@pytest.fixture(scope="module")
def outcomes():
    """{(name, way): outcome} of all cases, by programs that run at once."""
    before = _library.use(None)
    environment = {**os.environ, "PYTHONPATH": f"{HERE.parent}:{HERE}", "OMP_NUM_THREADS": "1"}
    with ms.local_cluster(ps=2) as running:
        script = str(HERE / "idioms_program.py")
        programs = [subprocess.Popen(
            [sys.executable, script, running.address, str(i), str(PROGRAMS)], env=environment,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for i in range(PROGRAMS)]
        try:
            out = [program.communicate(timeout=2 * DEADLINE_S) for program in programs]
        finally:
            for program in programs:
                program.kill()
    _library.use(before)
    assert [program.returncode for program in programs] == [0] * PROGRAMS, out
    lines = [json.loads(line) for text, _ in out for line in text.splitlines()]
    return {(name, way): outcome for name, way, outcome in lines}


@pytest.mark.skipif(not built(), reason="no build of the library is named")
@pytest.mark.parametrize("name, way", idioms.cases())
def test_an_idiom_agrees_with_torch_or_raises_by_name(outcomes, name, way):
    found, wanted = outcomes[name, way], getattr(idioms.IDIOMS[name], way)
    if found.startswith("skipped"):
        pytest.skip(found)
    if wanted == idioms.AGREES:
        assert found == idioms.AGREES
    else:
        assert found.startswith("raises") and re.search(wanted, found), found


def test_the_table_is_long_and_trains():
    assert len(idioms.IDIOMS) >= 60
    torch.manual_seed(5)
    start, end = idioms.make().state_dict(), idioms.plain(idioms.Idiom("", "nothing special"))
    assert all((end[name] - value).abs().max() > 1e-3 for name, value in start.items())
