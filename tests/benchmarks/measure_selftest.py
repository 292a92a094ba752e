#!/usr/bin/python3
"""Holds the benchmarks' arithmetic, table and reading of results to known answers."""

import json
import math
import subprocess
import sys
import types
import unittest

import data_plane
import measure
import peer_pytorch
import run_all
import time_to_accuracy
from measure import Row, at_least, at_most
from torch_peer import NoPeer, TorchPeer


class RatioTest(unittest.TestCase):
    def test_ratios_are_paired_by_round(self):
        # The medians' ratio would be 1.
        self.assertEqual(measure.paired([2, 4, 9], [4, 2, 3]), [0.5, 2, 3])

    def test_columns_must_be_of_one_run(self):
        for over, under in (([1, 2], [1]), ([], [])):
            with self.assertRaises(ValueError):
                measure.paired(over, under)

    def test_the_best_limit_has_the_smallest_median(self):
        self.assertEqual(measure.best({"a": [1, 9, 9], "b": [5, 5, 5]}), "b")

    def test_a_run_without_end_counts_against_its_side(self):
        never = math.inf
        self.assertEqual(time_to_accuracy.speedups([8, never, 8, never], [4, 4, never, never]),
                         [2, never, 0, 0])

    def test_the_best_choice_is_given_the_time_to_beat(self):
        seen = []

        def seconds_of(name, limit):
            seen.append(limit)
            return {"a": 5, "b": 3, "c": math.inf}[name]

        self.assertEqual(time_to_accuracy.best_of([("a",), ("b",), ("c",)], seconds_of), ("b",))
        self.assertEqual(seen, [math.inf, 5, 3])
        with self.assertRaises(RuntimeError):
            time_to_accuracy.best_of([("c",)], seconds_of)


class RowTest(unittest.TestCase):
    def cells(self, row):
        return [cell.strip() for cell in row.line().split("|")[1:-1]]

    def test_median_min_max_and_verdict(self):
        row = Row("w", "16 MiB", "2", "v", "tcp 3", "GB/s", [0.7, 0.5, 0.9], at_least(0.6, 0.8),
                  "1/2 a GB")
        self.assertEqual(self.cells(row), ["w", "16 MiB", "2", "v", "tcp 3", "GB/s", "0.7", "0.5",
                                           "0.9", "3", "1/2 a GB", "yes", "at least 0.6, aim 0.8",
                                           "yes"])

    def test_the_median_is_judged_not_the_best_round(self):
        self.assertFalse(Row("w", ratios=[0.5, 0.5, 0.9], wanted=at_least(0.6)).reached())
        self.assertFalse(Row("w", ratios=[1.0, 1.2, 1.2], wanted=at_most(1.1)).reached())
        self.assertTrue(Row("w", ratios=[1.1], wanted=at_most(1.1)).reached())
        self.assertTrue(Row("w", ratios=[0.6], wanted=at_least(0.6)).reached())

    def test_what_was_not_measured_says_why_and_has_no_verdict(self):
        row = Row("w", wanted=at_least(2), why="no | peer")
        self.assertIsNone(row.reached())
        self.assertEqual(self.cells(row)[6:], ["not measured: no / peer", "", "", "", "-", "-",
                                               "at least 2", "-"])

    def test_a_row_has_figures_or_a_reason(self):
        for arguments in ({}, {"ratios": [1], "why": "x"}):
            with self.assertRaises(ValueError):
                Row("w", **arguments)

    def test_every_line_has_the_header_s_columns(self):
        lines = measure.table([Row("w", ratios=[1.0]), Row("w", why="x")])
        self.assertEqual({line.count("|") for line in lines.splitlines()}, {15})

    def test_the_header_tells_the_machine_and_the_load_of_others(self):
        text = measure.report([Row("w", ratios=[1.0])], {"call": 0.25, "kernel": 0},
                              types.SimpleNamespace(rounds=7, quick=True))
        self.assertRegex(text, r"^CPU .*, \d+ cores, .*kernel .*7 rounds; --quick")
        self.assertIn("Foreign load, in cores: call 0.25, kernel 0.00.", text)

    def test_numbers(self):
        self.assertEqual([measure.number(value) for value in (0.01234, 1.0, 123.4, 123456)],
                         ["0.0123", "1", "123", "123,000"])


