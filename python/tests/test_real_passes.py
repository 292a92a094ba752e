"""Loops over a loader by several programs, on the built library and a cluster of real processes.
Skipped unless a build is named, as test_real.py."""

import os
import subprocess
import sys
import textwrap

import numpy
import pytest

from test_real import DEADLINE_S, HERE, cluster, client, pytestmark  # noqa: F401

# Each batch moves the weights by 1: they tell how many counted.
PROGRAM = textwrap.dedent("""
    import sys, torch, monsoon as ms
    from torch.utils.data import DataLoader, TensorDataset
    torch.set_num_threads(1)
    address, name, workers, way, local = sys.argv[1:]
    model = torch.nn.Module()
    model.w = torch.nn.Parameter(torch.zeros(3000))
    data = TensorDataset(torch.zeros(128, 1))
    optimizer = ms.SGD(1.0)
    if local == "local":
        optimizer = ms.Local(torch.optim.SGD(model.parameters(), lr=1.0), every=5)
    job = ms.join(address, job=name, model=model, optimizer=optimizer, epochs=3, data=data)
    loader = DataLoader(data, batch_sampler=job.sampler(4), num_workers=int(workers))
    with job:
        print("in", flush=True)
        sys.stdin.readline()  # until all are
        for number, _ in enumerate(job.epochs()):
            if way == "groups":
                for i, batch in enumerate(loader, 1):
                    (-model.w.sum()).backward()
                    if i % 3 == 0:
                        job.step()
            elif way == "accumulate":
                for batch, last in job.accumulate(loader, 5):
                    (-model.w.sum()).backward()
                    if last:
                        job.step()
            else:
                for i, batch in enumerate(loader, 1):
                    (-model.w.sum()).backward()
                    job.step()
                    if number < 4 and i == 7:
                        break
        print("ended" if job.ended else "not ended", flush=True)
""")


@pytest.mark.parametrize("local", ["shards", "local"])
@pytest.mark.parametrize("programs, workers, way", [
    (1, 2, "break"), (3, 0, "groups"), (3, 0, "accumulate"), (3, 0, "break")])
def test_each_batch_counts_once(cluster, client, programs, workers, way, local):  # noqa: F811
    pytest.importorskip("torch")
    name = f"passes-{programs}-{workers}-{way}-{local}"
    running = [subprocess.Popen([sys.executable, "-W", "ignore", "-c", PROGRAM, cluster.address,
                                 name, str(workers), way, local], text=True,
                                env={**os.environ, "PYTHONPATH": str(HERE.parent)},
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)
               for _ in range(programs)]
    entered = [program.stdout.readline() for program in running]
    for program in running:
        program.stdin.write("go\n")
        program.stdin.flush()
    out = [program.communicate(timeout=DEADLINE_S) for program in running]
    assert entered == ["in\n"] * programs, out
    assert [told for told, _ in out] == ["ended\n"] * programs, out
    told = client.describe(name)
    assert told["state"] == "SUCCEEDED" and told["progress"]["step"] > 0
    assert numpy.array_equal(client.load(name)["w"], numpy.full(3000, 96, "f4"))
