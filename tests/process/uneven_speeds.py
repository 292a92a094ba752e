"""Four programs of the speeds 1, 1.3, 2 and 4 train one job, and one of them is stopped for a
while: nobody may wait for another, and nothing is set for any of them.

Their steps are sleeps (local steps, dynamic), so that this needs no fast machine. A fixed number
of samples must be done in at most --limit (1.1) times samples / (the sum of the speeds that were
there): that of the one that was stopped counts for the time that it was not.
"""

import os
import pathlib
import signal
import subprocess
import sys
import time

from tests.tools.local_cluster import PATIENCE_S, LocalCluster, poll
from tests.tools.programs import children_of, program_environment

PROGRAM = pathlib.Path(__file__).with_name("uneven_program.py")
SPEEDS = (1.0, 1.3, 2.0, 4.0)
SLOWEST_STEP_S = 0.1
BATCH, EVERY = 16, 40
STOPPED = 2  # of SPEEDS


def stop_for_a_while(options, program):
    """And its sidecar; for how long it was."""
    tree = [program.pid, *children_of(program.pid)]
    for pid in tree:
        os.kill(pid, signal.SIGSTOP)
    stopped_at = time.monotonic()
    time.sleep(options.stop_seconds)
    for pid in reversed(tree):
        os.kill(pid, signal.SIGCONT)
    return time.monotonic() - stopped_at


def train(checks, options, cluster):
    steps = round(options.seconds * sum(SPEEDS) / SLOWEST_STEP_S)
    steps -= steps % 4  # whole blocks
    programs = [
        subprocess.Popen([sys.executable, str(PROGRAM), cluster.address, "uneven",
                          str(SLOWEST_STEP_S / speed), str(steps * BATCH), str(BATCH), "1",
                          str(EVERY)],
                         stdout=subprocess.PIPE, env=program_environment(options.bin), text=True)
        for speed in SPEEDS]
    for program in programs:
        checks.check("a program is in", program.stdout.readline().strip() == "in")
    began = time.monotonic()
    stopped_for = 0.0
    if options.stop_seconds > 0:
        time.sleep(options.seconds / 4)  # in the midst of it
        stopped_for = stop_for_a_while(options, programs[STOPPED])

    def look():
        described = cluster.describe("uneven-1")
        return described if described["state"] in ("SUCCEEDED", "FAILED") else None

    described = poll(look, timeout_s=options.seconds + options.stop_seconds + PATIENCE_S,
                     every_s=0.05) or cluster.describe("uneven-1")
    checks.check("the job has succeeded", described["state"] == "SUCCEEDED", described["reason"])
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
    checks.check(f"at most {options.limit} times as long", took <= options.limit * ideal,
                 took / ideal)


def add_options(parser):
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--stop_seconds", type=float, default=20)
    parser.add_argument("--limit", type=float, default=1.1)


def run(checks, options):
    with LocalCluster(ps=2, workers=0, bin_dir=options.bin,
                      settings=["heartbeat_ms: 100", "lost_after_ms: 2000"]) as cluster:
        train(checks, options, cluster)
