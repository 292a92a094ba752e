"""Kills Python programs that train a model of their own, their sidecars, the parameter
servers and the coordinator, and compares what the shards have counted with the programs'
books.

Three programs (counting_program.py) push without a pause, most of their time is in a push;
only when half of the data are used up before all kills are made do they pause after each.
Each kill is a SIGKILL of one at a random moment: of the program alone, whose sidecar then
finishes the push and says goodbye, or, every second time, of the sidecar too. Another one
takes its place. With --sidecar_kills the sidecar alone dies, and its program goes on with a
new one. Before a shard dies after a sidecar, or a sidecar after a shard, two generations
pass: pushes are lost by both within that time (docs/failures.md).

At the end the job must have SUCCEEDED; each sample must have been counted at least as often
as some program had it acknowledged, at most as often as it was sent, and at least once in
each epoch; and all that is not known exactly must be what was under way in a kill. So must the
rows of the programs' table, which each push moves too; and they must stand where the counts say,
but for pushes of which a sidecar's death left rows on a shard and no counts.

--writer_kills: programs that are to write the initial parameters of a job are killed at a
random moment of it; the next one writes them all again.

--points, and nothing else: at each fail point of the writing of initial parameters
(common/base/fail_point.h) the writer's sidecar dies, or a parameter server that is written
to, and one that has applied rows; the job must begin all the same, and its counts be as above.
It takes programs of --config=failpoints.
"""

import bisect
import collections
import os
import pathlib
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zipfile

from tests.process.options import add_transport
from tests.tools import fail_points
from tests.tools.checks import Unusable
from tests.tools.local_cluster import PATIENCE_S, LocalCluster, poll
from tests.tools.printing import print_events
from tests.tools.programs import children_of, program_environment

PROGRAM = pathlib.Path(__file__).with_name("counting_program.py")

EXAMPLES, BATCH = 65536, 64
PROGRAMS = 3
SHARDS = 2
SETTINGS = ["heartbeat_ms: 100", "lost_after_ms: 2000"]


class Program:
    def __init__(self, run, name, epochs):
        self.number = len(run.books)
        self.path = pathlib.Path(run.folder) / f"books-{self.number}"
        self.path.write_bytes(bytes(2 * 4 * EXAMPLES))
        run.books.append(self.path)
        self.errors = open(pathlib.Path(run.folder) / f"errors-{self.number}", "w+")
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), run.cluster.address, name, str(self.path),
             str(EXAMPLES), str(BATCH), str(epochs)],
            stdout=subprocess.PIPE, stderr=self.errors, env=run.environment, text=True)

    def await_in(self):
        """It has the job's parameters. False: it ended."""
        return self.process.stdout.readline().strip() == "in"

    def sidecar(self):
        """Its pid, once there is one."""
        return next(iter(children_of(self.process.pid)), None)

    def kill(self, both):
        if both:
            self.process.send_signal(signal.SIGSTOP)  # or it starts another one
            self.kill_sidecar()
        self.process.kill()
        self.process.wait()

    def kill_sidecar(self):
        """True: there was one."""
        pid = self.sidecar()
        if pid:
            os.kill(pid, signal.SIGKILL)
        return bool(pid)

    def text_of_errors(self):
        self.errors.seek(0)
        return self.errors.read()


