"""Trains in one mode for a long time, while a parameter server, workers or programs end and come
back again and again, and watches what those that stay hold: memory, threads, descriptors, and the
files of the cluster. Nothing may grow with time.

The coordinator, ps/0 and worker/0 (or the first program) stay; ps/1 and the others are restarted in
turn, by SIGTERM and every third time by SIGKILL. Of each figure's samples after the first third the
median of all slopes (Theil-Sen) tells by how much it would have grown within the run.
"""

import itertools
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from tests.process.options import add_transport
from tests.tools.local_cluster import PATIENCE_S, UNREACHABLE, LocalCluster, poll
from tests.tools.programs import children_of, program_environment
from tests.tools.tiny_job import tiny_job

SHARDS, WORKERS, PROGRAMS = 2, 3, 2
PROGRAM = pathlib.Path(__file__).with_name("soak_program.py")
CHECKPOINT = "checkpoint { every_seconds: 1 }"


def _downpour(inside, more=CHECKPOINT):
    # With relu's unbounded outputs the outer momentum diverges after some 7,000 rounds.
    return tiny_job(units=200, activation="tanh", classes=8, noise=6, more=f"""
batch_size: 20
stripe_kib: 4
downpour {{ {inside} }}
stop {{ steps: 1000000000 }}
{more}
""")


class Mode(NamedTuple):
    job: str = ""  # a job file's text
    way: str = ""  # of soak_program.py, where programs train
    restarts_ps: bool = True
    again: bool = False  # it ends by itself, is deleted, and another one follows


MODES = {
    "downpour": Mode(_downpour("optimizer { adagrad { rate: 0.02 } }")),
    "momentum": Mode(_downpour("optimizer { nesterov { rate: 0.02 momentum: 0.9 period: 2 } }")),
    "rounds": Mode(_downpour("local { steps: 8 inner { sgd { rate: 0.02 } } } rounds { } "
                             "optimizer { nesterov { rate: 0.7 momentum: 0.9 } }")),
    "fragments": Mode(_downpour(
        "local { steps: 4 inner { sgd { rate: 0.02 } } mixing: 0.25 "
        "fragments { count: 2 order: BY_STRIPE } } push_format: INT4 fetch_changes: INT8 "
        "optimizer { nesterov { rate: 0.35 momentum: 0.5 period: 2 } }")),
    # A shard that dies ends such a job.
    "memory_only": Mode(_downpour("optimizer { adagrad { rate: 0.02 } }",
                                  "checkpoint { off: true }"),
                        restarts_ps=False),
    "batch": Mode(tiny_job(units=100, activation="tanh", classes=8, noise=6, more=f"""
batch_size: 100
stripe_kib: 4
sandblaster {{ l2: 1e-4 max_iterations: 300 }}
{CHECKPOINT}
"""), again=True),
    "programs": Mode(way="shards"),
    "local_programs": Mode(way="local"),
}
# What a figure may seem to grow by within a run: (of its median, and beside that).
ALLOWED = {"KiB of memory": (0.05, 4096), "threads": (0, 3), "descriptors": (0, 4),
           "files": (0.1, 6), "KiB of files": (0.1, 512)}
# Memory of those that keep pushes until they are durable: with each longer silence of a shard they
# keep more than ever before, up to their window (cluster.proto, replay_window_mib).
ALLOWED_KEPT = (0.15, 32768)
KEEP_PUSHES = ("worker/0", "its sidecar")
SAMPLE_S = 2
# What grows with the steps does so in any case, and several modes fit a machine side by side.
PACE = "--fault=compute_delay_ms=4"


def end_one(task, how):
    """Or nobody, where the pid is of its last life still."""
    try:
        os.kill(task["pid"], how)
    except ProcessLookupError:
        pass


def figures_of(pid):
    """Of a process; {} if it has ended."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
        told = {line.split(":")[0]: line.split(":")[1].split()[0] for line in lines
                if line.startswith(("RssAnon", "RssShmem", "Threads"))}
        return {"KiB of memory": int(told["RssAnon"]) + int(told["RssShmem"]),
                "threads": int(told["Threads"]),
                "descriptors": len(os.listdir(f"/proc/{pid}/fd"))}
    except (OSError, KeyError):
        return {}


def figures_of_folder(folder):
    """What is there, in whole pages as the disk has it."""
    count = size = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                size += os.stat(os.path.join(path, name)).st_blocks // 2
                count += 1
            except FileNotFoundError:
                pass
    return {"files": count, "KiB of files": size}


def growth(samples):
    """By how much it would have grown from the first to the last of [(seconds, value)]."""
    slopes = [(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in itertools.combinations(samples, 2)]
    return statistics.median(slopes) * (samples[-1][0] - samples[0][0])


class Crowd:
    """Those that train, as they come and go: workers of `up`, or programs of our own."""

    def __init__(self, cluster, mode, options):
        self._cluster = cluster
        self._way = mode.way
        self._environment = program_environment(options.bin, MONSOON_TRANSPORT=options.transport)
        self._programs = []

    def enter(self, folder, mode):
        """The job's name."""
        if not self._way:
            file = pathlib.Path(folder) / "soak.textproto"
            file.write_text(mode.job)
            return self._cluster.submit(file)
        self._programs = [self._started() for _ in range(PROGRAMS)]
        return "soak-1"

    def _started(self):
        program = subprocess.Popen(
            [sys.executable, str(PROGRAM), self._cluster.address, "soak", self._way],
            stdout=subprocess.PIPE, env=self._environment, text=True)
        return program

    def that_stay(self, described):
        """{name: pid}"""
        if not self._way:
            return {"worker/0": described["workers"][0]["pid"]}
        found = {"program": self._programs[0].pid}
        sidecars = children_of(self._programs[0].pid)
        return {**found, **({"its sidecar": sidecars[0]} if sidecars else {})}

    def restart(self, described, number, how):
        """One of those that do not stay."""
        if not self._way:
            end_one(described["workers"][1 + number % (WORKERS - 1)], how)
            return
        self._programs[1].send_signal(how)
        self._programs[1].wait(timeout=PATIENCE_S)
        self._programs[1] = self._started()

    def leave(self):
        for program in self._programs:
            program.kill()
            program.wait()


