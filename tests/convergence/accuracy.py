"""LeNet on Fashion-MNIST to accuracy: Downpour with three replicas and with
one, beside the one-process trainer, over several seeds.

    tests/convergence/accuracy.py [--seeds=1,2,3] [--epochs=10]

Fails (exit 1) unless, for three and for one replica, the mean test accuracy is
at least 0.88, none is under 0.875, the mean is within 1 point of the one-process
trainer's, and with three replicas at least 10 % of the pushes have a staleness
above 0. Takes about half an hour on two cores.
Build first: bazel build --config=opt //coordinator //ps_server //worker //worker/baseline
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from local_cluster import BASELINE, ROOT, LocalCluster  # noqa: E402

JOB = ROOT / "configs/job/lenet_downpour.textproto"
MEAN_AT_LEAST = 0.88
EACH_AT_LEAST = 0.875
DISTANCE = 0.01
STALE_SHARE = 0.10


def train_baseline(seed, epochs):
    output = subprocess.run(
        [BASELINE, f"--job={JOB}", f"--epochs={epochs}", "--threads=1", "--json",
         f"--set=seed={seed}"],
        capture_output=True, text=True, check=True).stdout
    return json.loads(output)["final"]["test_accuracy"]


def train_downpour(seed, epochs, replicas):
    """Accuracy of the final parameters and the share of stale pushes."""
    with LocalCluster(ps=1, workers=replicas) as cluster:
        description = cluster.run(JOB, {"seed": seed, "stop.epochs": epochs})
    fresh = dict(map(tuple, description["staleness"]["histogram"])).get(0, 0)
    return (description["final"]["test_accuracy"],
            1 - fresh / description["staleness"]["count"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--epochs", type=int, default=10)
    arguments = parser.parse_args()
    seeds = [int(seed) for seed in arguments.seeds.split(",")]

    print("| seed | one process | one replica | three replicas | stale pushes of three |")
    print("|---|---|---|---|---|", flush=True)
    accuracy = {"one process": [], "one replica": [], "three replicas": []}
    problems = []
    for seed in seeds:
        accuracy["one process"].append(train_baseline(seed, arguments.epochs))
        accuracy["one replica"].append(train_downpour(seed, arguments.epochs, 1)[0])
        final, stale = train_downpour(seed, arguments.epochs, 3)
        accuracy["three replicas"].append(final)
        if stale < STALE_SHARE:
            problems.append(f"seed {seed}: only {stale:.1%} of the pushes are stale")
        print(f"| {seed} | " + " | ".join(f"{values[-1]:.4f}" for values in accuracy.values()) +
              f" | {stale:.1%} |", flush=True)
    means = {name: statistics.mean(values) for name, values in accuracy.items()}
    print("| mean | " + " | ".join(f"{mean:.4f}" for mean in means.values()) + " | |")
    for name in ("one replica", "three replicas"):
        if means[name] < MEAN_AT_LEAST:
            problems.append(f"{name}: mean {means[name]:.4f} is under {MEAN_AT_LEAST}")
        if min(accuracy[name]) < EACH_AT_LEAST:
            problems.append(f"{name}: {min(accuracy[name]):.4f} is under {EACH_AT_LEAST}")
        if means[name] < means["one process"] - DISTANCE:
            problems.append(f"{name}: mean {means[name]:.4f} is over 1 point below "
                            f"{means['one process']:.4f}")
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
