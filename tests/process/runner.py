"""Runs rows of a table one after another, each as a process of its own, and counts.

A check has failed that counts a failure, that ends with another exit code than 0, that prints no
line `NAME: N passed, N failed[, N skipped]`, or that takes longer than its limit.
"""

import os
import re
import signal
import subprocess
import threading
import time
from typing import NamedTuple

# What a check still prints, or does, when it has been told to end.
LAST_WORDS_S = 10


class Result(NamedTuple):
    name: str
    passed: int
    failed: int
    skipped: int
    seconds: float


class _Output:
    """Prints what a process prints, and keeps its summary."""

    def __init__(self, name, stream):
        self._pattern = re.compile(
            rf"{re.escape(name)}: (\d+) passed, (\d+) failed(?:, (\d+) skipped)?$")
        self._stream = stream
        self.summary = None  # (passed, failed, skipped), by the last such line
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        for line in self._stream:
            print(line, end="", flush=True)
            found = self._pattern.match(line)
            if found:
                self.summary = tuple(int(count or 0) for count in found.groups())

    def ends(self):
        """Whether all have closed it soon."""
        self._thread.join(LAST_WORDS_S)
        return not self._thread.is_alive()


def _signal_group(process, number):
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        pass


def _end_group(process):
    _signal_group(process, signal.SIGTERM)
    try:
        process.wait(LAST_WORDS_S)
    except subprocess.TimeoutExpired:
        pass
    _signal_group(process, signal.SIGKILL)
    process.wait()


def run_one(name, command, limit_s, folder=None):
    """The Result of one check; why it failed is told if the check itself has not."""
    began = time.monotonic()
    # It ends with this process, and in a group of its own takes its children with it.
    process = subprocess.Popen(
        ["setpriv", "--pdeathsig", "TERM", *command], cwd=folder, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        start_new_session=True)
    output = _Output(name, process.stdout)
    late = False
    try:
        process.wait(limit_s)
    except subprocess.TimeoutExpired:
        late = True
    finally:
        if process.returncode is None:
            _end_group(process)
    open_still = not output.ends()
    if open_still:
        _signal_group(process, signal.SIGKILL)
    why = _why_failed(process.returncode, output.summary, late, limit_s, open_still)
    passed, failed, skipped = output.summary or (0, 0, 0)
    if why:
        print(f"FAILED {name}: {why}", flush=True)
        failed += 1
    return Result(name, passed, failed, skipped, time.monotonic() - began)


def _why_failed(code, summary, late, limit_s, open_still):
    """Beside the failures that the check has counted; "" if there is nothing."""
    if late:
        return f"it took more than {limit_s} s"
    if summary is None:
        return f"it printed no summary (exit {code})"
    if open_still:
        return "it left processes that hold its output"
    passed, failed, skipped = summary
    if code != 0 and failed == 0:
        return f"exit {code}"
    if passed + failed + skipped == 0:
        return "it checked nothing"
    return ""


def run_all(title, rows, command_of, folder=None):
    """Of rows of table.py. Prints a table of all, and the line that tests/run.sh counts by. The
    exit code."""
    results = []
    for row in rows:
        print(f"\n-- {row.name}", flush=True)
        results.append(run_one(row.name, command_of(row), row.limit_s, folder))
    print(f"\n{'check':20} {'passed':>7} {'failed':>7} {'skipped':>7} {'seconds':>8}")
    for result in results:
        print(f"{result.name:20} {result.passed:7} {result.failed:7} {result.skipped:7} "
              f"{result.seconds:8.1f}")
    passed, failed, skipped = (sum(getattr(result, count) for result in results)
                               for count in ("passed", "failed", "skipped"))
    if not results:
        print(f"FAILED {title}: there is no such check", flush=True)
        failed = 1
    print(f"{title}: {passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 1 if failed else 0
