"""Kills, stops and pauses the processes of a cluster under load, and then compares, stripe
by stripe, what the shards have applied with the books of those who pushed.

Each pusher (ledger_pusher.cc) adds 1 at a place of its own in every stripe, so the place
holds how many of its pushes the stripe has applied. It must hold at least what was
acknowledged and at most what was sent; less only where a worker and a shard died within
one checkpoint of each other, and then exactly by what `describe` reports as lost.

  ps_kills           SIGKILL of a parameter server; `up` starts it again
  stops, long_stops  SIGSTOP of one for 0.5 to 3 s; for 2.5 to 5 s, beyond `lost_after_ms` (2 s)
  worker_kills       SIGKILL of a pusher; another one joins. A share of them (--double)
                     right before or after that of a shard: only these may lose anything
  coordinator_kills  SIGKILL of the coordinator
  full_disks         the disk of all state, a tmpfs of 128 MiB, is full for 0.5 to 3 s: to the
                     last byte, or for parts alone, which leave 64 MiB free. It takes root;
                     without, they are skipped

--job: what applies the pushes.
  sgd       as above
  rounds    pushes are averaged in rounds of all (rounds { }), of which most are open when
            somebody dies. The first pusher waits for each round and is never killed, so it
            is in each once, with weight 1; the others push on, with weights of 2^-40 and
            values of 2^40. So each mean is the sum of what the round got, and the places hold
            counts as above; and the versions are the first one's pushes
  nesterov  delayed Nesterov, whose momentum leaves no counts: but each stripe's pushes are all
            the same at one place, which must stand where an optimizer written a second
            time comes to after exactly as many
  rows      as sgd, in a job with a table that the pushers enter: each has rows of its own there,
            one in each stripe, which must have counted as many pushes as the places

--limit_s: no fault is begun after so many seconds; what was not done is told.
"""

import array
import collections
import os
import pathlib
import random
import signal
import struct
import subprocess
import tempfile
import time
import zipfile

from tests.process.options import add_transport
from tests.tools.local_cluster import PATIENCE_S, LocalCluster
from tests.tools.printing import print_times
from tests.tools.pusher import PROGRAM, Pusher
from tests.tools.small_disk import SmallDisk

SHARDS = 2
STRIPE = 1024  # floats
STRIPES = 8    # of all shards
JOB = f"""
model {{
  name: "places"
  input_shape: {STRIPE}
  layer {{ dense {{ units: {STRIPES} no_bias: true weight_initializer {{ constant: 0 }} }} }}
}}
train {{ synthetic {{ examples: 1000 classes: {STRIPES} seed: 1 center_seed: 9 noise: 3 }} }}
seed: 5
batch_size: 10
stripe_kib: {STRIPE * 4 // 1024}
downpour {{ DOWNPOUR }}
stop {{ seconds: 100000 }}
checkpoint {{ every_seconds: 0.5 }}
"""
ROWS_JOB = f"""
name: "places"
model {{
  tensor {{ name: "w" shape: {STRIPE * STRIPES} }}
  table {{
    name: "rows"
    rows: 200000
    columns: 16
    initializer {{ constant: 0 }}
    optimizer {{ learning_rate: 1 epsilon: 1 }}
  }}
}}
train {{ joiners {{ examples: 1000 }} }}
seed: 5
batch_size: 10
stripe_kib: {STRIPE * 4 // 1024}
downpour {{ DOWNPOUR }}
stop {{ seconds: 100000 }}
checkpoint {{ every_seconds: 0.5 }}
"""
DOWNPOUR = {
    "rows": "overlap: NONE optimizer { sgd { rate: 1 } }",
    "sgd": "optimizer { sgd { rate: 1 } }",
    "rounds": "local { steps: 1 inner { sgd { rate: 1 } } } rounds { } "
              "optimizer { sgd { rate: 1 } } fetch_changes: INT8",
    "nesterov": "optimizer { nesterov { rate: 1 momentum: 0.5 period: 4 } }",
}
LIGHT = 40  # weights of 2^-LIGHT: 2^(LIGHT - 25) of them beside one of 1 are none to a float
COMMON = STRIPE - 1  # the place where all push, of nesterov
SETTINGS = ["open: true", "heartbeat_ms: 100", "lost_after_ms: 2000"]
DISK_MIB = 128
# Each pusher must have pushed so often between two faults; in rounds they wait for looks.
PUSHES_BETWEEN = {"sgd": 200, "rounds": 50, "nesterov": 200, "rows": 200}


def nesterov_counts(pushes):
    """{value at the common place: how many pushes of -1 lead to it}, by proto/optimizer.proto."""
    w = b = summed = 0.0
    values = {w: 0}
    for j in range(1, pushes + 1):
        summed -= 1
        step = -1 / 4
        if j % 4 == 0:
            b = 0.5 * b + summed / 4
            summed = 0.0
            step += 0.5 * b
        w -= step
        values[w] = j
    return values


