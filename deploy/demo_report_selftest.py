#!/usr/bin/python3
"""Feeds demo_report.py known figures and demands the right table and words."""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

import demo_report


def job(workers, examples, accuracy):
    return {"job": f"demo-{workers}", "state": "SUCCEEDED", "elapsed_s": 100.0,
            "final": {"test_accuracy": accuracy, "loss": 0.3},
            "latency_ms": {"step_p50": 20.0 * workers, "fetch_p50": 2, "push_p50": 3},
            "staleness": {"p50": workers - 1, "p99": workers, "mean": 0.5 * workers},
            "workers": [{"task": i, "pid": 10 + i, "threads": 1, "steps": 9,
                         "examples": examples / workers} for i in range(workers)],
            "shards": [{"task": 0, "pid": 5}]}


def processes(workers, machine_cpu_s):
    rows = [{"pid": 5, "name": "ps_server/0", "threads": 12, "cpu_s": 10}]
    rows += [{"pid": 10 + i, "name": f"worker/{i}", "threads": 14,
              "cpu_s": 180 / workers if i < workers else 0} for i in range(3)]
    return {"elapsed_s": 100, "machine_cpu_s": machine_cpu_s, "processes": rows}


class ReportTest(unittest.TestCase):
    def test_figures(self):
        run = demo_report.summarise(job(3, 480000, 0.87), processes(3, 195))
        self.assertEqual(run["workers"], 3)
        self.assertAlmostEqual(run["examples_per_s"], 4800)
        self.assertAlmostEqual(run["cores_used"], 1.9)
        self.assertAlmostEqual(run["cores_used_by_others"], 0.05)
        self.assertEqual([row["role"] for row in run["processes"]],
                         ["ps/0", "worker/0", "worker/1", "worker/2"])

    def test_explanations(self):
        one = demo_report.summarise(job(1, 300000, 0.88), processes(1, 190))
        three = demo_report.summarise(job(3, 480000, 0.87), processes(3, 190))
        full = demo_report.explain(one, three, 2)
        self.assertIn("1.60 times", full)
        self.assertIn("The cores are the limit", full)
        self.assertIn("-1.00 points", full)
        self.assertNotIn("other programs", full)
        self.assertIn("not all busy", demo_report.explain(one, three, 8))
        disturbed = demo_report.summarise(job(3, 480000, 0.87), processes(3, 260))
        self.assertIn("other programs up to 0.70", demo_report.explain(one, disturbed, 2))

    def test_what_was_not_measured_is_said(self):
        empty = demo_report.summarise({"job": "demo-1", "workers": []}, processes(1, 200))
        self.assertIsNone(empty["examples_per_s"])
        self.assertIn("not measured", demo_report.explain(empty, empty, 2))
        self.assertIn(" -", demo_report.table(empty, empty))

    def test_report_writes_the_result(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for name, content in [("j1", job(1, 300000, 0.88)), ("p1", processes(1, 200)),
                                  ("j3", job(3, 480000, 0.87)), ("p3", processes(3, 200))]:
                paths.append(os.path.join(folder, name))
                with open(paths[-1], "w", encoding="utf-8") as file:
                    json.dump(content, file)
            result = os.path.join(folder, "result.json")
            with contextlib.redirect_stdout(io.StringIO()) as out:
                demo_report.report(result, paths)
            written = demo_report.load(result)
        self.assertEqual(written["three_workers"]["test_accuracy"], 0.87)
        self.assertIn("0.8700", out.getvalue())

    def test_sample_sees_children_and_their_cpu_time(self):
        busy = "import time\nend = time.monotonic() + 60\nwhile time.monotonic() < end: pass\n"
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "processes.json")
            child = subprocess.Popen([sys.executable, "-c", busy])
            sampler = subprocess.Popen([sys.executable, demo_report.__file__, "sample",
                                        str(os.getpid()), path])
            try:
                time.sleep(1.5)
                sampler.terminate()
                self.assertEqual(sampler.wait(timeout=20), 0)
            finally:
                child.kill()
                child.wait()
            rows = {row["pid"]: row for row in demo_report.load(path)["processes"]}
        self.assertIn(os.getpid(), rows)
        self.assertGreater(rows[child.pid]["cpu_s"], 0)


if __name__ == "__main__":
    outcome = unittest.main(exit=False).result
    broken = len(outcome.failures) + len(outcome.errors)
    print(f"selftest: {outcome.testsRun - broken} passed, {broken} failed")
    sys.exit(0 if outcome.wasSuccessful() else 1)
