#!/usr/bin/python3
"""Time to a test accuracy on the whole machine: LeNet on Fashion-MNIST, our cluster beside
the newest torch and TensorFlow, one process or several.

    tests/benchmarks/accuracy_peers.py [--rounds=5] [--target=0.88] [--quick] [--simd=avx2]

The contenders are those of cluster_peers.py, batch 64 a worker. Each takes what it is fastest
with of a small grid: three rates (ours are larger, since the preset's optimizer averages, which
the peers' Adagrad does not) with a warm-up of 300 steps, then the best of them without one,
with a seed that is not measured; a choice is given up where it takes longer than the
best so far. Then seeds 1 to 5 take turns. Peers whose best took SLOWER times as long as the
fastest peer's, with the seed of the grid, are not run again and have a row that says so.
All evaluate the whole test set every half epoch, within the clock. `--rounds` is the number
of seeds, at most 5.
"""

import contextlib
import math
import statistics

import cluster_sides
import instructions
import measure
import time_to_accuracy
from cluster_sides import Plan, Setting
from measure import Row, at_least, median_of
from peers import NoPeer
from time_to_accuracy import CHOOSING_SEED, SEEDS, best_of, speedups

RATES = (0.03, 0.05, 0.02)  # the likely best first
WARM_UPS = (300, 0)
BATCH, MAX_EPOCHS, EVERY_EPOCHS = 64, 12, 0.5
SLOWER = 1.5
WANTED = {"avx512": at_least(2.0), "avx2": at_least(1.3)}


def choose(seconds_of, rates=RATES, warm_ups=WARM_UPS):
    """(seconds, setting) of the fastest; (infinite, None) where none gets there."""
    tried = {}

    def seconds(setting, limit):
        tried[setting] = seconds_of(setting, limit)
        return tried[setting]

    def attempt(choices, limit):
        try:
            return best_of(choices, lambda setting, least: seconds(setting, min(least, limit)))
        except RuntimeError:
            return None

    first = attempt([(Setting(rate, warm_ups[0]),) for rate in rates], math.inf)
    if first is None:
        return math.inf, None
    attempt([(first[0]._replace(warm_up=each),) for each in warm_ups[1:]], tried[first[0]])
    best = min(tried, key=tried.get)
    return tried[best], best


def settings_of(contenders, plan, rates):
    found = {}
    for contender in contenders:
        def seconds_of(setting, limit, contender=contender):
            seconds = contender.seconds_to(plan, setting, CHOOSING_SEED, limit)
            measure.log(f"{contender.name}: {setting}: {seconds:.1f} s")
            return seconds
        its_own = getattr(contender, "rates", rates) if rates is RATES else rates
        found[contender.name] = choose(seconds_of, its_own)
    return found


def kept(contenders, chosen):
    """Ours, and the peers that are not SLOWER times slower than the fastest of them."""
    ours, *others = contenders
    least = min(chosen[other.name][0] for other in others)
    if math.isinf(least) or chosen[ours.name][1] is None:
        raise RuntimeError(f"who reached the target: {chosen}")
    return [ours] + [other for other in others if chosen[other.name][0] <= SLOWER * least]


def rows(contenders, running, chosen, columns, plan):
    ours, *others = contenders
    mine = columns[ours.name]
    told = f"{chosen[ours.name][1]}: {median_of(mine)}"
    hardest = min(running[1:], key=lambda other: statistics.median(columns[other.name]))
    common = {"size": f"batch {plan.batch}", "threads": "whole machine"}
    for other in others:
        seconds, setting = chosen[other.name]
        workload = f"time to {plan.target:g} test accuracy, LeNet, beside " + \
            ("the fastest peer" if other is hardest else "another peer")
        if other not in running:
            why = "it did not get there" if setting is None else \
                f"{seconds:.1f} s with the grid's seed ({setting}): over {SLOWER} times the " \
                "fastest peer's"
            yield Row(workload, **common, reference=other.name, why=why)
            continue
        theirs = columns[other.name]
        yield Row(workload, **common, unit="s", ours=told,
                  reference=f"{other.name}, {setting}: {median_of(theirs)}",
                  ratios=speedups(theirs, mine),
                  wanted=instructions.wanted(WANTED) if other is hardest else None)


def measure_accuracy(options):
    seeds = 1 if options.quick else min(SEEDS, options.rounds)
    target = time_to_accuracy.QUICK_TARGET if options.quick else options.target
    plan = Plan(target, BATCH, EVERY_EPOCHS, 1 if options.quick else MAX_EPOCHS)
    columns = {}
    with contextlib.ExitStack() as stack:
        try:
            contenders = cluster_sides.open_all(BATCH, stack)
        except NoPeer as reason:
            return [Row(f"time to {target:g} beside the newest torch and TensorFlow",
                        why=str(reason))]
        chosen = settings_of(contenders, plan, RATES[:1] if options.quick else RATES)
        running = kept(contenders, chosen)
        for seed in range(1, seeds + 1):
            shift = seed % len(running)
            for contender in running[shift:] + running[:shift]:
                seconds = contender.seconds_to(plan, chosen[contender.name][1], seed, math.inf)
                columns.setdefault(contender.name, []).append(seconds)
                measure.log(f"{contender.name}: seed {seed}: {seconds:.1f} s")
    return list(rows(contenders, running, chosen, columns, plan))


def options_parser(doc):
    parser = measure.options_parser(doc)
    parser.set_defaults(rounds=SEEDS)
    parser.add_argument("--target", type=float, default=0.88)
    return parser


if __name__ == "__main__":
    measure.run_program(measure_accuracy, options_parser(__doc__))
