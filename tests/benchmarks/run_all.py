#!/usr/bin/python3
"""Runs all benchmarks, or those that --filter names, and prints one table. Called
by tests/benchmarks/run.sh, which builds first.

A benchmark that fails has a row that says so, the others still run, and the
exit code is 1. A figure that is not reached is no failure.
"""

import functools
import sys
import time
import traceback

import accuracy_peers
import batch_overhead
import checkpoint_cost
import cluster_peers
import data_plane
import downpour_overhead
import downpour_scaling
import instructions
import kept_pushes
import measure
import peer_pytorch
import recovery
import secured_training
import synchronous_peers
import time_to_accuracy
import training_peers
import wire_formats

# In the order of the table.
BENCHMARKS = {group: functools.partial(data_plane.measure_groups, groups=(group,))
              for group in data_plane.GROUPS}
BENCHMARKS.update({
    "training": peer_pytorch.measure_training,
    "overhead": downpour_overhead.measure_overhead,
    "secured_training": secured_training.measure_secured,
    "checkpoints": checkpoint_cost.measure_cost,
    "kept": kept_pushes.measure_kept,
    "recovery": recovery.measure_recovery,
    "evaluation": batch_overhead.measure_evaluations,
    "accuracy": time_to_accuracy.measure_time,
    "formats": wire_formats.measure_formats,
    "scaling": downpour_scaling.measure_scaling,
    "training_peers": training_peers.measure_training,
    "cluster_peers": cluster_peers.measure_clusters,
    "synchronous_peers": synchronous_peers.measure_together,
    "accuracy_peers": accuracy_peers.measure_accuracy,
})


def run(names, options):
    """{benchmark: rows}, {benchmark: cores that others used}, and the names of those
    that failed."""
    found, foreign_load, failed = {}, {}, []
    for name in names:
        began = time.monotonic()
        measure.log(f"== {name}")
        try:
            found[name], foreign_load[name] = measure.measured(BENCHMARKS[name], options)
        except Exception as error:  # pylint: disable=broad-except
            traceback.print_exc()
            failed.append(name)
            found[name] = [measure.Row(f"benchmark {name}", why=f"it failed: {error}")]
        measure.log(f"== {name}: {time.monotonic() - began:.0f} s")
    return found, foreign_load, failed


def main():
    parser = measure.options_parser(__doc__)
    parser.add_argument("--filter", default=",".join(BENCHMARKS),
                        help="benchmarks joined by ',': " + ", ".join(BENCHMARKS))
    time_to_accuracy.add_options(parser)
    downpour_scaling.add_options(parser)
    secured_training.add_options(parser)
    parser.add_argument("--save", action="store_true",
                        help="keep the rows in results/, in the file of this CPU type and "
                        "instruction set")
    options = parser.parse_args()
    names = options.filter.split(",")
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown or options.rounds < 1:
        parser.error(f"there is no benchmark {unknown[0]}" if unknown else "--rounds: at least 1")
    if options.save and options.quick:
        parser.error("--quick runs are not to be kept")
    measure.apply_limit(parser, options)
    if options.rounds < measure.ROUNDS:
        measure.log(f"fewer than {measure.ROUNDS} rounds: not to be quoted")
    found, foreign_load, failed = run(names, options)
    rows = [row for added in found.values() for row in added]
    print(measure.report(rows, foreign_load, options))
    if options.json:
        measure.write_json(options.json, rows)
    if options.save:
        good = {name: added for name, added in found.items() if name not in failed}
        measure.log("kept in " + instructions.save(good, options.rounds, measure.commit_name()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
