#!/usr/bin/python3
"""Whether a change made the programs slower: those from before and after it, in
turn.

    tests/benchmarks/compare.py --before=DIR --after=DIR [--control] [--rounds=7]
        [--quick] [--filter=transfer,call] [--rows=TEXT] [--json=FILE]

DIR is laid out as bazel-bin; the same one twice tells what the machine's noise
is, and --control does so in the same run: a third side, which is `before` again.
Each row is of our own programs alone, as the benchmark of that name measures
it and with its checks; the limits and peers they have there are left out. In a
round all sides take a turn at each row, each with new processes, and each round
begins with another side. Ratios are after / before of one round,
as speeds: above 1 the newer one is faster.

The verdict is PASS if the median is at least 0.97, else REPEAT: run that row
again with 21 rounds. There it counts (COUNTS) only if all of the median's 95 %
interval lies below 0.97, else it is NOISE. Exit 1 if a benchmark failed, 3 if a
row is REPEAT or COUNTS.
"""

import dataclasses
import functools
import itertools
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys

import batch_overhead
import data_plane
import downpour_overhead
import measure
import peer_pytorch
from measure import number

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from local_cluster import COORDINATOR, LocalCluster  # noqa: E402

LEAST = 0.97
CONFIDENCE = 0.95
# Rounds from which on a slower row can count.
DECISIVE_ROUNDS = 21
SIDES = ("before", "after")
CONTROL = "control"
# Of one turn, of which the median is taken: the first pays for what is cold.
PLANE_ROUNDS = {"transfer": 2, "call": 3, "connections": 2}
# Half of what downpour_overhead trains: each turn has a cluster of its own here.
EPOCHS = {1: 10, 3: 5}
COLUMNS = ("row", "before", "after", "unit", "before / before", "min to max", "after / before",
           "min", "max", "95 % interval", "rounds", "verdict")


@dataclasses.dataclass
class Figure:
    """What one side did in one round: `speed` in `unit`, larger is better."""
    speed: float
    unit: str


@dataclasses.dataclass
class Task:
    """What is timed together. `turn(bin_dir)` gives {row: Figure} of `rows`."""
    rows: list
    turn: object


