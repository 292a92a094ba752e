#!/usr/bin/python3
"""Samples per second of training by one process, beside the newest torch and TensorFlow.

    tests/benchmarks/training_peers.py [--rounds=7] [--quick] [--simd=avx2]

worker/baseline, PyTorch and TensorFlow train the preset MLP and LeNet on Fashion-MNIST with
Adagrad, in turn: with one thread on one core, and LeNet with two on two. The MLP also runs
as a job of one worker through a ps, n = 1, which may use a second core, beside the peers'
one process on one. Each peer first finds which of its ways is fastest here (torch: layout of
the images, fused or separate optimizer, torch.compile, malloc's thresholds; TensorFlow: a
graph's loop, unrolled steps, XLA), and its loss, and ours, must fall alike over fixed steps before its speed counts.
The ratio is to the peer that is faster in the median; the reference names both.
"""

import json
import os
import statistics
import subprocess
import sys

import downpour_overhead
import instructions
import measure
from measure import Row, at_least, median_of, number, paired
from peers import NoPeer, TrainingPeer

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from local_cluster import BASELINE, BIN, ROOT, LocalCluster, training_seconds  # noqa: E402

MODELS = {"mlp": "MLP", "lenet": "LeNet"}
# (model, threads): batches, and what is wanted at which instructions.
CASES = {
    ("mlp", 1): ((64, 128, 256), {"avx512": at_least(1.4), "avx2": at_least(1.3)}),
    ("lenet", 1): ((64, 128), {"avx512": at_least(2.0), "avx2": at_least(1.3)}),
    ("lenet", 2): ((64, 128), {"avx512": at_least(1.7), "avx2": at_least(1.3)}),
}
THROUGH_PS = {"avx512": at_least(1.0), "avx2": at_least(1.0)}
# Examples of a turn: one to four seconds.
EXAMPLES = {("mlp", 1): 480_000, ("lenet", 1): 12_800, ("lenet", 2): 19_200}
QUICK_EXAMPLES = {"mlp": 25_600, "lenet": 2_560}
# A job's first second is slower: its kept pushes are in memory that was never written to.
PS_EXAMPLES, QUICK_PS_EXAMPLES = 3_600_000, 60_000
RATE = 0.02
# The losses that are compared: the means of so many windows of so many steps.
CURVE = {"batch": 64, "windows": 3, "steps": 100}
# How far each mean may be from ours, as a part of it. Initial values differ, so the first
# window was 0.13 off with the same training, the others 0.08.
CURVE_TOLERANCES = (0.25, 0.12, 0.12)
# Far above chance, 0.1, also after a quick run.
LEAST_ACCURACY = 0.4


def baseline(model, threads, cores, settings):
    """What worker/baseline tells of a job."""
    job = ROOT / f"configs/job/{model}_downpour.textproto"
    # The peers' Adagrad, whatever else the preset has.
    flags = {"downpour.optimizer": f"{{ adagrad {{ rate: {RATE} }} }}", "stop.epochs": 0,
             **settings}
    output = subprocess.run(
        [BIN / BASELINE, f"--job={job}", f"--threads={threads}", "--json",
         *(f"--set={path}={value}" for path, value in flags.items())],
        capture_output=True, text=True, check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, cores)).stdout
    return json.loads(output)


