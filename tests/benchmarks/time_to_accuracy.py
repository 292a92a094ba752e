#!/usr/bin/python3
"""Time to a test accuracy on the whole machine: LeNet on Fashion-MNIST, a
cluster of one-thread workers with a ps against PyTorch.

    tests/benchmarks/time_to_accuracy.py [--target=0.88] [--batch=64] [--quick]

Both have the same initialisation law, batch, data order rule (a new
permutation each epoch) and Adagrad, ours with the preset's average of its path.
Each takes its rate from a grid of its own: first each layout of the cluster, and
each number of threads of PyTorch, tries what it is best at with one seed; then
the best of each runs five seeds in turn.
PyTorch may also have the preset's warm-up. Both evaluate every half epoch, and
evaluations count. `--rounds` is the number of seeds, at most 5.
"""

import math
import os
import sys

import measure
from measure import Row, at_least, median_of
from torch_peer import DEBIAN, NoPeer, TorchPeer

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from local_cluster import ROOT, LocalCluster, training_seconds  # noqa: E402

JOB = ROOT / "configs/job/lenet_downpour.textproto"
SEEDS = 5
# The likely best first: a choice is given up where it takes longer.
GRID = (0.02, 0.03, 0.05, 0.01)
# The preset averages (Optimizer.average), and so bears more.
OUR_GRID = (0.1, 0.2, 0.05)
WORKERS = (2, 3)
WARM_UP = 300  # the preset's
LOCAL_SHARE = 0.1  # of the rate, for the replica's own update: 1 - average.share
EVERY_EPOCHS = 0.5
MAX_EPOCHS = 15
# Where a run is shorter than this it only shows that all works.
QUICK_TARGET, QUICK_EPOCHS, QUICK_GRID, QUICK_WORKERS, QUICK_EVERY = 0.5, 0.4, (0.02,), (2,), 0.1
# The seed that rates are chosen with, and is not measured.
CHOOSING_SEED = 1000


class Plan:
    """What is tried; shorter with --quick."""

    def __init__(self, options):
        self.batch = options.batch
        self.target = QUICK_TARGET if options.quick else options.target
        self.grid = QUICK_GRID if options.quick else GRID
        self.our_grid = QUICK_GRID if options.quick else OUR_GRID
        self.workers = QUICK_WORKERS if options.quick else WORKERS
        self.every = QUICK_EVERY if options.quick else EVERY_EPOCHS
        self.max_epochs = QUICK_EPOCHS if options.quick else MAX_EPOCHS
        self.seeds = 1 if options.quick else min(SEEDS, options.rounds)


def our_time(plan, workers, rate, seed, limit=math.inf):
    """Seconds from the first work to the evaluation that finds the target;
    infinite where max_epochs, or `limit` seconds, did not do."""
    given_up = {} if math.isinf(limit) else {"stop.seconds": limit}
    with LocalCluster(ps=1, workers=workers) as cluster:
        description = cluster.run(JOB, {
            "batch_size": plan.batch, "seed": seed, "stop.epochs": plan.max_epochs,
            "stop.target_accuracy": plan.target, "evaluation.every_epochs": plan.every,
            "downpour.optimizer.adagrad.rate": rate,
            "downpour.local_update.adagrad_rate": LOCAL_SHARE * rate, **given_up})
    best = max(evaluation["test_accuracy"] for evaluation in description["evaluations"])
    seconds = training_seconds(description) if best >= plan.target else math.inf
    measure.log(f"ours: {workers} workers, rate {rate}, seed {seed}: {seconds:.1f} s, {best:.4f}")
    return seconds


def torch_time(plan, peer, threads, rate, warm_up, seed, limit=math.inf):
    answer = peer.ask("time_to", target=plan.target, model="lenet", batch=plan.batch, seed=seed,
                      rate=rate, warm_up=warm_up, threads=threads, every_epochs=plan.every,
                      max_epochs=plan.max_epochs,
                      max_seconds=None if math.isinf(limit) else limit)
    seconds = math.inf if answer["seconds"] is None else answer["seconds"]
    measure.log(f"{peer.name}: {threads} threads, rate {rate}, warm-up {warm_up}, seed {seed}: "
                f"{seconds:.1f} s, {answer['best']:.4f}")
    return seconds


def best_of(choices, seconds_of):
    """The choice with the least time; an error where none got there.
    `seconds_of` takes a choice and the time to beat."""
    best, least = None, math.inf
    for choice in choices:
        seconds = seconds_of(*choice, least)
        if seconds < least:
            best, least = choice, seconds
    if best is None:
        raise RuntimeError(f"none of {choices} reached the target")
    return best


def best_threads(plan, peer):
    """The number of threads that PyTorch trains fastest with."""
    def rate(threads):
        return peer.ask("train", model="lenet", batch=plan.batch, steps=40, threads=threads,
                        seed=1, rate=0.02)["examples_per_s"]

    return max(range(1, os.cpu_count() + 1), key=rate)


def compare(plan, peer):
    ours = best_of([(workers, rate) for workers in plan.workers for rate in plan.our_grid],
                   lambda workers, rate, limit: our_time(plan, workers, rate, CHOOSING_SEED,
                                                         limit))
    threads = best_threads(plan, peer)
    theirs = best_of([(rate, warm_up) for rate in plan.grid for warm_up in (0, WARM_UP)],
                     lambda rate, warm_up, limit: torch_time(plan, peer, threads, rate, warm_up,
                                                             CHOOSING_SEED, limit))
    columns = {"ours": [], "theirs": []}
    for seed in range(1, plan.seeds + 1):
        turns = [("ours", lambda seed=seed: our_time(plan, *ours, seed)),
                 ("theirs", lambda seed=seed: torch_time(plan, peer, threads, *theirs, seed))]
        for name, run in turns[::1 if seed % 2 == 0 else -1]:
            columns[name].append(run())
    return ours, threads, theirs, columns


def speedups(theirs, ours):
    """Of each seed. Who did not get there within max_epochs took for ever;
    a seed that neither finished says nothing for us."""
    return [0.0 if math.isinf(b) else a / b for a, b in zip(theirs, ours)]


def measure_time(options):
    plan = Plan(options)
    row = {"workload": f"time to {plan.target:g} test accuracy, LeNet", "unit": "s",
           "size": f"batch {plan.batch}", "threads": "whole machine", "wanted": at_least(2)}
    try:
        with TorchPeer(DEBIAN) as peer:
            (workers, our_rate), threads, (their_rate, warm_up), columns = compare(plan, peer)
            name = peer.name
    except NoPeer as reason:
        return [Row(**row, reference="PyTorch", why=str(reason))]
    return [Row(**row, ours=f"1 ps + {workers} workers, rate {our_rate:g}: "
                f"{median_of(columns['ours'])}",
                reference=f"{name}, {threads} threads, rate {their_rate:g}, warm-up {warm_up}: "
                f"{median_of(columns['theirs'])}",
                ratios=speedups(columns["theirs"], columns["ours"]))]


def options_parser(doc):
    parser = measure.options_parser(doc)
    parser.set_defaults(rounds=SEEDS)
    add_options(parser)
    return parser


def add_options(parser):
    parser.add_argument("--target", type=float, default=0.88)
    parser.add_argument("--batch", type=int, default=64)


if __name__ == "__main__":
    measure.run_program(measure_time, options_parser(__doc__))