class LoadTest(unittest.TestCase):
    def test_idle_and_guest_time_are_not_counted(self):
        tick = measure.os.sysconf("SC_CLK_TCK")
        stat = "cpu  1 2 4 1000 1000 8 16 32 500 500\ncpu0 9 9 9 9 9 9 9 9 9 9\n"
        self.assertEqual(measure.busy_seconds(stat), 63 / tick)

    def cores(self, *readings):
        """What a meter tells of (wall, busy, own) seconds before and after."""
        class Meter(measure.LoadMeter):
            def _read(self):
                return remaining.pop(0)

        remaining = list(readings)
        with Meter() as meter:
            pass
        return meter.cores

    def test_own_work_is_no_load_of_others(self):
        self.assertEqual(self.cores((5, 100, 10), (15, 120, 15)), 1.5)
        # Ticks are coarse: never below zero.
        self.assertEqual(self.cores((5, 100, 10), (15, 105, 15.1)), 0)

    def test_own_work_is_read_with_that_of_children(self):
        before = measure.LoadMeter._read()
        subprocess.run([sys.executable, "-c", "import time\n"
                        "while time.process_time() < 0.2: pass"], check=True)
        after = measure.LoadMeter._read()
        self.assertGreaterEqual(after[2] - before[2], 0.2)
        self.assertGreater(after[0], before[0])

    def test_a_process_without_memory_files_has_none(self):
        self.assertEqual(measure.memory_files("self"), set())


def contender(*seconds, client=1.0, server=2.0):
    return {"seconds": list(seconds), "client_cpu": [client] * len(seconds),
            "server_cpu": [server] * len(seconds)}


class DataPlaneTest(unittest.TestCase):
    def test_calls(self):
        output = json.dumps({"workloads": [{
            "name": "call_64B", "bytes": 64, "facts": {},
            "contenders": {"bare_call": contender(1, 2), "grpc": contender(1, 6)},
            "absent": {"shared_memory": "none here"}}]})
        grpc, shared = data_plane.rows_of(output, ["call"])
        self.assertEqual(grpc.ratios, [1, 3])
        self.assertFalse(grpc.reached())
        self.assertEqual(shared.why, "none here")

    def test_shared_memory_is_judged_in_microseconds(self):
        output = json.dumps({"workloads": [{
            "name": "call_64B", "bytes": 64, "facts": {}, "absent": {},
            "contenders": {"bare_call": contender(1e-4), "grpc": contender(1e-4),
                           "shared_memory": contender(4e-6)}}]})
        shared = data_plane.rows_of(output, ["call"])[1]
        self.assertAlmostEqual(shared.ratios[0], 4)
        self.assertTrue(shared.reached())

    def test_transfers(self):
        def entry(name, contenders):
            return {"name": name, "bytes": 1e9, "contenders": contenders, "absent": {}, "facts": {}}

        fetch = {"tcp": contender(1), "grpc": contender(2, client=2, server=2.5),
                 "memcpy": contender(0.25), "shared_memory": contender(0.5)}
        push = {"tcp": contender(3), "grpc": contender(4), "shared_memory": contender(2)}
        output = json.dumps({"workloads": [
            entry("fetch_16MiB", fetch), entry("push_16MiB", push), entry("fetch_64MiB", fetch),
            entry("push_64MiB", push), entry("step_speech", push)]})
        rows = data_plane.rows_of(output, ["transfer"])
        self.assertEqual([row.ratios[0] for row in rows[:6]], [0.5, 0.75, 0.5, 4, 1.5, 1.5])
        self.assertEqual([row.reached() for row in rows[:6]],
                         [False, True, False, True, True, True])
        self.assertEqual((rows[0].ours, rows[0].reference, rows[0].unit, rows[0].cpu),
                         ("0.5", "tcp 1", "GB/s", "4.5/3 a GB"))
        self.assertEqual((rows[-2].ours, rows[-2].unit, rows[-2].cpu),
                         ("0.25", "per s", "3/3 a step"))
        self.assertEqual(len(rows), 14)

    def test_kernels_are_held_against_the_best_loop(self):
        names = [f"adagrad_{m}M_{t}T" for m in (10, 100) for t in (1, 2)]
        output = json.dumps({"workloads": [
            {"name": name, "bytes": 1, "absent": {}, "facts": {}, "contenders": {
                "product": contender(2), "in_place_a": contender(4), "in_place_b": contender(1)}}
            for name in names]})
        rows = data_plane.rows_of(output, ["kernel"])
        self.assertEqual([row.ratios for row in rows], [[0.5]] * 4)
        self.assertTrue(rows[0].reference.startswith("in place b"))

    def test_tls_is_held_against_as_many_plain_connections(self):
        output = json.dumps({"workloads": [{
            "name": f"secured_{kind}_{mib}MiB", "bytes": 1e9, "absent": {}, "facts": {},
            "contenders": {"plain_1": contender(1), "plain_2": contender(2), "plain_4": contender(1),
                           "tls_1": contender(4), "tls_2": contender(4), "tls_4": contender(1)}}
            for kind in ("fetch", "push") for mib in (16, 64)]})
        rows = data_plane.rows_of(output, ["secured"])
        self.assertEqual(len(rows), 4 * 7)
        self.assertEqual([(row.ratios, row.reached()) for row in rows[:7]],
                         [([0.25], None), ([0.5], False), ([1], True),
                          ([0.5], None), ([1], None), ([1], None), ([4], None)])

    def test_connections(self):
        output = json.dumps({"workloads": [{
            "name": "connections", "bytes": 4096, "absent": {},
            "contenders": {"8": contender(2), "256": contender(4)},
            "facts": {"peak_bytes": 3 << 20, "budget_bytes": 2 << 20}}]})
        rate, memory = data_plane.rows_of(output, ["connections"])
        self.assertEqual((rate.ratios, rate.reached()), ([0.5], False))
        self.assertEqual((memory.ratios, memory.reached()), ([1.5], False))


