#!/usr/bin/python3
"""What the wire formats save and cost: bytes and test accuracy.

    tests/benchmarks/wire_formats.py [--rounds=3] [--quick]

LeNet on Fashion-MNIST, one ps and three one-thread workers, the preset job for
five epochs, once for each format and seed. The ratio is the accuracy over that
of float32 with the same seed; `--rounds` is the number of seeds, at most 3.
"""

import os
import statistics
import sys

import measure
from measure import Row, number, paired

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from local_cluster import ROOT, LocalCluster  # noqa: E402

JOB = ROOT / "configs/job/lenet_downpour.textproto"
SEEDS = 3
EPOCHS, QUICK_EPOCHS = 5, 0.25
PUSH, FETCH, SHARE = "downpour.push_format", "downpour.fetch_format", "downpour.top_k_share"
EXACT = "float32"
FORMATS = {
    EXACT: {},
    "bfloat16": {PUSH: "BFLOAT16", FETCH: "BFLOAT16"},
    "float16": {PUSH: "FLOAT16", FETCH: "FLOAT16"},
    "int8": {PUSH: "INT8", FETCH: "INT8"},
    "pushes of int4": {PUSH: "INT4"},
    "pushes of the largest 5 %": {PUSH: "TOP_K", SHARE: 0.05},
    "pushes of the largest 1 %": {PUSH: "TOP_K", SHARE: 0.01},
    "pushes of 2 bits of the largest 5 %": {PUSH: "TOP_K_2BIT", SHARE: 0.05},
}
# Chance is 0.1.
LEAST_ACCURACY = 0.5


def train(name, seed, epochs):
    """Test accuracy, bytes of a push and bytes of a fetch."""
    with LocalCluster(ps=1, workers=3) as cluster:
        description = cluster.run(JOB, {"seed": seed, "stop.epochs": epochs,
                                        "evaluation.every_epochs": 100_000, **FORMATS[name]})
    counts = description["counts"]
    accuracy = description["final"]["test_accuracy"]
    measure.log(f"formats: {name}, seed {seed}: {accuracy:.4f}")
    if accuracy < LEAST_ACCURACY:
        raise RuntimeError(f"{name}, seed {seed}, is at accuracy {accuracy}: it did not train")
    return (accuracy, counts["bytes_pushed"] / counts["pushes"],
            counts["bytes_fetched"] / counts["fetches"])


def measure_formats(options):
    epochs = QUICK_EPOCHS if options.quick else EPOCHS
    columns = {name: [] for name in FORMATS}
    for seed in range(1, 1 + min(SEEDS, options.rounds)):
        for name, column in columns.items():
            column.append(train(name, seed, epochs))

    def words(name):
        accuracy, push, fetch = (statistics.median(values) for values in zip(*columns[name]))
        return f"{accuracy:.4f}, {number(push)} bytes a push, {number(fetch)} a fetch"

    exact = [run[0] for run in columns[EXACT]]
    return [Row(f"LeNet with {name}", size=f"{epochs:g} epochs", threads="3 workers",
                ours=words(name), reference=f"{EXACT} {words(EXACT)}", unit="test accuracy",
                ratios=paired([run[0] for run in column], exact))
            for name, column in columns.items() if name != EXACT]


if __name__ == "__main__":
    parser = measure.options_parser(__doc__)
    parser.set_defaults(rounds=SEEDS)
    measure.run_program(measure_formats, parser)
