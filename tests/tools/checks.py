"""Checks of a script that runs the real programs."""


class Unusable(Exception):
    """What a check was given does not do for it: other programs, an option without a meaning."""


class Checks:
    """Counts what holds and what does not, and says the latter at once."""

    def __init__(self, name):
        self._name = name
        self.passed = self.failed = self.skipped = 0

    def check(self, what, right, seen=""):
        if right:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED {what}: {seen}", flush=True)

    def skip(self, what, why):
        self.skipped += 1
        print(f"skipped {what}: {why}", flush=True)

    def summary(self):
        """The line that tests/run.sh counts by; the exit code."""
        print(f"{self._name}: {self.passed} passed, {self.failed} failed, {self.skipped} skipped")
        return 1 if self.failed or not (self.passed or self.skipped) else 0