class Watch:
    """What those that stay hold, over time."""

    def __init__(self, cluster, crowd):
        self._cluster = cluster
        self._crowd = crowd
        self._pids = {}
        self._began = time.monotonic()
        self.samples = {}  # {(whose, figure): [(seconds, value)]}

    def look(self, described):
        pids = {"coordinator": self._cluster.coordinator_pid(),
                "ps/0": described["shards"][0]["pid"], **self._crowd.that_stay(described)}
        now = time.monotonic() - self._began
        for whose, pid in pids.items():
            if self._pids.setdefault(whose, pid) != pid:
                raise RuntimeError(f"{whose} was to stay and has been started again\n"
                                   f"{self._cluster.end_of_log()}")
            self._note(now, whose, figures_of(pid))
        self._note(now, "state", figures_of_folder(self._cluster.state_dir))

    def _note(self, now, whose, figures):
        for figure, value in figures.items():
            self.samples.setdefault((whose, figure), []).append((now, value))

    def judge(self, checks, name):
        for (whose, figure), samples in self.samples.items():
            settled = samples[len(samples) // 3:]
            if len(settled) < 10:
                checks.check(f"{name}: enough samples of {whose}", False, len(settled))
                continue
            grown = growth(settled)
            middle = statistics.median(value for _, value in settled)
            keeps = figure == "KiB of memory" and whose in KEEP_PUSHES
            part, beside = ALLOWED_KEPT if keeps else ALLOWED[figure]
            print(f"  {whose}: {middle:,.0f} {figure}, {grown:+,.1f}", flush=True)
            checks.check(f"{name}: {whose}: {figure} do not grow",
                         grown <= part * middle + beside, [value for _, value in settled])


def progress(described):
    """Grows as long as a job goes on."""
    batch = described.get("sandblaster") or {}
    return (described["job"], batch.get("iteration", 0),
            sum(shard["version_min"] for shard in described["shards"]))


def soak(checks, options, name, folder, cluster):
    mode = MODES[name]
    crowd = Crowd(cluster, mode, options)
    try:
        job = crowd.enter(folder, mode)

        def running(more_than=None):
            nonlocal job
            now = cluster.try_describe(job, may_give=None if mode.way else (UNREACHABLE,))
            there = (now and now["state"] == "RUNNING" and len(now["shards"]) == SHARDS and
                     (more_than is None or progress(now) != more_than))
            if now and now["state"] == "SUCCEEDED" and mode.again:
                cluster.command("delete", job)
                job = crowd.enter(folder, mode)
            ended = ("FAILED",) if mode.again else ("FAILED", "SUCCEEDED")
            return now if there or now and now["state"] in ended else None

        described = poll(running)
        watch = Watch(cluster, crowd)
        ends = time.monotonic() + options.seconds
        restart_at = time.monotonic() + options.every
        restarts = 0
        while described and described["state"] == "RUNNING" and time.monotonic() < ends:
            watch.look(described)
            if time.monotonic() >= restart_at:
                how = signal.SIGKILL if restarts % 3 == 2 else signal.SIGTERM
                if mode.restarts_ps and restarts % 2 == 0:
                    end_one(described["shards"][1], how)
                else:
                    crowd.restart(described, restarts // 2, how)
                restarts += 1
                restart_at = time.monotonic() + options.every
            time.sleep(SAMPLE_S)
            before = progress(described)
            described = poll(lambda before=before: running(before))
        last = described or cluster.describe(job)
        checks.check(f"{name}: it goes on until the end", described and
                     described["state"] == "RUNNING", [last["state"], last["reason"]])
        checks.check(f"{name}: nothing is lost in silence", last["durability"]["promise"] in
                     ("exactly_once", "memory_only"), last["durability"])
        print(f"{name}: {restarts} restarts, progress {progress(last)}", flush=True)
        watch.judge(checks, name)
        cluster.command("cancel", job, "--wait", check=False)
    finally:
        crowd.leave()


def add_options(parser):
    add_transport(parser)
    parser.add_argument("--seconds", type=float, default=600, help="of each mode")
    parser.add_argument("--every", type=float, default=12, help="seconds between two restarts")
    parser.add_argument("--modes", default=",".join(MODES), help="joined by ','")


def run(checks, options):
    for name in options.modes.split(","):
        with tempfile.TemporaryDirectory(prefix="monsoon-") as folder, \
                LocalCluster(ps=SHARDS, workers=0 if MODES[name].way else WORKERS,
                             bin_dir=options.bin, extra_flags=("--restart_backoff=0.1", PACE),
                             settings=["heartbeat_ms: 200", "lost_after_ms: 3000"],
                             environment={"MONSOON_TRANSPORT": options.transport}) as cluster:
            soak(checks, options, name, folder, cluster)
