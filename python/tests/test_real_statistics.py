"""Running statistics of several programs. Skipped unless a build is named, as
test_real."""

import contextlib
import os
import subprocess
import sys
import textwrap

import numpy
import pytest

import monsoon as ms
from monsoon import _library
from test_real import DEADLINE_S, HERE, pytestmark  # noqa: F401

# Each step of each program moves the mean by one, and the variance towards 2.
PROGRAM = textwrap.dedent("""
    import sys, torch, monsoon as ms
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(20000), torch.nn.BatchNorm1d(4))
    for norm in model:
        norm.running_var.fill_(1000)
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    job = ms.join(sys.argv[1], job="means", model=model, epochs=1, batch=1, **eval(sys.argv[2]))
    with job:
        print("in", flush=True)
        sys.stdin.readline()  # until both are
        for ids in job.blocks():
            for norm in model:
                norm.running_mean += 1
                norm.running_var.mul_(0.7).add_(0.6)
            for parameter in model.parameters():
                parameter.grad = torch.zeros_like(parameter)
            job.step()
            now = torch.cat([norm.running_var for norm in model])
            assert 1.999 <= now.min() and now.max() <= 1000.001, now
""")
LOCAL = "ms.Local(inner, every=5, outer=ms.SGD(1.0))"
FRAGMENTS = "ms.Local(inner, every=8, outer=ms.SGD(1.0), fragments=ms.Fragments(2, order='stripe'))"


@contextlib.contextmanager
def trained(how):
    """Two programs, which begin together; the cluster's client and what it says of the job."""
    pytest.importorskip("torch")
    before = _library.use(None)
    try:
        with ms.local_cluster(ps=1) as cluster:
            programs = [subprocess.Popen(
                [sys.executable, "-c", PROGRAM, cluster.address, how], text=True,
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
            assert described["state"] == "SUCCEEDED"
            yield described, client.load(job["job"])
    finally:
        _library.use(before)


def test_a_round_takes_the_mean_of_statistics_once():
    how = ("dict(optimizer=ms.Local(inner, every=1, outer=ms.SGD(1.0), rounds=ms.Rounds()), "
           "examples=60)")
    with trained(how) as (described, tensors):
        assert described["counts"]["pushes"] == 60
        # Whoever was in a round moved it by one.
        [shard] = described["shards"]
        rounds = shard["version_max"]
        assert 30 <= rounds < 60
        for mean in (tensors["0.running_mean"], tensors["1.running_mean"]):
            assert numpy.allclose(mean, rounds, rtol=1e-6), (mean, rounds)


@pytest.mark.parametrize("how", [
    f"dict(optimizer={LOCAL})", f"dict(optimizer={FRAGMENTS})", "dict(optimizer=ms.SGD(0.1))",
    "dict(optimizer=ms.SGD(0.1), n_push=4)", "dict(optimizer=ms.SGD(0.1), n_push=3, n_fetch=2)"])
def test_a_variance_stays_among_what_the_programs_have(how):
    with trained(how[:-1] + ", examples=200)") as (_, tensors):
        # 100 steps each; what is stale may hold the mean up, and nothing goes beyond.
        for variance in (tensors["0.running_var"], tensors["1.running_var"]):
            assert (1.999 <= variance).all() and (variance < 20).all(), variance