def our_rate(model, batch, threads, cores, examples):
    result = baseline(model, threads, cores, {
        "batch_size": batch, "stop.steps": examples // batch, "evaluation.every_epochs": 1000})
    demand_learning("worker/baseline", result["final"]["test_accuracy"])
    return result["examples_per_s"]


def our_curve(model, cores):
    """The losses that CURVE names."""
    examples = CURVE["batch"] * CURVE["steps"]
    result = baseline(model, 1, cores, {
        "batch_size": CURVE["batch"], "stop.steps": CURVE["windows"] * CURVE["steps"],
        # A little less, for the sum of the rounded parts.
        "evaluation.every_epochs": 0.9999 * examples / 60_000})
    reports = [report for report in result["epochs"] if report["examples"] % examples == 0]
    return [report["loss"] for report in reports[:CURVE["windows"]]]


def demand_learning(who, accuracy):
    if not accuracy >= LEAST_ACCURACY:
        raise RuntimeError(f"{who} is at accuracy {accuracy}: it did not train")


def demand_alike(who, theirs, ours):
    """Each mean loss must be near ours."""
    if not len(theirs) == len(ours) == CURVE["windows"]:
        raise RuntimeError(f"{who}: {len(theirs)} losses beside {len(ours)}")
    for a, b, tolerance in zip(theirs, ours, CURVE_TOLERANCES, strict=True):
        if not abs(a - b) <= tolerance * b:
            raise RuntimeError(f"{who} has the losses {theirs}, ours are {ours}: it does not "
                               "train the same")


def their_rate(peer, model, batch, examples):
    result = peer.ask("train", model, batch=batch, steps=examples // batch, seed=1, rate=RATE)
    demand_learning(peer.name, result["accuracy"])
    return result["examples_per_s"]


class ThroughPs:
    """A ps and one worker of one thread, free on all cores."""

    def __init__(self):
        self._cluster = LocalCluster(ps=1, workers=1)
        self._cluster.__enter__()
        self.shares_memory = downpour_overhead.shares_memory(self._cluster)

    def close(self):
        self._cluster.__exit__()

    def rate(self, model, batch, examples):
        description = self._cluster.run(
            ROOT / f"configs/job/{model}_downpour.textproto",
            {"batch_size": batch, "stop.epochs": examples / 60_000,
             "evaluation.every_epochs": 100_000})
        demand_learning(description["job"], description["final"]["test_accuracy"])
        return description["progress"]["examples"] / training_seconds(description)


def turns(columns, contenders, options):
    """{name: a value a round}: everybody comes first in some round."""
    names = list(contenders)
    for number_of_round in range(options.rounds):
        shift = number_of_round % len(names)
        for name in names[shift:] + names[:shift]:
            rate = contenders[name]()
            columns.setdefault(name, []).append(rate)
            measure.log(f"{name} {rate:.0f}/s")
    return columns


def fastest(columns, names):
    return max(names, key=lambda name: statistics.median(columns[name]))


def beside(columns, ours, names, **row):
    """The row of column `ours` beside the fastest of `names`."""
    first = fastest(columns, names)
    others = [f"{name} {median_of(columns[name])}" for name in names if name != first]
    also = f" (beside it {', '.join(others)})" if others else ""
    return Row(**row, ours=median_of(columns[ours]), unit="samples/s",
               reference=f"{first} {median_of(columns[first])}{also}",
               ratios=paired(columns[ours], columns[first]))


def batch_rows(peers, case, batch, options, cores, through):
    model, threads = case
    examples = QUICK_EXAMPLES[model] if options.quick else EXAMPLES[case]
    contenders = {"ours": lambda: our_rate(model, batch, threads, cores, examples)}
    if model == "mlp":
        pushed = QUICK_PS_EXAMPLES if options.quick else PS_EXAMPLES
        contenders["ours, through a ps"] = lambda: through.rate(model, batch, pushed)
    names = [peer.full_name(model) for peer in peers]
    for peer, name in zip(peers, names):
        contenders[name] = lambda peer=peer: their_rate(peer, model, batch, examples)
    measure.log(f"-- {model}, batch {batch}, {threads} threads")
    columns = turns({}, contenders, options)
    where = "1, one core" if threads == 1 else f"{threads}, {threads} cores"
    yield beside(columns, "ours", names, workload=f"{MODELS[model]} training",
                 size=f"batch {batch}", threads=where,
                 wanted=instructions.wanted(CASES[case][1]))
    if model == "mlp":
        over = "shared memory" if through.shares_memory else "gRPC"
        yield beside(columns, "ours, through a ps", names,
                     workload=f"{MODELS[model]} through a ps over {over}, n = 1, beside peers "
                     "without one", size=f"batch {batch}",
                     threads="1 worker; peers 1, one core",
                     wanted=instructions.wanted(THROUGH_PS))


def thread_rows(threads, options):
    """Rows of all cases with so many threads."""
    cores = set(sorted(os.sched_getaffinity(0))[-threads:])
    cases = [case for case in CASES if case[1] == threads]
    if len(cores) < threads:
        for model, _ in cases:
            yield Row(f"{MODELS[model]} training", threads=str(threads), why="too few cores")
        return
    peers, through = [], None
    try:
        for kind in ("torch", "tensorflow"):
            peers.append(TrainingPeer(kind, threads, cores))
        if threads == 1:
            through = ThroughPs()
        for model, _ in cases:
            ours = our_curve(model, cores)
            for peer in peers:
                name = peer.full_name(model)
                told = {way: number(rate) for way, rate in peer.way(model).rates.items()}
                theirs = peer.ask("curve", model, seed=1, rate=RATE, **CURVE)["losses"]
                measure.log(f"{model}, {threads} threads: {name} of {told}; losses "
                            f"{[round(loss, 3) for loss in theirs]}, ours {ours}")
                demand_alike(name, theirs, ours)
        for case in cases:
            for batch in CASES[case][0]:
                yield from batch_rows(peers, case, batch, options, cores, through)
    finally:
        for running in peers + ([through] if through else []):
            running.close()


def measure_training(options):
    try:
        return [row for threads in (1, 2) for row in thread_rows(threads, options)]
    except NoPeer as reason:
        return [Row("training beside the newest torch and TensorFlow", why=str(reason))]


if __name__ == "__main__":
    measure.run_program(measure_training, measure.options_parser(__doc__))
