"""The command `monsoon-worker`: the worker's program."""

import os
import sys

from _monsoon_command import program


def main():
    path = program("worker", "worker")
    os.execv(path, [path] + sys.argv[1:])
