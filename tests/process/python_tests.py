"""Runs the Python package's tests against built programs, by pytest, to which all options go that
are not known here.
"""

import faulthandler
import os

from tests.tools.local_cluster import ROOT

TAKES_OTHERS = True
DEADLINE_S = 900


class Counts:
    """A plugin of pytest that counts into Checks; pytest itself tells of failures."""

    def __init__(self, checks):
        self._checks = checks

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self._checks.failed += 1
        elif report.skipped:
            self._checks.skipped += 1
        elif report.when == "call":
            self._checks.passed += 1

    def pytest_collectreport(self, report):
        self._checks.failed += 1 if report.failed else 0


def run(checks, options):
    os.environ["MONSOON_BIN"] = str(options.bin)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # One that hangs ends them all, with a traceback.
    faulthandler.dump_traceback_later(DEADLINE_S, exit=True)
    import pytest  # here, so that options can be told where it is missing
    pytest.main(["-q", "-p", "no:cacheprovider", str(ROOT / "python" / "tests"), *options.others],
                plugins=[Counts(checks)])
    if not checks.passed:
        checks.check("a test has run", False)
