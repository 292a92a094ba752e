"""Running statistics of several programs under rounds. Skipped unless a build is named, as
test_real."""

import os
import subprocess
import sys
import textwrap

import numpy
import pytest

import monsoon as ms
from monsoon import _library
from test_real import DEADLINE_S, HERE, pytestmark  # noqa: F401

# Each step of each program moves the mean by one.
PROGRAM = textwrap.dedent("""
    import sys, torch, monsoon as ms
    model = torch.nn.BatchNorm1d(4)
    optimizer = ms.Local(torch.optim.SGD(model.parameters(), lr=0.1), every=1,
                         outer=ms.SGD(1.0), rounds=ms.Rounds())
    job = ms.join(sys.argv[1], job="means", model=model, optimizer=optimizer, epochs=1,
                  examples=60, batch=1)
    with job:
        print("in", flush=True)
        sys.stdin.readline()  # until both are
        for ids in job.blocks():
            with torch.no_grad():
                model.running_mean += 1
            for parameter in model.parameters():
                parameter.grad = torch.zeros_like(parameter)
            job.step()
""")


def test_a_round_takes_the_mean_of_statistics_once():
    pytest.importorskip("torch")
    before = _library.use(None)
    try:
        with ms.local_cluster(ps=1) as cluster:
            programs = [subprocess.Popen(
                [sys.executable, "-c", PROGRAM, cluster.address], text=True,
                env={**os.environ, "PYTHONPATH": str(HERE.parent)}, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
            assert [program.stdout.readline() for program in programs] == ["in\n"] * 2
            for program in programs:
                program.stdin.write("go\n")
                program.stdin.flush()
            for program in programs:
                _, errors = program.communicate(timeout=DEADLINE_S)
                assert program.returncode == 0, errors
            client = ms.Client(cluster.address)
            [job] = client.jobs()
            described = client.describe(job["job"])
            assert described["state"] == "SUCCEEDED" and described["counts"]["pushes"] == 60
            # Whoever was in a round moved it by one.
            [shard] = described["shards"]
            rounds = shard["version_max"]
            assert 30 <= rounds < 60
            mean = client.load(job["job"])["running_mean"]
            assert numpy.allclose(mean, rounds, rtol=1e-6), (mean, rounds)
    finally:
        _library.use(before)