class Run:
    def __init__(self, options, checks, cluster, folder):
        self.checks, self.check, self.cluster, self.folder = checks, checks.check, cluster, folder
        self.options = options
        self.random = random.Random(options.seed)
        self.environment = program_environment(options.bin, MONSOON_TRANSPORT=options.transport)
        self.books = []
        self.died = None  # the kind of task whose death may still cost pushes, if the other dies
        self.died_ms = 0
        self.slow = pathlib.Path(folder) / "slow"

    def describe(self, job):
        """None while the coordinator does not answer, or no program has entered the job yet."""
        return self.cluster.try_describe(job)

    def counts(self, job):
        """What the shards hold, and (sent, acknowledged) of all programs."""
        out = pathlib.Path(self.folder) / "counts.npz"
        self.cluster.command("export", job, f"--out={out}")
        with zipfile.ZipFile(out) as archive:
            raw = archive.read("count.npy")
        held = struct.unpack(f"<{EXAMPLES}f", raw[-4 * EXAMPLES:])
        sent, acknowledged = [0] * EXAMPLES, [0] * EXAMPLES
        for path in self.books:
            both = struct.unpack(f"<{2 * EXAMPLES}I", path.read_bytes())
            sent = [a + b for a, b in zip(sent, both[:EXAMPLES])]
            acknowledged = [a + b for a, b in zip(acknowledged, both[EXAMPLES:])]
        return held, sent, acknowledged

    def compare(self, what, job, epochs, kills, sidecars):
        held, sent, acknowledged = self.counts(job)
        lost = sum(h < a for h, a in zip(held, acknowledged))
        doubled = sum(h > s for h, s in zip(held, sent))
        missed = sum(h < epochs for h in held)
        unknown = sum(s - a for s, a in zip(sent, acknowledged))
        self.check(f"{what}: no acknowledged sample is lost", lost == 0, lost)
        self.check(f"{what}: none is counted more often than it was sent", doubled == 0, doubled)
        self.check(f"{what}: each is counted in each epoch", missed == 0, missed)
        self.check(f"{what}: what is not known is what the kills interrupted",
                   unknown <= kills * BATCH, (unknown, kills * BATCH))
        self.compare_rows(what, held, sent, acknowledged, sidecars)
        return sum(held), unknown

    def compare_rows(self, what, held, sent, acknowledged, sidecars):
        """Rows and parameters have had the same pushes, each once: but for the last of a sidecar
        that died, whose rows go ahead."""
        written = [path for path in (book.with_name(book.name + ".rows") for book in self.books)
                   if path.exists()]
        self.check(f"{what}: a program has read the rows", bool(written))
        place = [0.0]  # of a row after so many pushes
        for count in range(1, max(sent) + 2):
            place.append(place[-1] + count ** -0.5)
        for path in written[-1:]:
            rows = struct.unpack(f"<{EXAMPLES}f", path.read_bytes())
            moved = [bisect.bisect(place, row + 0.5 * (h + 1) ** -0.5) - 1
                     for row, h in zip(rows, held)]
            wrong = [(i, row, m) for i, (row, m) in enumerate(zip(rows, moved))
                     if abs(row - place[m]) > 0.2 * (m + 1) ** -0.5]
            self.check(f"{what}: each row was moved a whole number of times", not wrong, wrong[:5])
            wrong = [both for both in zip(range(EXAMPLES), acknowledged, moved, sent)
                     if not both[1] <= both[2] <= both[3]]
            self.check(f"{what}: each row was moved as often as its sample was sent", not wrong,
                       (len(wrong), wrong[:5]))
            wrong = [both for both in zip(range(EXAMPLES), moved, held) if both[1] != both[2]]
            self.check(f"{what}: and counted, but for what sidecars left",
                       len(wrong) <= sidecars * BATCH, (len(wrong), sidecars * BATCH, wrong[:5]))
            print(f"{len(wrong)} rows differ from their counts", flush=True)

    def await_end(self, job):
        def look():
            described = self.describe(job)
            ended = described and described["state"] in ("SUCCEEDED", "FAILED", "CANCELLED")
            return described if ended else None

        described = poll(look, timeout_s=10 * PATIENCE_S, every_s=0.2)
        if described is None:
            raise RuntimeError(f"{job} did not end: {self.describe(job)}")
        return described

    # ---- the parts ---------------------------------------------------------------

    def kill_programs(self):
        options = self.options
        servers = [("ps/0", "ps_server")] * options.ps_kills
        servers += [("coordinator/0", "coordinator")] * options.coordinator_kills
        faults = ["program"] * options.kills + ["sidecar"] * options.sidecar_kills + servers
        self.random.shuffle(faults)
        # About 0.7 s each, and enough data for all.
        epochs = max(3, int(len(faults) * options.epochs_per_kill))
        programs = [Program(self, "count", epochs) for _ in range(PROGRAMS)]
        for program in programs:
            self.check_is_in(program)
        killed = collections.Counter()
        for fault in faults:
            self.random_pause()
            described = self.describe("count-1")
            if described and described["state"] not in ("RUNNING", "PENDING"):
                break
            if described and 2 * described["data"]["blocks_done"] > epochs * EXAMPLES // BATCH:
                self.slow.touch()
            if fault == "program":
                self.kill_program(programs, epochs, killed)
            elif fault == "sidecar":
                self.settle("sidecar")
                killed["sidecars"] += self.random.choice(programs).kill_sidecar()
                self.note_death("sidecar")
            else:
                self.settle(fault[1])
                self.kill_task(fault[0])
                self.note_death(fault[1])
                killed["servers"] += 1
        self.slow.unlink(missing_ok=True)
        self.check_end(programs, epochs, killed)

    def kill_program(self, programs, epochs, killed):
        """One of `programs`, every second time with its sidecar; another one takes its place."""
        both = killed["programs"] % 2 == 1
        if both:
            self.settle("sidecar")
        place = self.random.randrange(PROGRAMS)
        programs[place].kill(both)
        if both:
            self.note_death("sidecar")
            killed["both"] += 1
        killed["programs"] += 1
        programs[place] = Program(self, "count", epochs)
        self.check_is_in(programs[place])

    def check_is_in(self, program):
        self.check(f"program {program.number} is in", program.await_in(),
                   program.text_of_errors())

    def check_end(self, programs, epochs, killed):
        options = self.options
        described = self.await_end("count-1")
        for program in programs:
            out = program.process.wait(timeout=PATIENCE_S)
            self.check(f"program {program.number} ends by itself", out == 0,
                       (out, program.text_of_errors()[-2000:]))
        self.check("the job has succeeded", described["state"] == "SUCCEEDED",
                   described["reason"])
        self.check("nothing is reported lost", not described["durability"].get("lost"),
                   described["durability"])
        self.check("all planned kills were made", killed["programs"] == options.kills,
                   (killed, options.kills))
        self.check("sidecars were killed", killed["sidecars"] == options.sidecar_kills,
                   (killed, options.sidecar_kills))
        # A shard's death may end sessions whose steps are then computed again.
        total, unknown = self.compare(
            "counts", "count-1", epochs,
            killed["programs"] + killed["sidecars"] + killed["servers"] * PROGRAMS,
            killed["both"] + killed["sidecars"])
        print(f"{killed['programs']} programs killed, {killed['sidecars']} sidecars, "
              f"{killed['servers']} servers; {int(total) // BATCH} pushes on the shards, "
              f"{unknown // BATCH} of them interrupted; {described['data']['blocks_released']} "
              "blocks leased again", flush=True)

    def note_death(self, kind):
        if kind in ("sidecar", "ps_server"):
            self.died, self.died_ms = kind, time.time() * 1000

    def settle(self, kind):
        """Returns when one of `kind` may die without a loss. Pushes of a sidecar that dies are
        nowhere but on the shards until two generations have followed its loss, which is
        noticed lost_after_ms later; and what a shard lacks that has come back, until two have
        followed that. Only together do both cost pushes."""
        if kind not in ("sidecar", "ps_server") or self.died in (None, kind):
            return
        generation = None

        def look():
            """"settled", "ended", or None while two generations have not followed."""
            nonlocal generation
            described = self.describe("count-1")
            if not described:
                return None
            if described["state"] not in ("RUNNING", "PENDING"):
                return "ended"
            # One that was heard since is not the one that died.
            if generation is None and len(described["shards"]) == SHARDS and all(
                    worker["state"] in ("LOST", "LEFT") or worker["last_seen_ms"] > self.died_ms
                    for worker in described["workers"]):
                generation = described["durability"]["generation"]
            followed = (generation is not None and
                        described["durability"]["generation"] >= generation + 2)
            return "settled" if followed else None

        seen = poll(look)
        if seen is None:
            raise RuntimeError(f"no two generations after the death of a {self.died}: "
                               f"{self.describe('count-1')}")
        if seen == "settled":
            self.died = None
            self.random_pause()

    def random_pause(self):
        time.sleep(self.random.uniform(0.05, 0.8))  # a random moment is the point

    def await_shard(self, other_than=0):
        """Its pid, which is not known while a coordinator recovers or the shard comes back."""
        def look():
            described = self.describe("count-1")
            pid = described["shards"][0]["pid"] if described and described["shards"] else 0
            return pid if pid != other_than else 0

        pid = poll(look, every_s=0.05)
        if not pid:
            raise RuntimeError(f"the shard did not come back: {self.describe('count-1')}")
        return pid

    def kill_task(self, task):
        pid = self.await_shard() if task.startswith("ps") else self.cluster.coordinator_pid()
        os.kill(pid, signal.SIGKILL)
        self.await_shard(other_than=pid)

    def kill_writers(self):
        for i in range(self.options.writer_kills):
            name = f"init{i}"
            writer = Program(self, name, 1)
            time.sleep(self.random.uniform(0.0, 0.5))  # from its start to its first step
            writer.kill(both=i % 2 == 1)
            heir = Program(self, name, 1)
            self.check(f"{name}: another one is in", heir.await_in(), heir.text_of_errors())
            out = heir.process.wait(timeout=PATIENCE_S)
            self.check(f"{name}: it ends by itself", out == 0, (out, heir.text_of_errors()[-2000:]))
        if self.options.writer_kills:
            print(f"{self.options.writer_kills} programs killed while their job began",
                  flush=True)