class Run:
    def __init__(self, checks, options, cluster, disk, folder):
        self.disk = disk
        self.check = checks.check
        self.options = options
        self.cluster = cluster
        self.folder = folder
        self.random = random.Random(options.seed)
        self.environment = {**os.environ, "MONSOON_TRANSPORT": options.transport}
        self.pushers = []  # the live ones
        self.all = []
        self.restores = 0
        self.doubles = 0
        self.skipped = 0  # faults
        self.done = collections.Counter()
        self.recoveries = collections.defaultdict(list)
        job_file = pathlib.Path(folder) / "places.textproto"
        text = ROWS_JOB if options.job == "rows" else JOB
        job_file.write_text(text.replace("DOWNPOUR", DOWNPOUR[options.job]))
        self.job_file = job_file
        self.job = "places-1" if options.job == "rows" else cluster.submit(job_file)

    # ---- the cluster -------------------------------------------------------------

    def join(self):
        assert len(self.all) < COMMON  # each has a place of its own
        # What comes again takes a look of 20 ms for each round of the first one: the others must
        # not fill their windows meanwhile, and wait for a checkpoint that waits for it.
        light = [f"--light={LIGHT}", "--every_us=20000"]
        flags = {"sgd": [], "rounds": light if self.all else ["--waits"],
                 "nesterov": [f"--common={COMMON}"],
                 "rows": [f"--settings={self.job_file}"]}[self.options.job]
        pusher = Pusher(self.options.bin, self.cluster, self.folder, len(self.all),
                        [f"--pause_us={self.options.pause_us}", *flags], self.environment)
        self.all.append(pusher)
        self.pushers.append(pusher)

    def describe(self):
        """None while the coordinator does not answer, or no pusher has entered the job yet."""
        return self.cluster.try_describe(self.job)

    def await_all(self, what, reached, pushes=0):
        """Until `reached(description)` and each pusher has pushed so often from now on."""
        begun = {pusher.place: pusher.books().acknowledged for pusher in self.pushers}
        deadline = time.monotonic() + PATIENCE_S
        described = None
        while time.monotonic() < deadline:
            for pusher in self.pushers:
                if pusher.process.poll() is not None:
                    self.fail(f"pusher {pusher.place} ended by itself "
                              f"({pusher.process.returncode}): {pusher.books()}, "
                              f"{pusher.errors.read_text()}")
            pushed = all(pusher.books().began and pusher.books().acknowledged >=
                         begun.get(pusher.place, 0) + pushes for pusher in self.pushers)
            if pushed:
                described = self.describe()
                if described and described["state"] != "RUNNING":
                    raise RuntimeError(f"{described['state']}: {described['reason']}")
                if described and len(described["shards"]) == SHARDS and reached(described):
                    return described
            time.sleep(0.01)
        seen = described and [described[key] for key in ("state", "durability", "reason")]
        self.fail(f"no {what}: {seen}, {[p.books() for p in self.pushers]}")

    def fail(self, what):
        log = self.cluster.log_path.read_text().splitlines()
        events = (self.describe() or {}).get("events", [])
        raise RuntimeError("\n".join([what, *log[-60:], *map(str, events[-30:])]))

    # ---- faults ------------------------------------------------------------------

    def ps_kill(self, described):
        os.kill(self.random.choice(described["shards"])["pid"], signal.SIGKILL)
        self.restores += 1

    def stop(self, described, least=0.5, most=3.0):
        pid = self.random.choice(described["shards"])["pid"]
        os.kill(pid, signal.SIGSTOP)
        time.sleep(self.random.uniform(least, most))
        os.kill(pid, signal.SIGCONT)

    def long_stop(self, described):
        self.stop(described, 2.5, 5.0)

    def worker_kill(self, described):
        first = 1 if self.options.job == "rounds" else 0
        victim = self.pushers.pop(self.random.randrange(first, len(self.pushers)))
        if self.random.random() < self.options.double:
            self.doubles += 1
            if self.random.random() < 0.5:
                self.ps_kill(described)
                victim.kill()
            else:
                victim.kill()
                self.ps_kill(described)
        else:
            victim.kill()
        self.join()

    def coordinator_kill(self, described):
        os.kill(self.cluster.coordinator_pid(), signal.SIGKILL)

    def full_disk(self, _):
        try:
            self.disk.fill(self.random.choice([0, 32 << 20]))
            time.sleep(self.random.uniform(0.5, 3))
        finally:
            self.disk.free()

    def plan(self):
        faults = []
        for fault in (self.ps_kill, self.stop, self.long_stop, self.worker_kill,
                      self.coordinator_kill, self.full_disk):
            times = getattr(self.options, f"{fault.__name__}s")
            if fault == self.full_disk and not self.disk.usable:
                self.skipped = times
                continue
            faults += [fault] * times
        self.random.shuffle(faults)
        return faults

    def run(self):
        between = PUSHES_BETWEEN[self.options.job]
        for number in range(self.options.pushers):
            self.join()
            if number == 0:  # in rounds the others would push without it
                self.await_all("the first pusher", lambda now: True, 1)
        generation = 0
        begun = time.monotonic()
        for number, fault in enumerate(self.plan()):
            if time.monotonic() - begun > self.options.limit_s:
                break
            # Two generations: what a dead worker had pushed is durable on every shard, so
            # that only faults that are meant as double ones are.
            described = self.await_all(
                f"generations before fault {number}",
                lambda now: now["durability"]["generation"] >= generation + 2, between)
            before = time.monotonic()
            fault(described)
            described = self.await_all(
                f"recovery from fault {number} ({fault.__name__})",
                lambda now: now["durability"]["restores"] >= self.restores, 1)
            generation = described["durability"]["generation"]
            self.done[fault.__name__] += 1
            self.recoveries[fault.__name__].append(time.monotonic() - before)
        self.await_all("the end", lambda now: now["durability"]["generation"] >= generation + 2,
                       between)
        if self.options.job == "rounds":
            # The first one ends the rounds that the others have left open.
            self.leave(self.pushers[1:])
            self.pushers = self.pushers[:1]
            self.await_all("the last round", lambda now: True, 2)
        self.leave(self.pushers)
        described = self.describe()
        self.cluster.command("cancel", self.job, "--wait")
        return described

    def leave(self, pushers):
        for pusher in pushers:
            pusher.process.terminate()
        for pusher in pushers:
            code = pusher.process.wait(timeout=PATIENCE_S)
            self.check(f"pusher {pusher.place} leaves", code == 0, pusher.errors.read_text())

    # ---- the comparison -----------------------------------------------------------

    def applied(self):
        """[stripe][place] from the shards."""
        out = pathlib.Path(self.folder) / "places.npz"
        self.cluster.command("export", self.job, f"--out={out}")
        with zipfile.ZipFile(out) as archive:
            name, *tables = archive.namelist()  # in the model's order; tables behind the tensors
            assert len(tables) == (self.options.job == "rows")
            data = archive.read(name)
        header, = struct.unpack("<H", data[8:10])
        floats = array.array("f", data[10 + header:])
        assert len(floats) == STRIPES * STRIPE
        return [floats[i * STRIPE:(i + 1) * STRIPE] for i in range(STRIPES)]

    def compare_versions(self, described, applied):
        """Of all stripes of a shard: (lowest, highest) as it must be."""
        each = STRIPES // SHARDS
        for shard in described["shards"]:
            part = applied[shard["task"] * each:(shard["task"] + 1) * each]
            seen = (shard["version_min"], shard["version_max"])
            what = f"ps/{shard['task']}: versions {seen}"
            if self.options.job == "rounds":
                pushes = self.all[0].books().acknowledged
                self.check(f"{what} are the rounds of the first pusher, {pushes}",
                           seen == (pushes, pushes))
                continue
            values = [stripe[COMMON] for stripe in part]
            counts = nesterov_counts(seen[1] + 1000)
            found = [min(counts, key=lambda value, at=at: abs(value - at)) for at in values]
            # The steps are of 1/4 and more; a float32 rounds what momentum began with.
            self.check(f"{what}: {values} is a number of pushes", all(
                abs(a - b) < 0.1 for a, b in zip(found, values)), found)
            pushes = [counts[value] for value in found]
            self.check(f"{what} are its pushes {pushes}", seen == (min(pushes), max(pushes)))
            lost = sum(entry["records"] for entry in described["durability"]["lost"]
                       if entry["shard"] == shard["task"])
            books = [pusher.books() for pusher in self.all]
            least = each * sum(book.acknowledged for book in books) - lost
            most = each * sum(book.sent for book in books) - lost
            self.check(f"{what}: {sum(pushes)} pushes, {least} to {most} were made",
                       least <= sum(pushes) <= most)

    def compare(self, described):
        applied = self.applied()
        if self.options.job in ("rounds", "nesterov"):
            self.compare_versions(described, applied)
        if self.options.job == "nesterov":
            return sum(pusher.books().acknowledged for pusher in self.all)
        lost = {(entry["worker"], entry["incarnation"], entry["shard"]): entry
                for entry in described["durability"]["lost"]}
        if self.options.job == "rows":
            self.compare_rows(lost)
        self.check("nobody's places are 0",
                   not any(any(stripe[len(self.all):]) for stripe in applied))
        total = 0
        for pusher in self.all:
            books = pusher.books()
            if not books.began:
                continue
            total += books.acknowledged
            for shard in range(SHARDS):
                each = STRIPES // SHARDS
                values = [stripe[pusher.place] for stripe in
                          applied[shard * each:(shard + 1) * each]]
                report = lost.pop((books.worker, books.incarnation, shard), None)
                self.compare_shard(pusher, books, shard, [int(value) for value in values], report)
        self.check("nothing else is reported as lost", not lost, lost)
        return total

    def compare_rows(self, lost):
        program = pathlib.Path(self.options.bin) / PROGRAM
        answer = subprocess.run([program, f"--cluster={self.cluster.path}", f"--job={self.job}",
                                 f"--read={len(self.all) + 1}"],
                                capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.check("rows can be read", answer.returncode == 0, answer.stderr)
        counts = collections.defaultdict(list)
        for line in answer.stdout.splitlines():
            place, shard, pushes = map(int, line.split())
            counts[place, shard].append(pushes)
        self.check("nobody's rows are 0", not any(
            sum(counts[len(self.all), shard]) for shard in range(SHARDS)))
        for pusher in self.all:
            books = pusher.books()
            if not books.began:
                continue
            for shard in range(SHARDS):
                rows = counts[pusher.place, shard]
                report = lost.get((books.worker, books.incarnation, shard))
                reported = report["row_pushes"] if report else 0
                name = (f"rows of pusher {pusher.place} on ps/{shard}: sent {books.sent}, "
                        f"acknowledged {books.acknowledged}, counted {rows}, reported {report}")
                self.check(f"several stripes: {name}", len(rows) > 3)
                self.check(f"nothing twice: {name}", max(rows) <= books.sent)
                self.check(f"no more lost than is reported: {name}",
                           min(rows) >= books.acknowledged - reported)

    def compare_shard(self, pusher, books, shard, values, report):
        name = (f"pusher {pusher.place} (worker/{books.worker}#{books.incarnation}) on ps/{shard}: "
                f"sent {books.sent}, acknowledged {books.acknowledged}, applied {values}, "
                f"reported {report}")
        self.check(f"nothing twice: {name}", max(values) <= books.sent)
        if report is None:
            self.check(f"nothing lost: {name}", min(values) >= books.acknowledged)
            return
        self.check(f"only a killed worker loses pushes: {name}", pusher.killed)
        # What the shard had before it died lies between acknowledged and sent.
        least = sum(books.acknowledged - value for value in values)
        most = sum(books.sent - value for value in values)
        self.check(f"as much is lost as is reported: {name}", least <= report["records"] <= most)
        self.check(f"from where it is reported: {name}", min(values) == report["from"] - 1)
        self.check(f"to where it is reported: {name}",
                   books.acknowledged <= report["to"] <= books.sent)


def add_options(parser):
    add_transport(parser)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pushers", type=int, default=3)
    parser.add_argument("--ps_kills", type=int, default=3)
    parser.add_argument("--stops", type=int, default=1)
    parser.add_argument("--long_stops", type=int, default=1)
    parser.add_argument("--worker_kills", type=int, default=4)
    parser.add_argument("--coordinator_kills", type=int, default=1)
    parser.add_argument("--full_disks", type=int, default=2)
    parser.add_argument("--double", type=float, default=0.5)
    parser.add_argument("--pause_us", type=int, default=200)
    parser.add_argument("--job", choices=DOWNPOUR, default="sgd")
    parser.add_argument("--limit_s", type=float, default=1e9)


def run(checks, options):
    with tempfile.TemporaryDirectory(prefix="monsoon-") as folder, \
            SmallDisk(pathlib.Path(folder) / "state", DISK_MIB) as disk, \
            LocalCluster(ps=SHARDS, workers=0, bin_dir=options.bin,
                         environment={"MONSOON_TRANSPORT": options.transport},
                         extra_flags=["--restart_backoff=0.1", "--restart_limit=0"],
                         settings=SETTINGS, state_dir=disk.path) as cluster:
        faults = Run(checks, options, cluster, disk, folder)
        described = faults.run()
        pushes = faults.compare(described)
        lost = described["durability"]["lost"]
        print(f"{options.job}, seed {options.seed}, {options.transport}: {dict(faults.done)}, "
              f"{faults.doubles} of the worker kills beside a shard's; "
              f"{len(faults.all)} pushers, {pushes} pushes acknowledged; reported lost: "
              f"{sum(entry['records'] for entry in lost)} records and rows of "
              f"{sum(entry['row_pushes'] for entry in lost)} pushes in "
              f"{len(lost)} ranges; replayed {described['durability']['replayed']}")
        print("until all push again:")
        print_times(dict(sorted(faults.recoveries.items())))
    for _ in range(faults.skipped):
        checks.skip("a full disk", "a tmpfs cannot be mounted")
