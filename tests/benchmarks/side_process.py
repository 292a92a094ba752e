"""What the benchmarks' programs say to a process that they have started: a JSON request a line,
an answer a line. Needs nothing but Python.
"""

import json
import threading


class SideProcess:
    """A part of those classes that start one: `_process` is its Popen, with text pipes. ask()
    may be cut in two, so that several compute at once: start(), then answer(). An answer that
    takes longer than `deadline_s` is not coming: the process is stuck, and is killed."""

    def __init__(self, process, title, deadline_s):
        self._process, self._title, self._deadline_s = process, title, deadline_s
        self._operation = "its start"

    def start(self, operation, **arguments):
        self._operation = operation
        self._process.stdin.write(json.dumps({"op": operation, **arguments}) + "\n")
        self._process.stdin.flush()

    def answer(self):
        timer = threading.Timer(self._deadline_s, self._process.kill)
        timer.start()
        try:
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        if not line:
            raise RuntimeError(f"{self._title} ended in {self._operation}, see its error above "
                               f"(killed after {self._deadline_s} s)")
        return json.loads(line)

    def ask(self, operation, **arguments):
        self.start(operation, **arguments)
        return self.answer()
