#!/usr/bin/python3
"""Examples per second of one and of three one-thread workers, of the one-process
baseline, and of two of these at the same time, on the same job.

    tests/benchmarks/downpour_scaling.py [--rounds=7] [--model=lenet,mlp] [--json=FILE]

A round runs all in turn, so that a machine whose speed drifts gives fair
ratios; the medians of the paired ratios are what to quote. Every run must end
SUCCEEDED and have processed all its examples, or the benchmark fails.
Build first: bazel build --config=opt //...
"""

import json
import os
import subprocess
import sys

import measure
from measure import Row, at_least, median_of, paired

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from local_cluster import BASELINE, BIN, ROOT, LocalCluster, training_seconds  # noqa: E402

EXAMPLES = 60_000
# Batch and epochs of one run: long enough (some 10 s on one core) that joining and the last
# evaluation do not matter. A shorter one before has the workers read their data.
RUNS = {"lenet": (128, 3), "mlp": (128, 60)}
FIRST_EPOCHS = 0.1
QUICK_EPOCHS = {"lenet": 0.1, "mlp": 1}
WANTED = {("lenet", "two baselines"): at_least(0.9)}


def cluster_rate(cluster, model, batch, epochs, replicas):
    job = ROOT / f"configs/job/{model}_downpour.textproto"
    description = cluster.run(job, {
        "batch_size": batch, "stop.epochs": epochs, "downpour.workers": replicas,
        "evaluation.every_epochs": 1000})
    if description["progress"]["examples"] < int(EXAMPLES * epochs):
        raise RuntimeError(f"{description['progress']['examples']} of "
                           f"{EXAMPLES * epochs} examples")
    # Sum of what each replica processed over the time from its first work to
    # the end of the data.
    return description["progress"]["examples"] / training_seconds(description)


def baseline_rate(model, batch, epochs, together=1):
    """The sum of so many that run at the same time."""
    job = ROOT / f"configs/job/{model}_downpour.textproto"
    running = [subprocess.Popen(
        [BIN / BASELINE, f"--job={job}", f"--epochs={epochs}", "--threads=1", "--json",
         f"--set=batch_size={batch}", "--set=evaluation.every_epochs=1000"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for _ in range(together)]
    outputs = [process.communicate()[0] for process in running]
    if any(process.returncode for process in running):
        raise RuntimeError(f"worker/baseline ended with {[p.returncode for p in running]}")
    return sum(json.loads(output)["examples_per_s"] for output in outputs)


def model_rows(model, options):
    batch, epochs = RUNS[model]
    if options.quick:
        epochs = QUICK_EPOCHS[model]
    rates = {name: [] for name in ("baseline", "two baselines", "one worker", "three workers")}
    for number_of_round in range(options.rounds):
        rates["baseline"].append(baseline_rate(model, batch, epochs))
        rates["two baselines"].append(baseline_rate(model, batch, epochs, together=2))
        with LocalCluster(ps=1, workers=3) as cluster:
            cluster_rate(cluster, model, batch, FIRST_EPOCHS, 3)
            for name, replicas in (("one worker", 1), ("three workers", 3)):
                rates[name].append(cluster_rate(cluster, model, batch, epochs, replicas))
        measure.log(f"scaling {model} round {number_of_round + 1}: " +
                    ", ".join(f"{name} {column[-1]:.0f}/s" for name, column in rates.items()))
    for over, under in (("three workers", "one worker"), ("one worker", "baseline"),
                        ("three workers", "two baselines")):
        yield Row(f"Downpour {model}", size=f"batch {batch}", threads=over, unit="samples/s",
                  ours=median_of(rates[over]), reference=f"{under} {median_of(rates[under])}",
                  ratios=paired(rates[over], rates[under]), wanted=WANTED.get((model, under)))


def measure_scaling(options):
    return [row for model in options.model.split(",") for row in model_rows(model, options)]


def add_options(parser):
    parser.add_argument("--model", default="lenet,mlp")


def main():
    parser = measure.options_parser(__doc__)
    add_options(parser)
    measure.run_program(measure_scaling, parser)


if __name__ == "__main__":
    main()
