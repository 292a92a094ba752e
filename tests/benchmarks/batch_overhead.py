#!/usr/bin/python3
"""What an evaluation of a batch job costs beside its arithmetic.

    tests/benchmarks/batch_overhead.py [--rounds=7] [--quick]

Softmax regression by Sandblaster L-BFGS on so few samples that computing takes
well under a millisecond: what is left of an evaluation and of the iteration around
it are its round trips. With one ps and one worker, and with two of each. Every run
must end SUCCEEDED and have lowered F.
"""

import os
import sys

import measure
from measure import Row, at_most, median_of

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from local_cluster import BIN, ROOT, LocalCluster  # noqa: E402

JOB = ROOT / "configs/job/sandblaster_softmax.textproto"
SAMPLES_EACH = 100
# Milliseconds of an evaluation, its part of the iteration included.
WANTED_MS = 5.0
# Iterations that are not timed: connections and buffers are made in them.
WARM = 5
SIZES = ((1, 1), (2, 2))


def evaluation_ms(cluster, workers, iterations):
    description = cluster.run(JOB, {
        "train.limit": SAMPLES_EACH * workers, "batch_size": SAMPLES_EACH,
        "sandblaster.l2": 1e-6, "sandblaster.max_iterations": iterations,
        "sandblaster.evaluate_every_iterations": 0, "sandblaster.chunks_per_contribution": 1})
    trace = description["sandblaster"]["trace"]
    if not trace[-1]["f"] < trace[0]["f"]:
        raise RuntimeError(f"{description['job']} did not lower F")
    first, last = trace[WARM], trace[-1]
    return 1000 * (last["elapsed_s"] - first["elapsed_s"]) / (
        last["evaluations"] - first["evaluations"])


def measure_evaluations(options):
    rows = []
    for shards, workers in SIZES:
        with LocalCluster(ps=shards, workers=workers, bin_dir=BIN) as cluster:
            column = [evaluation_ms(cluster, workers, 30 if options.quick else 60)
                      for _ in range(options.rounds)]
        rows.append(Row(
            workload="Sandblaster: an evaluation beside its arithmetic", unit="ms",
            size=f"{SAMPLES_EACH} samples each", threads=f"{shards} ps, {workers} workers",
            ours=median_of(column), reference=f"wanted {WANTED_MS:g}",
            ratios=[value / WANTED_MS for value in column], wanted=at_most(1)))
    return rows


if __name__ == "__main__":
    measure.run_program(measure_evaluations, measure.options_parser(__doc__))
