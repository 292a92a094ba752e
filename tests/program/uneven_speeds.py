#!/usr/bin/python3
"""Four programs of the speeds 1, 1.3, 2 and 4 train one job, and one of them is stopped for a
while: nobody may wait for another, and nothing is set for any of them.

    uneven_speeds.py [--bin=DIR] [--seconds=N] [--stop_seconds=N] [--limit=RATIO]

Their steps are sleeps (local steps, dynamic), so that this needs no fast machine. A fixed number
of samples must be done in at most RATIO (1.1) times samples / (the sum of the speeds that were
there): that of the one that was stopped counts for the time that it was not.

Last line: `uneven_speeds: N passed, N failed, N skipped`; exit 1 if any failed.
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "tools"))
import local_cluster  # noqa: E402
from checks import Checks  # noqa: E402

SPEEDS = (1.0, 1.3, 2.0, 4.0)
SLOWEST_STEP_S = 0.1
BATCH, EVERY = 16, 40
STOPPED = 2  # of SPEEDS
PATIENCE_S = 60


def run(arguments, checks, cluster):
    address = next(line.split('"')[1] for line in cluster.path.read_text().splitlines()
                   if line.startswith("coordinator"))
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"),
                   "MONSOON_BIN": str(arguments.bin)}
    steps = round(arguments.seconds * sum(SPEEDS) / SLOWEST_STEP_S)
    steps -= steps % 4  # whole blocks
    programs = [
        subprocess.Popen([sys.executable, str(ROOT / "tests/program/uneven_program.py"), address,
                          "uneven", str(SLOWEST_STEP_S / speed), str(steps * BATCH), str(BATCH),
                          "1", str(EVERY)],
                         stdout=subprocess.PIPE, env=environment, text=True)
        for speed in SPEEDS]
    for program in programs:
        checks.check("a program is in", program.stdout.readline().strip() == "in")
    began = time.monotonic()
    stopped_for = 0.0
    if arguments.stop_seconds > 0:
        time.sleep(arguments.seconds / 4)  # in the midst of it
        tree = [programs[STOPPED].pid]
        tree += [int(pid) for pid in subprocess.run(
            ["pgrep", "-P", str(tree[0])], capture_output=True, text=True).stdout.split()]
        for pid in tree:
            os.kill(pid, signal.SIGSTOP)
        stopped_at = time.monotonic()
        time.sleep(arguments.stop_seconds)
        for pid in reversed(tree):
            os.kill(pid, signal.SIGCONT)
        stopped_for = time.monotonic() - stopped_at
    deadline = time.monotonic() + arguments.seconds + arguments.stop_seconds + PATIENCE_S
    state = ""
    while time.monotonic() < deadline and state not in ("SUCCEEDED", "FAILED"):
        described = json.loads(cluster.command("describe", "uneven-1", "--json").stdout)
        state = described["state"]
        time.sleep(0.05)  # between two looks
    checks.check("the job has succeeded", state == "SUCCEEDED", described["reason"])
    took = time.monotonic() - began
    # A speed of 1 takes 1 / SLOWEST_STEP_S steps a second.
    lost = stopped_for * SPEEDS[STOPPED]
    ideal = (steps * SLOWEST_STEP_S + lost) / sum(SPEEDS)
    done = [int(program.stdout.read().split()[-1]) for program in programs
            if program.wait(timeout=PATIENCE_S) == 0]
    checks.check("all programs end by themselves", len(done) == len(programs), done)
    told = {worker["task"]: worker.get("local_steps") for worker in described["workers"]}
    print(f"{steps} steps of {SLOWEST_STEP_S / SPEEDS[-1]:.3f} to {SLOWEST_STEP_S:.3f} s took "
          f"{took:.2f} s, {took / ideal:.3f} times the {ideal:.2f} s of all speeds together; "
          f"stopped for {stopped_for:.1f} s; samples {done}; local steps {told}", flush=True)
    checks.check(f"at most {arguments.limit} times as long", took <= arguments.limit * ideal,
                 took / ideal)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, default=local_cluster.BIN)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--stop_seconds", type=float, default=20)
    parser.add_argument("--limit", type=float, default=1.1)
    arguments = parser.parse_args()
    arguments.bin = arguments.bin.resolve()
    checks = Checks("uneven_speeds")
    with local_cluster.LocalCluster(ps=2, workers=0, bin_dir=arguments.bin,
                                    settings=["heartbeat_ms: 100", "lost_after_ms: 2000"]) as cluster:
        run(arguments, checks, cluster)
    return checks.summary()


if __name__ == "__main__":
    sys.exit(main())
