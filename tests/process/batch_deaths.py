"""Kills a parameter server, a worker and the coordinator in turn under a batch job, and
stops the whole cluster and starts it again, with the real programs as a user calls them:
the job goes on by itself and ends with the same bits as one that nobody disturbed.

A round kills each parameter server, a worker and the coordinator once, and starts the
cluster anew.
"""

import os
import pathlib
import signal
import tempfile
import time

from tests.process.deaths import (
    SHARDS, WORKERS, await_progress, kill, kill_coordinator, new_cluster, start_anew)
from tests.process.options import add_transport
from tests.tools.local_cluster import PATIENCE_S
from tests.tools.printing import print_times
from tests.tools.tiny_job import tiny_job

JOB = tiny_job(units=100, activation="tanh", classes=8, noise=6, more="""
batch_size: 100
stripe_kib: 4
sandblaster { l2: 1e-4 }
checkpoint { every_seconds: 0.3 }
""")
# The job has so many for each fault, far more than pass until it is over: each worker
# takes so long for its half of the 40 chunks on any machine.
ITERATIONS_EACH = 50
DELAY = "--fault=compute_delay_ms=4"
# Between two faults: the job must have gone on by itself.
ITERATIONS_BETWEEN = 5


def kill_worker(cluster, described, number):
    os.kill(described["workers"][number % WORKERS]["pid"], signal.SIGKILL)


def plan(rounds):
    """(what is killed, how, which of them)"""
    faults = []
    for number in range(rounds):
        faults += [("ps", kill, 0), ("worker", kill_worker, number),
                   ("coordinator", kill_coordinator, 0), ("ps", kill, 1),
                   ("new start", start_anew, 0)]
    return faults


def trace(described):
    return [(row["iteration"], row["f"], row["gradient_norm"], row["step_length"])
            for row in described["sandblaster"]["trace"]]


def disturb(cluster, job, faults):
    """Carries out the faults; how long each took until the batch was beyond where it was."""
    seconds = {}
    generation = 0
    iteration = 0
    for number, (name, fault, task) in enumerate(faults):
        described = await_progress(
            cluster, job, f"fault {number}", lambda now, generation=generation,
            iteration=iteration: now["durability"]["generation"] > generation and
            now["sandblaster"]["iteration"] >= iteration + ITERATIONS_BETWEEN and
            all(worker["state"] in ("RUNNING", "WAITING") for worker in now["workers"]))
        generation = described["durability"]["generation"]
        iteration = described["sandblaster"]["iteration"]
        before = time.monotonic()
        fault(cluster, described, task)
        await_progress(cluster, job, f"the iteration after fault {number}",
                       lambda now, iteration=iteration:
                       now["sandblaster"]["iteration"] > iteration + 1)
        seconds.setdefault(name, []).append(time.monotonic() - before)
    return seconds


def export(cluster, job, folder, name):
    path = pathlib.Path(folder) / f"{name}.safetensors"
    cluster.command("export", job, f"--out={path}")
    return path.read_bytes()


def add_options(parser):
    add_transport(parser)
    parser.add_argument("--rounds", type=int, default=1)


def run(checks, options):
    faults = plan(options.rounds)
    iterations = {"sandblaster.max_iterations": ITERATIONS_EACH * (len(faults) + 1)}

    with tempfile.TemporaryDirectory(prefix="monsoon-") as folder:
        job_file = pathlib.Path(folder) / "tiny.textproto"
        job_file.write_text(JOB)
        with new_cluster(options) as cluster:
            quiet = cluster.run(job_file, iterations)
            expected = export(cluster, quiet["job"], folder, "quiet")
        with new_cluster(options, "--restart_backoff=0.1", DELAY) as cluster:
            disturbed(checks, cluster, job_file, iterations, faults, quiet, expected)


def disturbed(checks, cluster, job_file, iterations, faults, quiet, expected):
    job = cluster.submit(job_file, iterations)
    watch = cluster.start_command("watch", job)
    seconds = disturb(cluster, job, faults)
    watch.wait(timeout=10 * PATIENCE_S)
    described = cluster.describe(job)
    kinds = [event["kind"] for event in described["events"]]
    check = checks.check
    check("watch sees it all and ends with the job's code", watch.returncode == 0,
          watch.returncode)
    check("the job succeeds", described["state"] == "SUCCEEDED", described["reason"])
    check("promise", described["durability"]["promise"] == "exactly_once",
          described["durability"])
    names = [name for name, _, _ in faults]
    returns = len(names) - names.count("worker")
    check("each death of a shard or the coordinator is a return",
          kinds.count("batch_returned") >= returns, kinds)
    check("each restore is told",
          kinds.count("shard_restored") ==
          names.count("ps") + SHARDS * names.count("new start"), kinds)
    check("the same iterations", trace(described) == trace(quiet),
          [pair for pair in zip(trace(described), trace(quiet)) if pair[0] != pair[1]][:2] or
          (len(trace(described)), len(trace(quiet))))
    check("the same end", described["sandblaster"]["end_reason"] ==
          quiet["sandblaster"]["end_reason"], described["sandblaster"]["end_reason"])
    check("the same bits", export(cluster, job, job_file.parent, "disturbed") == expected)
    print(f"{len(faults)} faults, {kinds.count('batch_returned')} returns, "
          f"{len(trace(described))} iterations; until the batch was beyond where it was:")
    print_times(seconds)
