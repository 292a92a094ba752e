#!/usr/bin/python3
"""Holds the comparison's statistics, order of turns and rows to known answers."""

import json
import sys
import types
import unittest

import compare
import data_plane
import measure
from compare import Comparison, Figure, Task

OPTIONS = types.SimpleNamespace(rounds=1, quick=True)


class IntervalTest(unittest.TestCase):
    def test_ranks_are_those_of_the_binomial_law(self):
        # Tables of the sign test: 95 % needs ranks 1 of 6 to 8, 2 of 9, 6 of 21.
        for count, rank in ((6, 1), (7, 1), (8, 1), (9, 2), (15, 4), (21, 6), (30, 10)):
            values = list(range(1, count + 1))
            self.assertEqual(compare.median_interval(values), (rank, count + 1 - rank), count)

    def test_few_values_have_none(self):
        for count in range(6):
            self.assertIsNone(compare.median_interval([1.0] * count), count)

    def test_order_of_the_values_does_not_matter(self):
        self.assertEqual(compare.median_interval([3, 1, 7, 2, 6, 5, 4]), (1, 7))


class VerdictTest(unittest.TestCase):
    def test_the_median_passes_or_is_to_be_repeated(self):
        self.assertEqual(compare.verdict([0.5, 0.5, 0.97, 0.97, 1.5]), "PASS")
        self.assertEqual(compare.verdict([0.96] * 7), "REPEAT")
        self.assertEqual(compare.verdict([0.5]), "REPEAT")

    def test_with_21_rounds_the_whole_interval_must_lie_below(self):
        slow = [0.96] * 15
        self.assertEqual(compare.verdict(slow[:-1] + [0.97] * 6), "REPEAT")
        # The interval ends with the sixth largest of 21.
        self.assertEqual(compare.verdict(slow + [0.97] * 6), "NOISE")
        self.assertEqual(compare.verdict(slow + [0.96] + [0.97] * 5), "COUNTS")
        self.assertEqual(compare.verdict([0.97] * 21), "PASS")


class ComparisonTest(unittest.TestCase):
    def setUp(self):
        self.log, measure.log = measure.log, lambda *_: None
        self.turns = []
        self.comparison = Comparison({"before": "old", "after": "new"})

    def tearDown(self):
        measure.log = self.log

    def run_rounds(self, speeds, wanted=""):
        """`speeds`: of each round, {folder: speed}."""
        for number_of_round, of_round in enumerate(speeds):
            def turn(bin_dir, of_round=of_round):
                self.turns.append(bin_dir)
                return {row: Figure(of_round[bin_dir], "per s") for row in ("fetch", "push")}

            self.comparison.run(Task(["fetch", "push"], turn), number_of_round, wanted)

    def test_sides_take_turns_and_every_other_round_the_other_begins(self):
        self.run_rounds([{"old": 1, "new": 1}] * 3)
        self.assertEqual(self.turns, ["old", "new", "new", "old", "old", "new"])

    def test_ratios_are_after_over_before_of_one_round(self):
        self.run_rounds([{"old": 2, "new": 4}, {"old": 8, "new": 4}, {"old": 1, "new": 3}])
        self.assertEqual(self.comparison.ratios("fetch"), [2, 0.5, 3])
        self.assertEqual(self.comparison.verdicts(), {"fetch": "PASS", "push": "PASS"})
        self.assertIn(
            "| fetch | 2 | 4 | per s |  |  | 2.000 | 0.500 | 3.000 | too few rounds | 3 | PASS |",
            self.comparison.table().splitlines())

    def test_only_wanted_rows_are_kept(self):
        self.run_rounds([{"old": 1, "new": 1}], wanted="pus")
        self.assertEqual(list(self.comparison.speeds), ["push"])

    def test_a_failure_is_not_passed_over(self):
        def turn(bin_dir):
            raise RuntimeError("wrong result")

        with self.assertRaisesRegex(RuntimeError, "wrong result"):
            self.comparison.run(Task(["fetch"], turn), 0)


class PlaneTest(unittest.TestCase):
    def output(self, group, absent=()):
        entries = {}
        for name, contender in compare.PLANES[group]:
            entry = entries.setdefault(name, {
                "name": name, "bytes": 1, "contenders": {}, "absent": {},
                "facts": {"peak_bytes": 2e9} if group == "connections" else {}})
            if contender in absent:
                entry["absent"][contender] = "none here"
            else:
                entry["contenders"][contender] = {
                    "seconds": [0.5, 0.25, 9], "client_cpu": [1, 1, 1], "server_cpu": [3, 3, 3]}
        return json.dumps({"workloads": list(entries.values())})

    def test_each_group_gives_its_rows(self):
        for group in compare.PLANES:
            figures = compare.plane_figures(self.output(group), group)
            self.assertEqual(set(figures), set(compare.plane_rows(group)))

    def test_a_turn_s_median_is_taken_and_less_is_faster(self):
        figures = compare.plane_figures(self.output("transfer"), "transfer")
        self.assertEqual(figures["push_16MiB grpc"], Figure(2, "per s"))
        self.assertEqual(figures["fetch_64MiB grpc, CPU"].speed, 0.25)
        figures = compare.plane_figures(self.output("connections"), "connections")
        self.assertEqual(figures["connections, memory"].speed, 0.5)

    def test_a_transport_that_was_not_taken_is_an_error(self):
        with self.assertRaisesRegex(RuntimeError, "call_64B: shared_memory: none here"):
            compare.plane_figures(self.output("call", absent=["shared_memory"]), "call")

    def test_the_groups_are_those_of_the_benchmarks(self):
        self.assertLessEqual(set(compare.PLANES), set(data_plane.GROUPS))
        rows = [row for make in compare.GROUPS.values() for task in make(OPTIONS)
                for row in task.rows]
        self.assertEqual(len(rows), len(set(rows)))


if __name__ == "__main__":
    outcome = unittest.main(exit=False).result
    broken = len(outcome.failures) + len(outcome.errors)
    print(f"selftest: {outcome.testsRun - broken} passed, {broken} failed")
    sys.exit(0 if outcome.wasSuccessful() else 1)
