"""Three programs of which one is ten times slower train one job, under each bound on staleness,
while parameter servers are killed: what the shards have recorded must keep to the bound.

With N programs that push each step in turn (no overlap) a push is computed from a fetch after
which each other one pushes at most 2 s + 1 times more (docs/downpour.md), so a stripe's staleness
is at most (N - 1) (2 s + 1). Without a bound the same programs go far beyond that. What is sent
again to a shard that was started anew counts as versions there, though it is not new: then the
clocks say whether the bound holds, and tests/simulation looks at each push.
"""

import os
import pathlib
import signal
import subprocess
import sys

from tests.tools.local_cluster import PATIENCE_S, UNREACHABLE, LocalCluster, poll
from tests.tools.programs import program_environment

PROGRAM = pathlib.Path(__file__).with_name("bounded_program.py")
SLOWEST_STEP_S = 0.1
SPEEDS = (10.0, 10.0, 1.0)
BOUND = 2
SHARDS = 2


def add_options(parser):
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--kills", type=int, default=3)


def clocks_of(described):
    return {worker["task"]: worker["clock"] for worker in described["workers"]
            if worker["state"] == "RUNNING" and worker.get("clock") is not None}


def watch(options, cluster, job, kills):
    """Until the job has ended; its description, and the widest that running clocks were apart."""
    widest, killed = 0, 0
    seen = {}

    def look():
        nonlocal widest, killed
        now = cluster.try_describe(job, may_give=(UNREACHABLE,))
        if not now or now["state"] in ("SUCCEEDED", "FAILED", "CANCELLED"):
            return now or None
        clocks = clocks_of(now)
        if len(clocks) == len(SPEEDS):
            widest = max(widest, max(clocks.values()) - min(clocks.values()))
        due = (killed + 1) * options.steps // (kills + 2)
        if killed < kills and now["progress"]["step"] >= due and len(now["shards"]) == SHARDS:
            os.kill(now["shards"][killed % SHARDS]["pid"], signal.SIGKILL)
            killed += 1
        seen["last"] = now
        return None

    ended = poll(look, timeout_s=options.steps * SLOWEST_STEP_S + 2 * PATIENCE_S, every_s=0.05)
    return ended or seen.get("last"), widest, killed


def train(checks, options, name, *bound, kills=0):
    with LocalCluster(ps=SHARDS, workers=0, bin_dir=options.bin,
                      extra_flags=("--restart_backoff=0.1",),
                      settings=["heartbeat_ms: 100", "lost_after_ms: 2000"]) as cluster:
        programs = [
            subprocess.Popen([sys.executable, str(PROGRAM), cluster.address, name,
                              str(SLOWEST_STEP_S / speed), str(options.steps), *bound],
                             stdout=subprocess.PIPE, env=program_environment(options.bin),
                             text=True) for speed in SPEEDS]
        for program in programs:
            checks.check(f"{name}: a program is in", program.stdout.readline().strip() == "in")
        described, widest, killed = watch(options, cluster, f"{name}-1", kills)
        made = [int(program.stdout.read().split()[-1]) for program in programs
                if program.wait(timeout=PATIENCE_S) == 0]
    checks.check(f"{name}: the job has succeeded",
                 described and described["state"] == "SUCCEEDED",
                 described and described["reason"])
    checks.check(f"{name}: each step was made once", sum(made) == options.steps, made)
    staleness, counts = described["staleness"], described["counts"]
    print(f"{name}: steps {made}, {killed} kills, staleness max {staleness['max']} p99 "
          f"{staleness['p99']}, clocks at most {widest} apart, waited "
          f"{counts['bound_wait_ms'] / 1000:.1f} s, dropped {counts['dropped']}, restores "
          f"{described['durability'].get('restores')}", flush=True)
    checks.check(f"{name}: shards were killed as often as was meant", killed == kills, killed)
    checks.check(f"{name}: nothing is lost", not described["durability"].get("lost"),
                 described["durability"])
    return described, widest, made


def run(checks, options):
    others = len(SPEEDS) - 1
    free, _, _ = train(checks, options, "free", "none")
    most = others * (2 * BOUND + 1)
    checks.check("without a bound staleness goes beyond it", free["staleness"]["max"] > most,
                 free["staleness"]["max"])
    for name, kills in (("bounded", 0), ("killed", options.kills)):
        bounded, widest, made = train(checks, options, name, str(BOUND), kills=kills)
        if kills == 0:
            checks.check(f"{name}: shards saw no push that is older than the bound allows",
                         bounded["staleness"]["max"] <= most, bounded["staleness"]["max"])
        checks.check(f"{name}: no clock is further ahead than that", widest <= BOUND + 1, widest)
        checks.check(f"{name}: the fast ones have waited", bounded["counts"]["bound_wait_ms"] > 0)
        checks.check(f"{name}: the slow one has done its share",
                     min(made) >= options.steps // len(SPEEDS) - others * (BOUND + 2), made)
    dropped, _, _ = train(checks, options, "dropped", str(BOUND), "drop", kills=options.kills)
    checks.check("old pushes are dropped", dropped["counts"]["dropped"] > 0)
    checks.check("shards applied none that was older", dropped["staleness"]["max"] <= BOUND,
                 dropped["staleness"]["max"])
    checks.check("nobody waits where they are dropped", dropped["counts"]["bound_wait_ms"] == 0)
