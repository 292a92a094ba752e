"""Examples per second of one and of three one-thread workers, and of the
one-process baseline, on the same job.

    tests/benchmarks/downpour_scaling.py [--rounds=7] [--model=lenet,mlp] [--json=FILE]

A round runs the three in turn, so that a machine whose speed drifts gives fair
ratios; the medians of the paired ratios are what to quote. Every run must end
SUCCEEDED and have processed all its examples, or the benchmark fails.
Build first: bazel build --config=opt //...
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from local_cluster import BASELINE, ROOT, LocalCluster  # noqa: E402

# Batch and epochs of one run: long enough (10 s and more on one core) that
# joining and the last evaluation do not matter.
RUNS = {"lenet": (128, 1), "mlp": (128, 10)}


def cluster_rate(cluster, model, batch, epochs, replicas):
    job = ROOT / f"configs/job/{model}_downpour.textproto"
    description = cluster.run(job, {
        "batch_size": batch, "stop.epochs": epochs, "downpour.replicas": replicas,
        "evaluation.every_epochs": 1000})
    expected = int(60000 * epochs)
    if description["progress"]["examples"] < expected:
        raise RuntimeError(f"{description['progress']['examples']} of {expected} examples")
    # Sum of what each replica processed over the time from its first work to
    # the end of the data.
    return description["progress"]["examples"] / training_seconds(description), description


def training_seconds(description):
    """From the state RUNNING to FINISHING, by the coordinator's events."""
    times = {event["kind"]: event["elapsed_s"] for event in description["events"]}
    return times["finishing"] - times["running"]


def baseline_rate(model, batch, epochs):
    job = ROOT / f"configs/job/{model}_downpour.textproto"
    output = subprocess.run(
        [BASELINE, f"--job={job}", f"--epochs={epochs}", "--threads=1", "--json",
         f"--set=batch_size={batch}", "--set=evaluation.every_epochs=1000"],
        capture_output=True, text=True, check=True).stdout
    return json.loads(output)["examples_per_s"]


def cpu_name():
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":")[1].strip()
    return "unknown"


def spread(values):
    return f"{statistics.median(values):.3g} | {min(values):.3g} | {max(values):.3g}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--model", default="lenet,mlp")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    print(f"CPU {cpu_name()}, {os.cpu_count()} cores, kernel {platform.release()}, "
          f"load {os.getloadavg()[0]:.2f}", flush=True)
    print("| workload | value | median | min | max | rounds |")
    print("|---|---|---|---|---|---|")
    results = {}
    for model in arguments.model.split(","):
        batch, epochs = RUNS[model]
        rows = {"baseline": [], "one": [], "three": []}
        for _ in range(arguments.rounds):
            rows["baseline"].append(baseline_rate(model, batch, epochs))
            with LocalCluster(ps=1, workers=3) as cluster:
                rows["one"].append(cluster_rate(cluster, model, batch, epochs, 1)[0])
                rows["three"].append(cluster_rate(cluster, model, batch, epochs, 3)[0])
        ratios = {
            "three / one": [a / b for a, b in zip(rows["three"], rows["one"])],
            "one / baseline": [a / b for a, b in zip(rows["one"], rows["baseline"])],
        }
        name = f"{model}, batch {batch}"
        for key, values in rows.items():
            print(f"| {name} | {key}, examples/s | {spread(values)} | {arguments.rounds} |")
        for key, values in ratios.items():
            print(f"| {name} | {key} | {spread(values)} | {arguments.rounds} |", flush=True)
        results[model] = {"batch": batch, "rates": rows, "ratios": ratios}
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
