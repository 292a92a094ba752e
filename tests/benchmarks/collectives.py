#!/usr/bin/env python3
"""All-reduces of common/collective beside torch.distributed's gloo: the same vectors, N processes
each, all of them waiting while others are measured, in rounds that take turns.

    tests/benchmarks/collectives.py --binary=bazel-bin/common/collective/collective_benchmark \\
        --python=PYTHON_WITH_TORCH [--members=2,4] [--sizes_kib=1,64,1024] [--rounds=5]

A call takes as long as its slowest member; a round's figure is the median of its calls, and the
table has the median over rounds, with the ratio gloo / ours (above 1: ours is faster). What comes
of each call is checked. Without --python ours alone. Exit code 1: some sum was wrong.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

from side_process import SideProcess

SIDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "collectives_side.py")
DEADLINE_S = 600
ALGORITHMS = ("AUTO", "NAIVE", "TREE", "RING", "DIRECT", "EXCHANGE")
# A round's calls take about so long together, as far as one may guess: 1 GB/s and 0.3 ms.
ROUND_S = 0.4


class Member(SideProcess):
    """One process that answers lines."""

    def __init__(self, command, title):
        super().__init__(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                          text=True), title, DEADLINE_S)

    def begin(self, line):
        self._operation = line
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def close(self):
        self._process.stdin.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Group:
    """All members of one side."""

    def __init__(self, name, commands):
        self.name = name
        self._members = [Member(command, f"{name}, rank {rank}")
                         for rank, command in enumerate(commands)]

    def ask(self, line):
        for member in self._members:
            member.begin(line)
        return [member.answer() for member in self._members]

    def seconds(self, size, algorithm, order, calls):
        """The median call, each as long as its slowest member; whether all sums were right."""
        answers = self.ask(f"{size} {algorithm} {order} {calls}")
        each = [max(times) for times in zip(*(answer["seconds"] for answer in answers))]
        return statistics.median(each), all(answer["correct"] for answer in answers), answers[0]

    def close(self):
        for member in self._members:
            member.close()


def calls_of(size):
    return max(1, min(200, int(ROUND_S / (0.3e-3 + size / 1e9))))


def ours(options, transport, members, folder):
    return Group(transport, [
        [options.binary, f"--folder={folder}", f"--rank={rank}", f"--members={members}",
         f"--transport={transport}", f"--part_kib={options.part_kib}"] for rank in range(members)])


def compare(options, members, scratch):
    groups = []
    for transport in options.transports.split(","):
        folder = os.path.join(scratch, f"{transport}{members}")
        os.mkdir(folder)
        groups.append(ours(options, transport, members, folder))
    sides = [(group, algorithm, order) for group in groups
             for order in options.orders.split(",") for algorithm in options.algorithms.split(",")]
    for group in groups:
        costs = group.ask("calibrate")[0]["costs"]
        print(f"{members} members, {group.name}: {costs}", flush=True)
    if options.python:
        folder = os.path.join(scratch, f"gloo{members}")
        os.mkdir(folder)
        gloo = Group("gloo", [[options.python, SIDE, folder, str(rank), str(members)]
                              for rank in range(members)])
        groups.append(gloo)
        sides.append((gloo, "-", "-"))
    correct = True
    for kib in map(int, options.sizes_kib.split(",")):
        times = {}
        for _ in range(options.rounds):
            for group, algorithm, order in sides:
                seconds, right, answer = group.seconds(kib * 1024, algorithm, order,
                                                       calls_of(kib * 1024))
                correct &= right
                times.setdefault((group.name, algorithm, order), []).append(
                    (seconds, answer.get("algorithm", "")))
        report(members, kib, times)
    for group in groups:
        group.close()
    return correct


def report(members, kib, times):
    median = {side: statistics.median(seconds for seconds, _ in each)
              for side, each in times.items()}
    rival = median.get(("gloo", "-", "-"))
    for (name, algorithm, order), seconds in median.items():
        chosen = times[name, algorithm, order][0][1]
        title = f"{algorithm} ({chosen})" if algorithm == "AUTO" else algorithm
        ratio = f"{rival / seconds:6.2f}" if rival else "     -"
        print(f"{members} members {kib:8d} KiB  {name:13s} {title:18s} {order:7s} "
              f"{seconds * 1e6:11.1f} us {kib * 1024 / seconds / 1e9:6.2f} GB/s  gloo/ours {ratio}",
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--binary", required=True, help="collective_benchmark")
    parser.add_argument("--python", help="an interpreter with torch and gloo")
    parser.add_argument("--members", default="2")
    parser.add_argument("--transports", default="shared_memory,grpc")
    parser.add_argument("--algorithms", default="AUTO")
    parser.add_argument("--orders", default="fixed", help="fixed,by_rank")
    parser.add_argument("--sizes_kib", default="1,16,64,256,1024,4096,16384,65536,262144")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--part_kib", type=int, default=0)
    options = parser.parse_args()
    if not set(options.algorithms.split(",")) <= set(ALGORITHMS):
        parser.error(f"algorithms are {', '.join(ALGORITHMS)}")
    correct = True
    with tempfile.TemporaryDirectory() as scratch:
        for members in map(int, options.members.split(",")):
            correct &= compare(options, members, scratch)
    print("all sums were right" if correct else "SOME SUM WAS WRONG")
    return 0 if correct else 1


if __name__ == "__main__":
    sys.exit(main())
