#!/usr/bin/python3
"""Examples per second of LeNet on the whole machine: our cluster beside those of the newest
torch and TensorFlow, and beside one process of theirs with all threads.

    tests/benchmarks/cluster_peers.py [--rounds=7] [--quick] [--simd=avx2]

One ps and three workers of one thread, each: ours, TensorFlow's ParameterServerStrategy and
a parameter server by torch's RPC; torch's DDP over gloo with two and three ranks; PyTorch
and TensorFlow in one process with a thread a core. Batch 64 a worker. All take turns. The
fastest asynchronous and the fastest synchronous cluster have a target, the others are stated.
After each turn the test accuracy must be near ours, or the benchmark fails.
"""

import contextlib
import math
import statistics

import cluster_sides
import instructions
import measure
from measure import Row, at_least, median_of, paired
from peers import NoPeer

BATCH = 64
# Of a turn: some five seconds. Ours is faster, and its clock holds the job's begin and end.
EXAMPLES, OUR_EXAMPLES, QUICK_EXAMPLES = 57_600, 120_000, 12_800
WANTED = {group: {"avx512": at_least(2.5), "avx2": at_least(1.3)}
          for group in ("asynchronous", "synchronous")}
# What the test accuracy after a turn may be below ours, which has seen twice as much.
NEAR, QUICK_LEAST = 0.10, 0.3

TITLES = {"asynchronous": "asynchronous clusters", "synchronous": "synchronous clusters",
          "one process": "one process with all cores"}


def demand_near(name, accuracies, ours, quick):
    """The median of a peer's accuracies must be near the median of ours."""
    mine, theirs = statistics.median(ours), statistics.median(accuracies)
    least = QUICK_LEAST if quick else mine - NEAR
    if not theirs >= least:
        raise RuntimeError(f"{name} is at accuracy {theirs}, ours at {mine}: it does not train "
                           "the same")


def leaders(others, columns):
    """{group: its fastest}"""
    found = {}
    for other in others:
        best = found.get(other.group)
        if best is None or (statistics.median(columns[other.name]) >
                            statistics.median(columns[best.name])):
            found[other.group] = other
    return found


def rows(contenders, columns):
    ours, *others = contenders
    first = leaders(others, columns)
    for other in others:
        leads = first[other.group] is other
        which = "the fastest" if leads else "another"
        yield Row(f"LeNet on the whole machine beside {TITLES[other.group]}, {which}",
                  size=f"batch {BATCH}",
                  threads="whole machine", unit="examples/s", ours=median_of(columns[ours.name]),
                  reference=f"{other.name} {median_of(columns[other.name])}",
                  ratios=paired(columns[ours.name], columns[other.name]),
                  wanted=instructions.wanted(WANTED.get(other.group, {})) if leads else None)


def measure_clusters(options):
    columns, accuracies = {}, {}
    with contextlib.ExitStack() as stack:
        try:
            contenders = cluster_sides.open_all(BATCH, stack)
        except NoPeer as reason:
            return [Row("clusters of the newest torch and TensorFlow", why=str(reason))]
        for number_of_round in range(options.rounds):
            shift = number_of_round % len(contenders)
            for contender in contenders[shift:] + contenders[:shift]:
                examples = QUICK_EXAMPLES if options.quick else \
                    OUR_EXAMPLES if contender is contenders[0] else EXAMPLES
                run = contender.rate(BATCH, examples, number_of_round + 1)
                if math.isnan(run.examples_per_s):
                    raise RuntimeError(f"{contender.name}: its workers never trained together")
                columns.setdefault(contender.name, []).append(run.examples_per_s)
                accuracies.setdefault(contender.name, []).append(run.accuracy)
                measure.log(f"{contender.name}: {run.examples_per_s:.0f} examples/s, accuracy "
                            f"{run.accuracy:.4f}")
    for contender in contenders[1:]:
        demand_near(contender.name, accuracies[contender.name],
                    accuracies[contenders[0].name], options.quick)
    return list(rows(contenders, columns))


if __name__ == "__main__":
    measure.run_program(measure_clusters, measure.options_parser(__doc__))
