"""Restarts parameter servers in order, one at a time, under a job with rounds of all its workers:
SIGTERM, and `coordinator up` starts it again. The job must go on each time, with each difference
counted once.

What a shard has not written comes again, one difference a round, while the other shard's rounds go
on: no wait for one of them may hold up the other.
"""

import os
import pathlib
import signal
import tempfile

from tests.process.options import add_transport
from tests.tools.local_cluster import UNREACHABLE, LocalCluster, poll
from tests.tools.tiny_job import tiny_job

SHARDS, WORKERS = 2, 3
JOB = tiny_job(units=100, classes=8, activation="tanh", more="""
batch_size: 20
stripe_kib: 4
downpour {
  local { steps: 8 inner { sgd { rate: 0.02 } } }
  rounds { }
  optimizer { nesterov { rate: 0.7 momentum: 0.9 } }
}
stop { steps: 10000000 }
""")
# Rounds between two restarts: the job has gone on by itself.
ROUNDS_BETWEEN = 30


def add_options(parser):
    add_transport(parser)
    parser.add_argument("--restarts", type=int, default=5)


def rounds(described):
    """How many all shards have behind them."""
    return min((shard["version_min"] for shard in described["shards"]), default=0)


def await_rounds(cluster, job, at_least, restores):
    def look():
        now = cluster.try_describe(job, may_give=(UNREACHABLE,))
        there = (now and len(now["shards"]) == SHARDS and rounds(now) >= at_least and
                 now["durability"].get("restores", 0) >= restores)
        return now if there or now and now["state"] in ("FAILED", "SUCCEEDED") else None

    return poll(look)


def run(checks, options):
    with tempfile.TemporaryDirectory(prefix="monsoon-") as folder, \
            LocalCluster(ps=SHARDS, workers=WORKERS, bin_dir=options.bin,
                         extra_flags=("--restart_backoff=0.1",),
                         environment={"MONSOON_TRANSPORT": options.transport}) as cluster:
        job_file = pathlib.Path(folder) / "rounds.textproto"
        job_file.write_text(JOB)
        job = cluster.submit(job_file)
        described = await_rounds(cluster, job, ROUNDS_BETWEEN, 0)
        for number in range(options.restarts):
            if not described or described["state"] != "RUNNING":
                break
            os.kill(described["shards"][number % SHARDS]["pid"], signal.SIGTERM)
            described = await_rounds(cluster, job, rounds(described) + ROUNDS_BETWEEN, number + 1)
            checks.check(f"it goes on after restart {number + 1}",
                         described and described["state"] == "RUNNING",
                         cluster.describe(job) if not described else described["reason"])
        if described:
            durability = described["durability"]
            checks.check("nothing is lost", durability["promise"] == "exactly_once" and
                         not durability.get("lost"), durability)
        cluster.command("cancel", job, "--wait")
