#!/usr/bin/python3
"""The runner with planted checks, and the table with the checks that it names.

    python3 -m tests.process.selftest
"""

import contextlib
import importlib
import io
import sys
import time
import types
import unittest

from tests.process import __main__ as command
from tests.process import runner, table
from tests.process.table import Row
from tests.tools.checks import Unusable


def said(function, *arguments):
    """(What it returns, what it prints)"""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        result = function(*arguments)
    return result, out.getvalue()


class Runner(unittest.TestCase):
    def run_programs(self, *programs, limit_s=60):
        """Rows planted0, planted1, ... of these Python texts: (exit code, what is printed)."""
        rows = [Row(f"planted{number}", "", limit_s=limit_s) for number in range(len(programs))]
        texts = dict(zip([row.name for row in rows], programs))
        return said(runner.run_all, "stage", rows,
                    lambda row: [sys.executable, "-c", texts[row.name]])

    def test_counts_are_added(self):
        code, out = self.run_programs("print('planted0: 3 passed, 0 failed, 1 skipped')",
                                      "print('planted1: 4 passed, 0 failed')")
        self.assertEqual(code, 0, out)
        self.assertTrue(out.endswith("\nstage: 7 passed, 0 failed, 1 skipped\n"), out)
        self.assertRegex(out, r"\nplanted0 +3 +0 +1 +\d+\.\d\n")

    def test_a_failure_is_counted_and_the_others_run(self):
        code, out = self.run_programs(
            "print('FAILED a: b\\nplanted0: 3 passed, 2 failed, 0 skipped'); exit(1)",
            "print('planted1: 1 passed, 0 failed, 0 skipped')")
        self.assertEqual(code, 1)
        self.assertIn("FAILED a: b\n", out)
        self.assertTrue(out.endswith("stage: 4 passed, 2 failed, 0 skipped\n"), out)

    def test_no_summary_fails(self):
        for text in ("pass", "print('planted9: 1 passed, 0 failed, 0 skipped')",
                     "print('so planted0: 1 passed, 0 failed, 0 skipped')"):
            code, out = self.run_programs(text)
            self.assertEqual(code, 1, text)
            self.assertIn("FAILED planted0: it printed no summary (exit 0)\n", out)
            self.assertTrue(out.endswith("stage: 0 passed, 1 failed, 0 skipped\n"), out)

    def test_a_crash_fails(self):
        code, out = self.run_programs("raise RuntimeError('the cluster did not come up')")
        self.assertEqual(code, 1)
        self.assertIn("RuntimeError: the cluster did not come up\n", out)
        self.assertIn("it printed no summary (exit 1)\n", out)

    def test_a_crash_after_the_summary_fails(self):
        code, out = self.run_programs(
            "import os; print('planted0: 1 passed, 0 failed, 0 skipped', flush=True)\n"
            "os.kill(os.getpid(), 11)")
        self.assertEqual(code, 1)
        self.assertIn("FAILED planted0: exit -11\n", out)
        self.assertTrue(out.endswith("stage: 1 passed, 1 failed, 0 skipped\n"), out)

    def test_the_last_summary_counts(self):
        _, out = self.run_programs("print('planted0: 1 passed, 0 failed, 0 skipped\\n"
                                   "planted0: 5 passed, 0 failed, 0 skipped')")
        self.assertTrue(out.endswith("stage: 5 passed, 0 failed, 0 skipped\n"), out)

    def test_nothing_checked_fails(self):
        code, out = self.run_programs("print('planted0: 0 passed, 0 failed, 0 skipped')")
        self.assertEqual(code, 1)
        self.assertIn("FAILED planted0: it checked nothing\n", out)

    def test_a_time_limit_fails_and_ends_the_children(self):
        began = time.monotonic()
        code, out = self.run_programs(
            "import subprocess\n"
            "print('planted0: 1 passed, 0 failed, 0 skipped', flush=True)\n"
            "subprocess.run(['sleep', '1000'])", limit_s=1)
        self.assertLess(time.monotonic() - began, 60)
        self.assertEqual(code, 1)
        self.assertIn("FAILED planted0: it took more than 1 s\n", out)
        self.assertTrue(out.endswith("stage: 1 passed, 1 failed, 0 skipped\n"), out)

    def test_no_check_fails(self):
        code, out = self.run_programs()
        self.assertEqual(code, 1)
        self.assertTrue(out.endswith("stage: 0 passed, 1 failed, 0 skipped\n"), out)


