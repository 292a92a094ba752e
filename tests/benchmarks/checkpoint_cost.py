#!/usr/bin/python3
"""What it costs that models survive: training with checkpoints every 10 s and pushes
kept until they are durable, beside the same job with `checkpoint { off: true }`.

    tests/benchmarks/checkpoint_cost.py [--rounds=7] [--quick]

The demo's MLP and LeNet on one ps with two one-thread workers, for some 25 s a turn, so
that checkpoints fall into each. First the job without checkpoints against itself: what
the machine's noise is. Every run must end SUCCEEDED, have processed all its examples and
have learnt something; the ones with checkpoints must have held some.
"""

import os
import sys

import measure
from measure import Row, at_least, median_of, paired

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from local_cluster import ROOT, LocalCluster, training_seconds  # noqa: E402

WORKERS = 2
EXAMPLES = 60_000
LEAST_ACCURACY = 0.6
WANTED = at_least(0.97)
# Epochs of a turn.
JOBS = {"MLP": ("configs/job/mlp_downpour.textproto", 60),
        "LeNet": ("configs/job/lenet_downpour.textproto", 4)}
SIDES = ("off", "off again", "every 10 s")


def rate(cluster, name, side, quick):
    path, epochs = JOBS[name]
    epochs = 1 if quick else epochs
    kept = {"checkpoint.every_seconds": 10} if side == "every 10 s" else {"checkpoint.off": "true"}
    description = cluster.run(ROOT / path, {"stop.epochs": epochs,
                                            "evaluation.every_epochs": 100_000, **kept})
    if description["progress"]["examples"] < EXAMPLES * epochs:
        raise RuntimeError(f"{description['progress']['examples']} of {EXAMPLES * epochs} examples")
    if description["final"]["test_accuracy"] < LEAST_ACCURACY:
        raise RuntimeError(f"{description['job']} did not learn: {description['final']}")
    held = description["durability"]["generation"]
    if (held > 0) != (side == "every 10 s"):
        raise RuntimeError(f"{description['job']}, checkpoints {side}: generation {held}")
    cluster.command("delete", description["job"])
    return description["progress"]["examples"] / training_seconds(description)


def measure_cost(options):
    """Rows of both models."""
    columns = {(name, side): [] for name in JOBS for side in SIDES}
    with LocalCluster(ps=1, workers=WORKERS) as cluster:
        for number_of_round in range(options.rounds):
            for name in JOBS:
                shift = number_of_round % len(SIDES)
                for side in SIDES[shift:] + SIDES[:shift]:
                    columns[name, side].append(rate(cluster, name, side, options.quick))
                    measure.log(f"{name}, checkpoints {side}: "
                                f"{columns[name, side][-1]:,.0f} samples/s")
    rows = []
    for name in JOBS:
        off = columns[name, "off"]
        for side, wanted in (("off again", None), ("every 10 s", WANTED)):
            rows.append(Row(f"{name}, checkpoints {side} / off", f"{WORKERS} workers", "1 each",
                            median_of(columns[name, side]), median_of(off), "samples/s",
                            paired(columns[name, side], off), wanted))
    return rows


if __name__ == "__main__":
    measure.run_program(measure_cost, measure.options_parser(__doc__))