class PointRun(Run):
    """A job for each point, on a cluster in which each kills once, when its token lies there."""

    def __init__(self, options, checks, cluster, folder, kills):
        super().__init__(options, checks, cluster, folder)
        self.kills = kills
        self.environment.update(kills.environment)

    def kill_at(self, point, number):
        failed = self.checks.failed
        name = point.replace(".", "-").replace("_", "-")
        self.books = []
        self.kills.arm(point)
        began = time.monotonic()
        writer = Program(self, name, 1)
        self.check(f"{point}: it kills", poll(lambda: not self.kills.is_armed(point)))
        self.check(f"{point}: a program is in", writer.await_in(), writer.text_of_errors())
        out = writer.process.wait(timeout=PATIENCE_S)
        self.check(f"{point}: it ends by itself", out == 0, (out, writer.text_of_errors()[-2000:]))
        job = f"{name}-{number}"  # no other one was made
        described = self.await_end(job)
        self.check(f"{point}: the job has succeeded", described["state"] == "SUCCEEDED",
                   described["reason"])
        self.compare(point, job, 1, 0, 0)
        writers = sum(event["kind"] == "initializing" for event in described["events"])
        expected = 1 if fail_points.family_of(point) == "rows" else 2
        self.check(f"{point}: its parameters were written {expected} times", writers == expected,
                   writers)
        print(f"  {time.monotonic() - began:5.1f} s, {point}: {writers} writers", flush=True)
        if self.checks.failed > failed:
            print_events(described)


