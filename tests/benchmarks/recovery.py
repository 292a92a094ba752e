#!/usr/bin/python3
"""How long a parameter server of 64 MiB is away when it is killed: until its new life has
restored the slice, and until a push is applied there again.

    tests/benchmarks/recovery.py [--rounds=N] [--quick]

Two servers, each with 64 MiB of parameters and as much of Adagrad's state, under one
worker that pushes to both all the time; `up` starts what has died after 0.1 s. Three kills
a round, each after two generations of this life. At the end all stripes must have the same
pushes, and nothing may be lost.
"""

import os
import pathlib
import signal
import sys
import tempfile
import time

import measure
from measure import Row, at_most, median_of

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from local_cluster import LocalCluster  # noqa: E402

JOB = """
model {
  name: "wide"
  input_shape: INPUT
  layer { dense { units: 16384 } }
  layer { relu {} }
  layer { dense { units: 4 } }
}
train { synthetic { examples: 1000 classes: 4 seed: 1 center_seed: 9 noise: 3 } }
seed: 5
batch_size: 4
downpour { optimizer { adagrad { rate: 0.001 } } }
checkpoint { every_seconds: 1 }
stop { steps: 1000000 }
"""
INPUT = 2048  # x 16384 floats are 128 MiB
KILLS_A_ROUND = 3
PATIENCE_S = 120
BOUND_S = 2.0


def wait_for(cluster, job, what, reached):
    """The description once `reached(description)`."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        described = cluster.describe(job)
        if described["state"] not in ("PENDING", "RUNNING", "WARMSTART"):
            break
        if len(described["shards"]) == 2 and reached(described):
            return described
        time.sleep(0.01)
    raise RuntimeError(f"{job} does not get to {what}: {described['state']} {described['reason']}")


def kill_one(cluster, job, number):
    """Seconds until the slice is restored, and until a push is applied there."""
    generation = cluster.describe(job)["durability"]["generation"]
    before = wait_for(cluster, job, "a generation of this life",
                      lambda now: now["durability"]["generation"] >= generation + 2)
    shard = number % 2
    began = time.monotonic()
    os.kill(before["shards"][shard]["pid"], signal.SIGKILL)
    wait_for(cluster, job, "the restore",
             lambda now: now["durability"]["restores"] > before["durability"]["restores"])
    restored = time.monotonic() - began
    version = before["shards"][shard]["version_max"]
    wait_for(cluster, job, "a push", lambda now: now["shards"][shard]["pid"] !=
             before["shards"][shard]["pid"] and now["shards"][shard]["version_min"] > version)
    return restored, time.monotonic() - began


def measure_recovery(options):
    """Rows of both times."""
    restored, pushed = [], []
    with tempfile.TemporaryDirectory(prefix="monsoon-") as folder, \
            LocalCluster(ps=2, workers=1, extra_flags=["--restart_backoff=0.1"]) as cluster:
        job_file = pathlib.Path(folder) / "wide.textproto"
        job_file.write_text(JOB.replace("INPUT", str(64 if options.quick else INPUT)))
        job = cluster.submit(job_file)
        wait_for(cluster, job, "training", lambda now: now["progress"]["step"] > 0)
        for number in range(options.rounds * KILLS_A_ROUND):
            seconds = kill_one(cluster, job, number)
            measure.log(f"kill {number}: restored after {seconds[0]:.2f} s, pushed to after "
                        f"{seconds[1]:.2f} s")
            restored.append(seconds[0])
            pushed.append(seconds[1])
        cluster.command("cancel", job, "--wait")
        described = cluster.describe(job)
        versions = [shard[key] for shard in described["shards"]
                    for key in ("version_min", "version_max")]
        # The job was cancelled: its last push may be on its way.
        if max(versions) - min(versions) > 1 or described["durability"]["lost"]:
            raise RuntimeError(f"stripes have {versions} pushes, lost "
                               f"{described['durability']['lost']}")
    size = f"64 MiB, {len(restored)} kills"
    return [Row(f"a killed ps until {what}{longest}", size, "1 worker", median_of(column),
                "1 s", "s", values, at_most(BOUND_S))
            for what, column in (("it has its slice", restored), ("pushes are applied", pushed))
            for longest, values in (("", column), (", longest", [max(column)]))]


if __name__ == "__main__":
    measure.run_program(measure_recovery, measure.options_parser(__doc__))
