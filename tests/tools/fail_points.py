"""Fail points of programs of --config=failpoints (common/base/fail_point.h)."""

import os
import pathlib
import re
import subprocess

from tests.tools.local_cluster import COORDINATOR

# Of jobs whose programs bring the model.
OF_PROGRAMS = ("initial", "write", "rows")
BUILD = "build them with --config=opt --config=failpoints"


def known_points(bin_dir):
    """All fail points, as a program itself tells them; none: it has none."""
    program = pathlib.Path(bin_dir) / COORDINATOR
    answer = subprocess.run([program, "version"], capture_output=True, text=True,
                            env={**os.environ, "MONSOON_FAIL_POINTS": "?"}, check=False)
    return re.findall(r"^  (\S+)", answer.stderr, re.MULTILINE) if answer.returncode == 2 else []


def family_of(point):
    return point.split(".")[0]


class Kills:
    """Points that kill once each, when they are armed: tokens in a folder."""

    def __init__(self, folder, hits):
        """`hits` is {point: the hit at which it kills}."""
        self._tokens = pathlib.Path(folder) / "tokens"
        self._tokens.mkdir()
        self.environment = {
            "MONSOON_FAIL_POINTS": ",".join(f"{point}=kill@{hit}" for point, hit in hits.items()),
            "MONSOON_FAIL_POINTS_TOKENS": str(self._tokens)}

    def arm(self, point):
        (self._tokens / point).touch()

    def disarm(self, point):
        (self._tokens / point).unlink()

    def is_armed(self, point):
        """Not any more once it has killed."""
        return (self._tokens / point).exists()