class OneCheck(unittest.TestCase):
    ROW = Row("planted", "", arguments=("--kills=2", "--stops=1"), with_full=("--kills=9",))

    def run_check(self, run, *arguments, **more):
        def add_options(parser):
            parser.add_argument("--kills", type=int)
            parser.add_argument("--stops", type=int, default=5)

        module = types.SimpleNamespace(__doc__="Planted.", run=run, add_options=add_options,
                                       **more)
        return said(command.run_check, self.ROW, module, list(arguments))

    def test_what_holds_and_what_does_not(self):
        def run(checks, _):
            checks.check("one", True)
            checks.check("two", False, "seen")
            checks.skip("three", "why")

        code, out = self.run_check(run)
        self.assertEqual(code, 1)
        self.assertEqual(out, "FAILED two: seen\nskipped three: why\n"
                              "planted: 1 passed, 1 failed, 1 skipped\n")
        self.assertEqual(self.run_check(lambda checks, _: checks.check("one", True))[0], 0)
        self.assertEqual(self.run_check(lambda checks, _: None)[0], 1)

    def test_options_are_the_rows_and_then_the_callers(self):
        seen = []

        def run(checks, options):
            checks.check("one", True)
            seen.append((options.kills, options.stops))

        self.run_check(run)
        self.run_check(run, "--stops=3")
        self.run_check(run, "--full")
        self.run_check(run, "--full", "--kills=4")
        self.assertEqual(seen, [(2, 1), (2, 3), (9, 5), (4, 5)])

    def test_an_unknown_option_is_refused_or_passed_on(self):
        with self.assertRaises(SystemExit) as raised:
            self.run_check(lambda checks, _: checks.check("one", True), "-k", "some")
        self.assertEqual(raised.exception.code, 2)
        code, _ = self.run_check(
            lambda checks, options: checks.check("others", options.others == ["-k", "some"]),
            "-k", "some", TAKES_OTHERS=True)
        self.assertEqual(code, 0)

    def test_what_it_cannot_use_is_no_result(self):
        def run(checks, _):
            raise Unusable("no fail points")

        self.assertEqual(self.run_check(run), (2, "planted: no fail points\n"))

    def test_an_unknown_name_is_told(self):
        code, out = said(command.main, ["nothing"])
        self.assertEqual(code, 2)
        self.assertIn("no check 'nothing'", out)


class Table(unittest.TestCase):
    def test_rows_are_sound(self):
        names = [row.name for row in table.TABLE]
        self.assertEqual(len(set(names)), len(names))
        for row in table.TABLE:
            self.assertIn(row.stage, table.STAGES, row)
            self.assertLessEqual(row.tags, set(table.TAGS), row)

    def test_each_check_takes_its_rows_arguments(self):
        for row in table.TABLE:
            module = importlib.import_module(f"tests.process.{row.module}")
            self.assertTrue(callable(module.run), row)
            for full in ([], ["--full"]):
                options = command.options_of(row, module, full)
                self.assertEqual(options.full, bool(full))

    def test_stages_and_tags_choose(self):
        without = table.of_stage("process", full=False)
        everything = table.of_stage("process", full=True)
        self.assertEqual([row.name for row in everything if row not in without],
                         ["presets", "uneven_speeds", "soak"])
        deaths = table.of_stage("process", full=False, tag="deaths")
        self.assertEqual([row for row in without if "deaths" in row.tags], deaths)
        self.assertLess(0, len(deaths))
        self.assertLess(len(deaths), len(without))
        self.assertEqual([row.name for row in table.of_stage("failpoints", full=False)],
                         ["kill_points", "killed_at_points"])

    def test_the_list_has_all(self):
        code, out = said(command.main, ["--list"])
        self.assertEqual(code, 0)
        for row in table.TABLE:
            self.assertIn(f"  {row.name} ", out)


if __name__ == "__main__":
    outcome = unittest.main(exit=False).result
    broken = len(outcome.failures) + len(outcome.errors)
    print(f"selftest: {outcome.testsRun - broken} passed, {broken} failed")
    sys.exit(0 if outcome.wasSuccessful() else 1)