class NoPyTorchTest(unittest.TestCase):
    OPTIONS = types.SimpleNamespace(rounds=1, quick=True, batch=64, target=0.88)

    def test_an_interpreter_without_it_is_no_peer(self):
        with self.assertRaisesRegex(NoPeer, "there is no /nowhere/python3"):
            TorchPeer("/nowhere/python3")
        with self.assertRaisesRegex(NoPeer, "python3-torch"):
            TorchPeer("/bin/false")

    def test_every_row_is_there_and_says_why(self):
        rows = list(peer_pytorch.rows([NoPeer("no torch")], self.OPTIONS, core=0))
        self.assertEqual([row.why for row in rows], ["no torch"] * len(peer_pytorch.WANTED))

        def missing(_):
            raise NoPeer("no torch")

        kept, time_to_accuracy.TorchPeer = time_to_accuracy.TorchPeer, missing
        try:
            self.assertEqual([row.why for row in time_to_accuracy.measure_time(self.OPTIONS)],
                             ["no torch"])
        finally:
            time_to_accuracy.TorchPeer = kept


class RunAllTest(unittest.TestCase):
    def test_a_failure_has_a_row_and_the_others_run(self):
        def broken(_):
            raise RuntimeError("no disk")

        known, log, hook = dict(run_all.BENCHMARKS), measure.log, run_all.traceback.print_exc
        measure.log = run_all.traceback.print_exc = lambda *_: None
        run_all.BENCHMARKS.update(broken=broken, fine=lambda _: [Row("fine", ratios=[1.0])])
        try:
            found, load, failed = run_all.run(["broken", "fine"], types.SimpleNamespace())
        finally:
            measure.log, run_all.traceback.print_exc = log, hook
            run_all.BENCHMARKS.clear()
            run_all.BENCHMARKS.update(known)
        self.assertEqual(failed, ["broken"])
        self.assertEqual({name: [row.why for row in added] for name, added in found.items()},
                         {"broken": ["it failed: no disk"], "fine": [""]})
        self.assertEqual(list(load), ["fine"])


if __name__ == "__main__":
    outcome = unittest.main(exit=False).result
    broken = len(outcome.failures) + len(outcome.errors)
    print(f"selftest: {outcome.testsRun - broken} passed, {broken} failed")
    sys.exit(0 if outcome.wasSuccessful() else 1)
