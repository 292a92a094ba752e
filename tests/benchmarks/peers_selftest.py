#!/usr/bin/python3
"""Holds what the comparisons with the newest peers decide to known answers; needs no peer."""

import json
import math
import os
import sys
import tempfile
import types
import unittest
from unittest import mock

import accuracy_peers
import cluster_peers
import instructions
import measure
import peers
import side_service
import training_peers
from cluster_sides import Plan, Setting
from measure import Row, at_least

AVX2 = "fpu sse2 avx avx2 fma"
AVX512 = AVX2 + " avx512f avx512dq avx512vl avx512bw"
ECHO = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if request["op"] == "die":
        sys.exit(1)
    print(json.dumps(request), flush=True)
"""


class InstructionsTest(unittest.TestCase):
    def test_a_level_needs_all_its_flags_and_those_below(self):
        for flags, level in ((AVX512, "avx512"), (AVX2, "avx2"), ("sse2", "baseline"),
                             (AVX512.replace("avx512vl", ""), "avx2"),
                             (AVX512.replace("fma", ""), "baseline")):
            self.assertEqual(instructions.machine_level({"flags": flags}), level)

    def limited(self, has, to):
        """The environment after a limit on a machine that has so much."""
        with mock.patch.dict(os.environ, {"ATEN_CPU_CAPABILITY": "default"}), \
                mock.patch.object(instructions, "machine_level", lambda: has):
            instructions.limit(to)
            return dict(os.environ), instructions.level()

    def test_a_limit_reaches_ours_and_the_peers(self):
        environment, level = self.limited("avx512", "avx2")
        self.assertEqual(level, "avx2")
        for name, value in instructions.SWITCHES["avx2"].items():
            self.assertEqual(environment[name], value)

    def test_no_older_limit_stays_on_one_side_only(self):
        environment, _ = self.limited("avx512", "avx512")
        self.assertEqual({name for names in instructions.SWITCHES.values() for name in names} &
                         set(environment), {"MONSOON_SIMD"})

    def test_a_level_above_the_machine_s_is_refused(self):
        with self.assertRaisesRegex(ValueError, "has avx2 and no avx512"):
            self.limited("avx2", "avx512")

    def test_targets_are_by_instructions(self):
        targets = {"avx512": at_least(2)}
        with mock.patch.object(instructions, "level", lambda: "avx512"):
            self.assertEqual(instructions.wanted(targets).bound, 2)
        with mock.patch.object(instructions, "level", lambda: "avx2"):
            self.assertIsNone(instructions.wanted(targets))

    def test_cpu_types_of_one_name_have_files_of_their_own(self):
        facts = instructions.cpu_facts("model name : AMD EPYC\ncpu family : 26\nmodel : 2\n\n"
                                       "model name : other\n")
        self.assertEqual(instructions.file_name(facts, "avx2"), "amd-epyc-26-2-avx2.json")

    def test_results_of_other_benchmarks_stay(self):
        with tempfile.TemporaryDirectory() as folder:
            row = Row("w", ratios=[1.0, math.inf, 3.0], wanted=at_least(2))
            instructions.save({"a": [row], "b": [row]}, 7, "one", folder, "2026-01-01")
            path = instructions.save({"b": [Row("w", why="gone")]}, 3, "two", folder,
                                     "2026-01-02")
            with open(path, encoding="utf-8") as file:
                kept = json.load(file)
        self.assertEqual(kept["instructions"], instructions.level())
        first, second = kept["benchmarks"]["a"], kept["benchmarks"]["b"]
        self.assertEqual((first["commit"], first["date"], first["rounds"]),
                         ("one", "2026-01-01", 7))
        self.assertEqual(first["rows"][0]["ratios"], [1.0, "inf", 3.0])
        self.assertTrue(first["rows"][0]["met"])
        self.assertEqual((second["commit"], second["rows"]),
                         ("two", [{"workload": "w", "why": "gone"}]))


class SideTest(unittest.TestCase):
    def test_it_answers_and_its_end_is_an_error(self):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
            script.write(ECHO)
            script.flush()
            with peers.Side([sys.executable, script.name]) as side:
                self.assertEqual(side.ask("x", a=1), {"op": "x", "a": 1})
                with self.assertRaisesRegex(RuntimeError, "ended in die"):
                    side.ask("die")

    def test_without_the_environment_a_row_says_what_to_run(self):
        with mock.patch.object(peers, "VENV_PYTHON", "/nowhere/python3"), \
                mock.patch.dict(os.environ, {"MONSOON_TORCH_PYTHON": ""}), \
                mock.patch.object(training_peers, "thread_rows",
                                  lambda *_: [peers.TrainingPeer("torch", 1, {0})]):
            row, = training_peers.measure_training(types.SimpleNamespace())
        self.assertIn("peers_venv.sh", row.why)


class WayTest(unittest.TestCase):
    def test_the_variant_is_searched_in_the_faster_environment(self):
        rates = {"": [9, 1, 1], "large": [1, 2, 3]}  # the first turn warms up
        way = peers.search(list(rates), lambda name: rates[name].pop(0),
                           lambda name: {"variant": "fused", "rates": {"": 3, "fused": 5}})
        self.assertEqual((way.environment, way.variant, way.name),
                         ("large", "fused", "fused, large"))
        self.assertEqual(way.rates, {"plain": 1, "plain, large": 3, "fused, large": 5})

    def test_one_environment_needs_no_search(self):
        way = peers.search([""], None, lambda name: {"variant": "xla", "rates": {"xla": 5}})
        self.assertEqual((way.environment, way.name), ("", "xla"))

    def test_a_variant_far_behind_has_one_turn_and_one_that_fails_none(self):
        asked = []

        def rate(name):
            asked.append(name)
            return {"a": 10, "b": 4, "c": 6, "d": None}[name]

        self.assertEqual(side_service.fastest("abcd", rate),
                         {"variant": "a", "rates": {"b": 4, "a": 10, "c": 6}})
        self.assertEqual("".join(asked), "abcdacac")

    def test_sizes_for_malloc_are_in_bytes(self):
        # glibc takes a number up to the first letter.
        for environment in peers.ENVIRONMENTS["torch"].values():
            self.assertTrue(all(value.isdigit() for value in environment.values()))


class TrainingTest(unittest.TestCase):
    def test_a_peer_with_another_curve_is_refused(self):
        training_peers.demand_alike("p", [1.3, 0.7, 0.65], [1.1, 0.68, 0.6])
        for theirs in ([1.1, 0.5, 0.6], [1.4, 0.68, 0.6], [1.1, 0.68, 0.68], [1.1, 0.68], [],
                       [math.nan, 0.68, 0.6], [1.1, 0.68, math.nan]):
            with self.assertRaises(RuntimeError):
                training_peers.demand_alike("p", theirs, [1.1, 0.68, 0.6])
        with self.assertRaises(RuntimeError):
            training_peers.demand_alike("p", [], [])

    def test_the_peer_with_the_higher_median_decides(self):
        columns = {"ours": [6, 6, 9], "a": [2, 3, 3], "b": [9, 2, 1]}
        row = training_peers.beside(columns, "ours", ["a", "b"], workload="w")
        self.assertEqual(row.ratios, [3, 2, 3])
        self.assertEqual(row.reference, "a 3 (beside it b 2)")

    def test_everybody_comes_first(self):
        order = []
        contenders = {name: lambda name=name: order.append(name) or 1.0 for name in "abc"}
        with mock.patch.object(measure, "log", lambda *_: None):
            training_peers.turns({}, contenders, types.SimpleNamespace(rounds=3))
        self.assertEqual("".join(order), "abcbcacab")


def contender(name, group, times=None):
    return types.SimpleNamespace(
        name=name, group=group,
        seconds_to=lambda plan, setting, seed, limit: (times or {}).get(setting, math.inf))


class ClusterTest(unittest.TestCase):
    def test_the_fastest_of_each_kind_has_the_target(self):
        contenders = [contender("ours", None), contender("a", "asynchronous"),
                      contender("b", "asynchronous"), contender("c", "synchronous"),
                      contender("d", "one process")]
        columns = {"ours": [8], "a": [2], "b": [4], "c": [1], "d": [4]}
        with mock.patch.object(instructions, "level", lambda: "avx512"):
            rows = {row.reference[0]: row for row in cluster_peers.rows(contenders, columns)}
        self.assertEqual({name: row.wanted is not None for name, row in rows.items()},
                         {"a": False, "b": True, "c": True, "d": False})
        self.assertEqual(rows["b"].ratios, [2])

    def test_a_peer_that_learns_less_is_refused(self):
        cluster_peers.demand_near("p", [0.80], [0.85], False)
        for theirs in (0.70, math.nan):
            with self.assertRaises(RuntimeError):
                cluster_peers.demand_near("p", [theirs], [0.85], False)


class AccuracyTest(unittest.TestCase):
    def choose(self, times):
        seen = []

        def seconds_of(setting, limit):
            seen.append((setting, limit))
            seconds = times.get(setting, math.inf)
            return seconds if seconds <= limit else math.inf

        return accuracy_peers.choose(seconds_of, (0.1, 0.2), (300, 0)), seen

    def test_the_best_rate_is_tried_without_warm_up_too(self):
        chosen, seen = self.choose({Setting(0.1, 300): 9, Setting(0.2, 300): 5,
                                    Setting(0.2, 0): 4})
        self.assertEqual(chosen, (4, Setting(0.2, 0)))
        self.assertEqual([limit for _, limit in seen], [math.inf, 9, 5])
        chosen, _ = self.choose({Setting(0.1, 300): 3, Setting(0.1, 0): 7})
        self.assertEqual(chosen, (3, Setting(0.1, 300)))

    def test_nobody_gets_there(self):
        self.assertEqual(self.choose({})[0], (math.inf, None))

    def test_much_slower_peers_are_told_and_not_run(self):
        contenders = [contender(name, "synchronous") for name in ("ours", "a", "b", "c")]
        setting = Setting(0.05, 300)
        chosen = {"ours": (5, setting), "a": (10, setting), "b": (16, setting),
                  "c": (math.inf, None)}
        running = accuracy_peers.kept(contenders, chosen)
        self.assertEqual([each.name for each in running], ["ours", "a"])
        rows = list(accuracy_peers.rows(contenders, running, chosen,
                                        {"ours": [5, 4], "a": [10, math.inf]},
                                        Plan(0.88, 64, 0.5, 12)))
        self.assertEqual(rows[0].ratios, [2, math.inf])
        self.assertTrue(rows[1].why.startswith("16.0 s"))
        self.assertEqual(rows[2].why, "it did not get there")

    def test_without_any_peer_there_is_no_comparison(self):
        contenders = [contender("ours", None), contender("a", "synchronous")]
        with self.assertRaises(RuntimeError):
            accuracy_peers.kept(contenders, {"ours": (5, Setting(0.1, 0)), "a": (math.inf, None)})


if __name__ == "__main__":
    outcome = unittest.main(exit=False).result
    broken = len(outcome.failures) + len(outcome.errors)
    print(f"selftest: {outcome.testsRun - broken} passed, {broken} failed")
    sys.exit(0 if outcome.wasSuccessful() else 1)
