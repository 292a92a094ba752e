#!/usr/bin/python3
"""Feeds count_results.py results of every kind and demands the right counts."""

import json
import os
import sys
import tempfile
import unittest

import count_results

PASSING = """<testsuites><testsuite name="A">
<testcase name="One" status="run" classname="A"/><testcase name="Two" classname="A"/>
</testsuite></testsuites>"""
MIXED = """<testsuites><testsuite name="A"><testcase name="One" classname="A"/>
<testcase name="Two" classname="A"><failure message="x"/><failure message="y"/></testcase>
<testcase name="Three" classname="A"><skipped message="no GPU"/></testcase>
<testcase name="Four" classname="A" status="notrun"/>
</testsuite></testsuites>"""
CRASH = """<testsuites><testsuite name="a_test" errors="1">
<testcase name="a_test"><error message="exited with error code 134"/></testcase>
</testsuite></testsuites>"""


class CountTest(unittest.TestCase):
    def count(self, *targets, broken=(), code=0):
        """Counts runs given as (status, xml text or None)."""
        with tempfile.TemporaryDirectory() as folder:
            lines = []
            for number, (status, xml) in enumerate(targets):
                result = {"status": status}
                if xml is not None:
                    path = os.path.join(folder, f"{number} x.xml")
                    with open(path, "w", encoding="utf-8") as file:
                        file.write(xml)
                    uri = "file://" + path.replace(" ", "%20")
                    result["testActionOutput"] = [{"name": "test.xml", "uri": uri}]
                label = f"//a:{number}_test"
                lines.append({"id": {"testResult": {"label": label}}, "testResult": result})
                lines.append({"id": {"targetCompleted": {"label": label}},
                              "completed": {"success": True}})
            for label in broken:
                lines.append({"id": {"targetCompleted": {"label": label}}, "completed": {}})
            events = os.path.join(folder, "events.json")
            with open(events, "w", encoding="utf-8") as file:
                file.write("\n".join(json.dumps(line) for line in lines))
            return self.run_main(events, code)

    def run_main(self, events, code):
        out, err = sys.stdout, sys.stderr
        with tempfile.TemporaryFile("w+") as capture, open(os.devnull, "w", encoding="utf-8") as nul:
            sys.stdout, sys.stderr = capture, nul
            try:
                count_results.main([events, str(code)])
            finally:
                sys.stdout, sys.stderr = out, err
            capture.seek(0)
            return [int(word) for word in capture.read().split()]

    def test_cases_are_counted(self):
        self.assertEqual(self.count(("PASSED", PASSING)), [2, 0, 0])

    def test_failed_and_skipped_cases_are_counted_once(self):
        self.assertEqual(self.count(("FAILED", MIXED), ("PASSED", PASSING), code=3), [3, 1, 2])

    def test_a_crash_is_one_failure(self):
        self.assertEqual(self.count(("FAILED", CRASH), code=3), [0, 1, 0])

    def test_a_failure_after_the_cases_is_seen(self):
        self.assertEqual(self.count(("FAILED", PASSING), code=3), [2, 1, 0])
        self.assertEqual(self.count(("TIMEOUT", None), code=3), [0, 1, 0])

    def test_a_target_without_cases_fails(self):
        self.assertEqual(self.count(("PASSED", "<testsuites/>")), [0, 1, 0])

    def test_unreadable_results_fail(self):
        self.assertEqual(self.count(("PASSED", "<testsuites")), [0, 1, 0])
        self.assertEqual(self.run_main("/nonexistent/events.json", 0), [0, 1, 0])

    def test_a_broken_target_fails(self):
        self.assertEqual(self.count(("PASSED", PASSING), broken=["//b:b_test"], code=1), [2, 1, 0])

    def test_a_failed_build_without_a_culprit_fails(self):
        self.assertEqual(self.count(("PASSED", PASSING), code=1), [2, 1, 0])

    def test_no_matching_test_is_left_to_the_caller(self):
        self.assertEqual(self.count(code=4), [0, 0, 0])


if __name__ == "__main__":
    outcome = unittest.main(exit=False).result
    broken_tests = len(outcome.failures) + len(outcome.errors)
    print(f"selftest: {outcome.testsRun - broken_tests} passed, {broken_tests} failed")
    sys.exit(0 if outcome.wasSuccessful() else 1)
