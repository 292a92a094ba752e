#!/usr/bin/python3
"""Runs the Python package's tests against built programs, by pytest.

    python_tests.py --bin=DIR [ARGUMENTS OF PYTEST ...]

Last line: `python: N passed, N failed, N skipped`; exit 1 if any failed or none ran.
"""

import argparse
import faulthandler
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEADLINE_S = 900


class Counts:
    """A plugin of pytest."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.failed += 1
        elif report.skipped:
            self.skipped += 1
        elif report.when == "call":
            self.passed += 1

    def pytest_collectreport(self, report):
        self.failed += 1 if report.failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    arguments, others = parser.parse_known_args()
    os.environ["MONSOON_BIN"] = str(arguments.bin.resolve())
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.path.insert(0, str(ROOT / "python"))
    sys.dont_write_bytecode = True
    # One that hangs ends them all, with a traceback.
    faulthandler.dump_traceback_later(DEADLINE_S, exit=True)
    import pytest
    counts = Counts()
    pytest.main(["-q", "-p", "no:cacheprovider", str(ROOT / "python" / "tests"), *others],
                plugins=[counts])
    print(f"python: {counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped")
    return 1 if counts.failed or not counts.passed else 0


if __name__ == "__main__":
    sys.exit(main())
