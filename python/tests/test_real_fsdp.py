"""Groups of two ranks with a model cut over them (FSDP2), on the built library and a cluster of real
processes. Skipped without a torch that has fully_shard, and unless a build is named."""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile

import numpy
import pytest

torch = pytest.importorskip("torch")
if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 6):
    pytest.skip("fully_shard came with torch 2.6", allow_module_level=True)

import fsdp_program  # noqa: E402
import monsoon as ms  # noqa: E402
from test_real import cluster, pytestmark  # noqa: E402,F401

PROGRAM = pathlib.Path(__file__).with_name("fsdp_program.py")
KILLS = int(os.environ.get("MONSOON_FSDP_KILLS", "3"))
PATIENCE_S = 120


class Ranks:
    def __init__(self, address, job, kind="counts", steps=100, every=0):
        self._folder = tempfile.TemporaryDirectory()
        self.processes = [subprocess.Popen(
            [sys.executable, str(PROGRAM), f"--coordinator={address}", f"--job={job}",
             f"--store={self._folder.name}/store", f"--rank={rank}", f"--kind={kind}",
             f"--steps={steps}", f"--every={every}"], stdout=subprocess.PIPE, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"})
            for rank in range(2)]

    def kill_after(self, steps):
        """False: the job has ended before."""
        for line in self.processes[0].stdout:
            steps -= line == "step\n"
            if steps == 0:
                break
        for process in self.processes:
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stdout.close()
        return steps == 0

    def told(self):
        told = []
        for process in self.processes:
            lines = process.communicate(timeout=PATIENCE_S)[0].splitlines()
            assert process.returncode == 0, process.returncode
            told.append(json.loads(lines[-1]))
        return told


@pytest.mark.parametrize("every", [0, 4])
def test_it_trains_as_one_process_does(cluster, every):  # noqa: F811
    job = f"fsdp-{every}"
    told = Ranks(cluster.address, job, kind="net", steps=24, every=every).told()
    assert told[0]["vector"] > 0 and told[1]["vector"] == 0, "the vectors are rank 0's"
    arrays = ms.Client(cluster.address).load(job)
    for name, whole in arrays.items():
        halves = [numpy.asarray(rank["local"][name], "f4").reshape(-1, *whole.shape[1:])
                  for rank in told]
        numpy.testing.assert_array_equal(numpy.concatenate(halves), whole)
    model = fsdp_program.net()
    first = model[0].weight.detach().clone()
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.from_numpy(arrays[name]))
    assert not torch.equal(first, model[0].weight), "it has moved"
    generator = torch.Generator().manual_seed(5)
    x, y = torch.randn(64, 6, generator=generator), torch.randint(0, 3, (64,), generator=generator)
    whole = float(torch.nn.functional.cross_entropy(model(x), y))
    assert told[0]["evaluated"] and told[0]["evaluated"] == told[1]["evaluated"]
    assert abs(told[0]["evaluated"][-1] - whole) < 1e-5, "the evaluation is of the final parameters"
    assert whole < float(torch.nn.functional.cross_entropy(fsdp_program.net()(x), y))


def test_through_the_deaths_of_the_group_every_push_counts_once(cluster):  # noqa: F811
    draws = random.Random(1)
    for _ in range(KILLS):
        assert Ranks(cluster.address, "counts", steps=400).kill_after(draws.randint(1, 15))
    told = Ranks(cluster.address, "counts", steps=400).told()
    described = ms.Client(cluster.address).describe("counts")
    assert described["state"] == "SUCCEEDED"
    pushes = {shard["version_max"] for shard in described["shards"]}
    assert len(pushes) == 1, "all shards have the same pushes"
    arrays = ms.Client(cluster.address).load("counts")
    for name, values in arrays.items():
        assert set(values.ravel().tolist()) == {-float(next(iter(pushes)))}, (name, values)
    assert next(iter(pushes)) >= 400, "what was stepped and pushed counts"
    assert told[0]["evaluated"]


def test_what_cannot_be_is_named(tmp_path):
    import torch.distributed as dist
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
        torch.distributed.fsdp.fully_shard(model[0])
        settings = {"job": "cut", "model": model, "optimizer": ms.SGD(0.1), "epochs": 1}
        with pytest.raises(ms.InvalidArgument, match="cut over the ranks.*group="):
            ms.join("127.0.0.1:1", **settings)
        with pytest.raises(ms.UnsupportedTensor, match="1.weight, 1.bias: not cut over the ranks"):
            ms.join("127.0.0.1:1", group=dist.group.WORLD, **settings)
    finally:
        dist.destroy_process_group()