def kill_at_points(checks, options):
    begins = tuple(options.points.split(","))
    points = [point for point in fail_points.known_points(options.bin)
              if fail_points.family_of(point) in fail_points.OF_PROGRAMS and
              point.startswith(begins)]
    if not points:
        raise Unusable(f"the programs in {options.bin} have no such fail points: "
                       f"{fail_points.BUILD}")
    with tempfile.TemporaryDirectory(prefix="monsoon-programs-") as folder:
        kills = fail_points.Kills(folder, {point: 1 for point in points})
        with LocalCluster(
                ps=SHARDS, workers=0, bin_dir=options.bin, settings=SETTINGS,
                extra_flags=["--restart_backoff=0.05", "--restart_limit=0"],
                environment={"MONSOON_TRANSPORT": options.transport,
                             **kills.environment}) as cluster:
            deaths = PointRun(options, checks, cluster, folder, kills)
            for number, point in enumerate(points, start=1):
                deaths.kill_at(point, number)


def add_options(parser):
    add_transport(parser)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--sidecar_kills", type=int, default=4)
    parser.add_argument("--ps_kills", type=int, default=1)
    parser.add_argument("--coordinator_kills", type=int, default=1)
    parser.add_argument("--writer_kills", type=int, default=4)
    parser.add_argument("--epochs_per_kill", type=float, default=2.5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--points", nargs="?", const="",
                        help="kill at fail points; only those whose names begin so")


def run(checks, options):
    if options.points is not None:
        kill_at_points(checks, options)
        return
    with tempfile.TemporaryDirectory(prefix="monsoon-programs-") as folder, \
            LocalCluster(ps=SHARDS, workers=0, bin_dir=options.bin, settings=SETTINGS) as cluster:
        deaths = Run(options, checks, cluster, folder)
        deaths.kill_programs()
        deaths.kill_writers()
