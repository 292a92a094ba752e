#!/usr/bin/python3
"""What the cluster costs one worker, and what shared memory gains.

    tests/benchmarks/downpour_overhead.py [--rounds=7] [--quick]

One ps and one one-thread worker train the MLP at batch 256, with n_fetch =
n_push = 1 and 5, over each transport; the same job without a ps is
worker/baseline. That makes no local updates, which at n = 5 are four passes over
the parameters more than it has, so n = 5 runs without them too. Then three
workers with a ps, over each transport. Every run must end SUCCEEDED, have
processed all its examples and have learnt something.
"""

import itertools
import json
import os
import subprocess
import sys
import time

import measure
from measure import Row, at_least, at_most, median_of, paired

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from local_cluster import BASELINE, BIN, ROOT, LocalCluster, training_seconds  # noqa: E402

JOB = ROOT / "configs/job/mlp_downpour.textproto"
EXAMPLES = 60_000
BATCH = 256
CROWD_BATCH = 128
LEAST_ACCURACY = 0.6
# What the tasks' environment says; unset: the library's own choice.
TRANSPORTS = {"gRPC": {"MONSOON_TRANSPORT": "grpc"}, "shared memory": {"MONSOON_TRANSPORT": None}}
# n_fetch = n_push, and whether the replica makes the preset's local updates.
CASES = ((1, True), (5, True), (5, False))
WANTED = {("gRPC", 1): at_least(0.82), ("shared memory", 1): at_least(0.92),
          ("gRPC", 5): at_least(0.95), ("shared memory", 5): at_least(0.95)}


def settings(epochs, batch, every, local=True):
    kept = {} if local else {"downpour.local_update": "{}"}
    return {"batch_size": batch, "stop.epochs": epochs, "downpour.n_fetch": every,
            "downpour.n_push": every, "evaluation.every_epochs": 100_000, **kept}


def demand_learning(who, accuracy):
    if accuracy < LEAST_ACCURACY:
        raise RuntimeError(f"{who} is at accuracy {accuracy}: it did not train")


def baseline_rate(epochs, batch, every):
    """Samples per second of the same worker without a ps."""
    flags = [f"--set={path}={value}" for path, value in settings(epochs, batch, every).items()]
    output = subprocess.run([BIN / BASELINE, f"--job={JOB}", "--threads=1", "--json", *flags],
                            capture_output=True, text=True, check=True).stdout
    result = json.loads(output)
    demand_learning("worker/baseline", result["final"]["test_accuracy"])
    return result["examples_per_s"]


def cluster_rate(cluster, epochs, batch, every, local=True):
    description = cluster.run(JOB, settings(epochs, batch, every, local))
    if description["progress"]["examples"] < EXAMPLES * epochs:
        raise RuntimeError(f"{description['progress']['examples']} of {EXAMPLES * epochs} examples")
    demand_learning(description["job"], description["final"]["test_accuracy"])
    return description["progress"]["examples"] / training_seconds(description)


def shares_memory(cluster):
    """Whether worker and shard map a memory file in common while a job runs."""
    job = cluster.submit(JOB, settings(100, BATCH, 1))
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            description = cluster.describe(job)
            if description["state"] in ("SUCCEEDED", "FAILED", "CANCELLED"):
                break
            working = [worker for worker in description["workers"] if worker["steps"] > 0]
            if working and description["shards"]:
                return bool(measure.memory_files(working[0]["pid"]) &
                            measure.memory_files(description["shards"][0]["pid"]))
            time.sleep(0.05)
        raise RuntimeError(f"{job} was not seen at work: {description['state']}")
    finally:
        cluster.command("cancel", job, check=False)
        cluster.command("watch", job, check=False)


def open_clusters(workers, stack):
    """{transport: cluster}, None where the transport was not taken."""
    clusters = {}
    for transport, environment in TRANSPORTS.items():
        cluster = LocalCluster(ps=1, workers=workers, environment=environment)
        cluster.__enter__()
        stack.append(cluster)
        taken = shares_memory(cluster)
        if transport == "gRPC" and taken:
            raise RuntimeError("MONSOON_TRANSPORT=grpc was not heeded")
        clusters[transport] = cluster if taken or transport == "gRPC" else None
    return clusters


def why_absent():
    return "worker and shard map no memory file in common: the tasks exchange over gRPC"


def one_worker_rows(options, clusters):
    # Some 8 s. A job's first second is slower: its kept pushes are in memory never written to.
    epochs = 1 if options.quick else 60
    columns = {}
    for number_of_round in range(options.rounds):
        for case in CASES:
            turns = [("alone", lambda case=case: baseline_rate(epochs, BATCH, case[0]))]
            turns += [(transport, lambda cluster=cluster, case=case:
                       cluster_rate(cluster, epochs, BATCH, *case))
                      for transport, cluster in clusters.items() if cluster is not None]
            shift = number_of_round % len(turns)
            for name, train in turns[shift:] + turns[:shift]:
                rate = train()
                columns.setdefault((name, case), []).append(rate)
                measure.log(f"overhead, n = {case[0]}, local updates {case[1]}: "
                            f"{name} {rate:.0f}/s")
    for case, transport in itertools.product(CASES, TRANSPORTS):
        every, local = case
        wanted = WANTED[transport, every]
        alone = columns["alone", case]
        row = {"workload": f"Downpour MLP over {transport}, n = {every}"
                           f"{'' if local else ', no local updates'}",
               "size": f"batch {BATCH}", "threads": "1 worker", "unit": "samples/s",
               "reference": f"without a ps {median_of(alone)}", "wanted": wanted}
        if clusters[transport] is None:
            yield Row(**row, why=why_absent())
            continue
        rates = columns[transport, case]
        yield Row(**row, ours=median_of(rates), ratios=paired(rates, alone))


def three_worker_row(options, clusters):
    epochs = 1 if options.quick else 10
    row = {"workload": "Downpour MLP, time over shared memory / over gRPC",
           "size": f"batch {CROWD_BATCH}", "threads": "3 workers", "unit": "samples/s",
           "wanted": at_most(1)}
    if clusters["shared memory"] is None:
        return Row(**row, why=why_absent())
    columns = {transport: [] for transport in clusters}
    for number_of_round in range(options.rounds):
        names = list(clusters)
        for transport in names if number_of_round % 2 == 0 else names[::-1]:
            columns[transport].append(cluster_rate(clusters[transport], epochs, CROWD_BATCH, 1))
    return Row(**row, ours=median_of(columns["shared memory"]),
               reference=f"gRPC {median_of(columns['gRPC'])}",
               ratios=paired(columns["gRPC"], columns["shared memory"]))


def measure_overhead(options):
    rows = []
    for workers, group in ((1, one_worker_rows), (3, lambda *all: [three_worker_row(*all)])):
        stack = []
        try:
            rows += group(options, open_clusters(workers, stack))
        finally:
            for cluster in stack:
                cluster.__exit__()
    return rows


if __name__ == "__main__":
    measure.run_program(measure_overhead, measure.options_parser(__doc__))
