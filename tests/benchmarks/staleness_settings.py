#!/usr/bin/python3
"""What settings do for the accuracy of asynchronous workers: the same job with each,
in turn, on one cluster, and in one process without any cluster.

    tests/benchmarks/staleness_settings.py [--model=lenet] [--epochs=3.5] [--seeds=1,2,3]
        [--workers=3] [--one_process] 'preset:' 'no local:downpour.local_update={none {}}' ...

A setting is NAME:PATH=VALUE;PATH=VALUE as for `submit --set`. A line for each run: the
test accuracy at the end, the mean of the evaluations in its second half (which is less
noise), when `--target` was reached (seconds of training, and epochs), examples/s and mean
staleness; at last the means over the seeds. With several seeds the settings take turns.
Build first: bazel build --config=opt //coordinator //ps_server //worker //worker/baseline
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from local_cluster import BASELINE, BIN, ROOT, LocalCluster, training_seconds  # noqa: E402

EXAMPLES = 60_000


def parse_setting(text):
    name, _, rest = text.partition(":")
    pairs = [pair.partition("=") for pair in rest.split(";") if pair]
    return name, {path.strip(): value.strip() for path, _, value in pairs}


def job_file(options):
    return ROOT / f"configs/job/{options.model}_downpour.textproto"


def common(options, seed):
    return {"seed": seed, "stop.epochs": options.epochs, "evaluation.every_epochs": options.every}


def outcome(points, target, examples_per_s, staleness):
    """`points`: (epoch, seconds, accuracy) in order."""
    half = [accuracy for epoch, _, accuracy in points if epoch > points[-1][0] / 2]
    reached = next(((seconds, epoch) for epoch, seconds, accuracy in points
                    if accuracy >= target), (math.inf, math.inf))
    return {"final": points[-1][2], "second half": statistics.mean(half), "seconds": reached[0],
            "epochs": reached[1], "examples/s": examples_per_s, "staleness": staleness}


def run_cluster(cluster, options, settings, seed):
    description = cluster.run(job_file(options), {
        "downpour.workers": options.workers, **common(options, seed), **settings})
    points = [(each["epoch"], each["elapsed_s"], each["test_accuracy"])
              for each in description["evaluations"]]
    rate = description["progress"]["examples"] / training_seconds(description)
    return outcome(points, options.target, rate, description["staleness"]["mean"])


def run_one_process(options, settings, seed):
    overrides = [f"--set={path}={value}"
                 for path, value in {**common(options, seed), **settings}.items()]
    output = subprocess.run(
        [BIN / BASELINE, f"--job={job_file(options)}", "--threads=1", "--json", *overrides],
        capture_output=True, text=True, check=True).stdout
    result = json.loads(output)
    points = [(each["epoch"], each["elapsed_s"], each["test_accuracy"])
              for each in result["epochs"] if each["test_accuracy"] is not None]
    return outcome(points, options.target, result["examples_per_s"], 0.0)


def line(name, values):
    return (f"{name:34} final {values['final']:.4f}  second half {values['second half']:.4f}  "
            f"{values['seconds']:6.1f} s, {values['epochs']:.2f} epochs  "
            f"{values['examples/s']:8,.0f}/s  staleness {values['staleness']:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="*", default=["preset:"])
    parser.add_argument("--model", default="lenet")
    parser.add_argument("--epochs", type=float, default=3.5)
    parser.add_argument("--every", type=float, default=0.5, help="epochs between evaluations")
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--target", type=float, default=0.88)
    parser.add_argument("--one_process", action="store_true",
                        help="run each setting in one process, too")
    options = parser.parse_args()
    settings = [parse_setting(text) for text in options.settings]
    seeds = [int(seed) for seed in options.seeds.split(",")]
    results = {}
    with LocalCluster(ps=1, workers=options.workers) as cluster:
        for turn, seed in enumerate(seeds):
            for name, values in settings[::1 if turn % 2 == 0 else -1]:
                runs = [(name, lambda: run_cluster(cluster, options, values, seed))]
                if options.one_process:
                    runs.append((f"{name}, one process",
                                 lambda: run_one_process(options, values, seed)))
                for label, run in runs:
                    results.setdefault(label, []).append(run())
                    print(line(f"{label}, seed {seed}", results[label][-1]), flush=True)
    if len(seeds) > 1:
        print("means:")
        for label, runs in results.items():
            print(line(label, {key: statistics.mean(run[key] for run in runs)
                               for key in runs[0]}))


if __name__ == "__main__":
    main()
