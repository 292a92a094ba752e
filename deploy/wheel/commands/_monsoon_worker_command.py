"""The command `monsoon-worker`: the worker's program."""

from _monsoon_command import become, program


def main():
    become(program("worker", "worker"))