def median_interval(values):
    """The narrowest pair of order statistics that holds the median with at least
    CONFIDENCE, for any distribution. None where there are too few values."""
    count, outside = len(values), 0.0
    ranks = 0
    for rank in range(count // 2):
        # Either end lies on the wrong side of the median so often.
        outside += 2 * math.comb(count, rank) / 2**count
        if outside > 1 - CONFIDENCE:
            break
        ranks = rank + 1
    ordered = sorted(values)
    return (ordered[ranks - 1], ordered[count - ranks]) if ranks else None


def verdict(ratios):
    if statistics.median(ratios) >= LEAST:
        return "PASS"
    if len(ratios) < DECISIVE_ROUNDS:
        return "REPEAT"
    return "COUNTS" if median_interval(ratios)[1] < LEAST else "NOISE"


def order(number_of_round, sides=SIDES):
    """The sides, in the order of their turns."""
    first = number_of_round % len(sides)
    return sides[first:] + sides[:first]


# The rows of the data plane: our contenders, by workload.
PLANES = {
    "transfer": [(f"{verb}_{mib}MiB", transport) for mib in (16, 64) for verb in ("fetch", "push")
                 for transport in ("grpc", "shared_memory")] +
                [("step_speech", "grpc"), ("step_speech", "shared_memory")],
    "call": [("call_64B", "grpc"), ("call_64B", "shared_memory")],
    "connections": [("connections", "256"), ("connections", "8")],
}


def plane_figures(output, group):
    """{row: Figure} of the program's output."""
    workloads = data_plane.workloads_of(output)
    figures = {}
    for name, contender in PLANES[group]:
        workload = workloads[name]
        if workload.why_not(contender):
            raise RuntimeError(f"{name}: {contender}: {workload.why_not(contender)}")
        row = f"{name} {contender}"
        figures[row] = Figure(1 / statistics.median(workload.column(contender)), "per s")
        if name.startswith("fetch") and contender == "grpc":
            seconds = statistics.median(workload.cpu(contender))
            figures[f"{row}, CPU"] = Figure(1 / seconds, "per CPU s")
        if "peak_bytes" in workload.facts:
            figures[f"{name}, memory"] = Figure(1e9 / workload.facts["peak_bytes"], "1 / GB")
    return figures


def plane_rows(group):
    rows = [f"{name} {contender}" for name, contender in PLANES[group]]
    rows += [f"{row}, CPU" for row in rows if row.startswith("fetch") and row.endswith("grpc")]
    return rows + (["connections, memory"] if group == "connections" else [])


def plane_tasks(group, options):
    rounds = 1 if options.quick else PLANE_ROUNDS[group]
    yield Task(plane_rows(group), lambda bin_dir: plane_figures(
        data_plane.output_of([group], rounds, options.quick, bin_dir), group))


def training_tasks(options):
    core = max(os.sched_getaffinity(0))
    examples = peer_pytorch.QUICK_EXAMPLES if options.quick else peer_pytorch.EXAMPLES
    for model, batch in peer_pytorch.WANTED:
        row = f"{model} training, batch {batch}"

        def turn(bin_dir, row=row, model=model, batch=batch):
            rate = peer_pytorch.our_training(model, batch, examples[model] // batch, core, bin_dir)
            return {row: Figure(rate, "samples/s")}

        yield Task([row], turn)


def overhead_tasks(options):
    crowd = (downpour_overhead.CROWD_BATCH, 1, True)
    cases = [(1, downpour_overhead.BATCH, *case) for case in downpour_overhead.CASES]
    cases.append((3, *crowd))
    for (workers, batch, every, local), transport in itertools.product(
            cases, downpour_overhead.TRANSPORTS):
        row = (f"Downpour MLP over {transport}, n = {every}"
               f"{'' if local else ', no local updates'}, {workers} worker{'s' * (workers > 1)}")
        epochs = 1 if options.quick else EPOCHS[workers]

        def turn(bin_dir, row=row, workers=workers, transport=transport,
                 job=(epochs, batch, every, local)):
            with LocalCluster(ps=1, workers=workers, bin_dir=bin_dir,
                              environment=downpour_overhead.TRANSPORTS[transport]) as cluster:
                if downpour_overhead.shares_memory(cluster) != (transport == "shared memory"):
                    raise RuntimeError(f"the tasks do not exchange over {transport}")
                return {row: Figure(downpour_overhead.cluster_rate(cluster, *job), "samples/s")}

        yield Task([row], turn)


def evaluation_tasks(options):
    for shards, workers in batch_overhead.SIZES:
        row = f"Sandblaster evaluation, {shards} ps, {workers} worker{'s' * (workers > 1)}"

        def turn(bin_dir, row=row, shards=shards, workers=workers):
            with LocalCluster(ps=shards, workers=workers, bin_dir=bin_dir) as cluster:
                milliseconds = batch_overhead.evaluation_ms(cluster, workers,
                                                            30 if options.quick else 60)
                return {row: Figure(1000 / milliseconds, "per s")}

        yield Task([row], turn)


GROUPS = {group: functools.partial(plane_tasks, group) for group in PLANES}
GROUPS.update(training=training_tasks, overhead=overhead_tasks, evaluation=evaluation_tasks)


class Comparison:
    """The figures of each row, a value a round for each side."""

    def __init__(self, bin_dirs):
        self._bin_dirs = bin_dirs  # by side
        self.units = {}
        self.speeds = {}  # {row: {side: [speed]}}

    def run(self, task, number_of_round, wanted=""):
        """One round of `task`; of its rows, those that hold the text `wanted`."""
        for side in order(number_of_round, tuple(self._bin_dirs)):
            for row, figure in task.turn(self._bin_dirs[side]).items():
                if wanted not in row:
                    continue
                self.units[row] = figure.unit
                speeds = self.speeds.setdefault(row, {name: [] for name in self._bin_dirs})
                speeds[side].append(figure.speed)
                measure.log(f"round {number_of_round + 1}: {row}: {side} {number(figure.speed)} "
                            f"{figure.unit}")

    def ratios(self, row, side="after"):
        return measure.paired(self.speeds[row][side], self.speeds[row]["before"])

    def control(self, row):
        """Median, and range, of the ratios of `before` to itself."""
        if CONTROL not in self._bin_dirs:
            return "", ""
        ratios = self.ratios(row, CONTROL)
        return f"{statistics.median(ratios):.3f}", f"{min(ratios):.3f} to {max(ratios):.3f}"

    def verdicts(self):
        return {row: verdict(self.ratios(row)) for row in self.speeds}

    def table(self):
        lines = [measure.table_line(COLUMNS), "|" + "---|" * len(COLUMNS)]
        for row, speeds in self.speeds.items():
            ratios = self.ratios(row)
            interval = median_interval(ratios)
            values = (statistics.median(ratios), min(ratios), max(ratios))
            lines.append(measure.table_line([
                row, *(measure.median_of(speeds[side]) for side in SIDES), self.units[row],
                *self.control(row), *(f"{value:.3f}" for value in values),
                "{:.3f} to {:.3f}".format(*interval) if interval else "too few rounds",
                str(len(ratios)), verdict(ratios)]))
        return "\n".join(lines)

    def write_json(self, path):
        rows = [{"row": row, "unit": self.units[row], **speeds} for row, speeds in
                self.speeds.items()]
        with open(path, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


def version(bin_dir):
    return subprocess.run([bin_dir / COORDINATOR, "version"], capture_output=True, text=True,
                          check=True).stdout.strip()


def main():
    parser = measure.options_parser(__doc__)
    for side in SIDES:
        parser.add_argument(f"--{side}", required=True, type=pathlib.Path, metavar="DIR")
    parser.add_argument("--filter", default=",".join(GROUPS),
                        help="groups joined by ',': " + ", ".join(GROUPS))
    parser.add_argument("--rows", default="", metavar="TEXT", help="only rows that hold TEXT")
    parser.add_argument("--control", action="store_true", help="`before` twice, to show the noise")
    options = parser.parse_args()
    names = options.filter.split(",")
    if options.rounds < 1 or not set(names) <= set(GROUPS):
        parser.error(f"--rounds: at least 1; --filter: some of {', '.join(GROUPS)}")
    bin_dirs = {side: getattr(options, side).resolve() for side in SIDES}
    if options.control:
        bin_dirs[CONTROL] = bin_dirs["before"]
    tasks = [task for name in names for task in GROUPS[name](options)
             if any(options.rows in row for row in task.rows)]
    if not tasks:
        parser.error(f"--rows: no row holds {options.rows!r}")
    versions = "\n".join(f"{side}: {version(bin_dirs[side])}" for side in SIDES)
    comparison = Comparison(bin_dirs)
    with measure.LoadMeter() as meter:
        for number_of_round, task in itertools.product(range(options.rounds), tasks):
            comparison.run(task, number_of_round, options.rows)
            if options.json:
                comparison.write_json(options.json)
    print(f"{measure.machine()}{'; --quick, not to be quoted' if options.quick else ''}.\n"
          f"{versions}\nForeign load: {meter.cores:.2f} cores.\n\n{comparison.table()}\n")
    return 3 if {"REPEAT", "COUNTS"} & set(comparison.verdicts().values()) else 0


if __name__ == "__main__":
    sys.exit(main())
