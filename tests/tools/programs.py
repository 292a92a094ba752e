"""Python programs that join a cluster's job, run as processes."""

import os
import subprocess

from tests.tools.local_cluster import ROOT


def program_environment(bin_dir, **more):
    """Of a program that imports the package `monsoon` of this tree and its built programs."""
    return {**os.environ, "PYTHONPATH": str(ROOT / "python"), "MONSOON_BIN": str(bin_dir), **more}


def children_of(pid):
    """Their pids; a program's only child is its sidecar."""
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(word) for word in found.stdout.split()]
