#!/usr/bin/python3
"""Kills parameter servers, workers and the coordinator at named points of their code
(common/base/fail_point.h), with programs of --config=failpoints as a user runs them:
`coordinator up` starts what has died, and nothing is lost or counted twice.

    kill_points.py --bin=DIR [--transport=auto|grpc|shared_memory] [--kills=N] [--seed=N]

Each point kills once, at a hit that is drawn; more kills draw each point again, in
another cluster. A few of them meet in one job. After each job: it has succeeded, each
stripe has each push once, in memory and in the last generation, nothing is lost, and all
checksums hold. Last line: `kill_points: N passed, N failed, N skipped`; exit 1 if any
failed or none ran.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import deaths  # noqa: E402
import local_cluster  # noqa: E402
from checks import Checks  # noqa: E402
from deaths import PATIENCE_S, SHARDS  # noqa: E402

# Steps of writing come often.
JOB = deaths.JOB.replace("every_seconds: 1 ", "every_seconds: 0.2 ")
# How long a job trains for each kill: about twice what a death takes with its recovery.
# On a slower machine a point may not be reached; then the job is run again.
SECONDS_EACH = 1.0
TRIES = 4
NOT_REACHED = 3  # exit code
# A point kills at a hit from 1 to this one, by the beginning of its name. A shard that
# writes has all steps of writing behind it by the third generation.
MOST_HITS = {"push": 300, "checkpoint": 2, "journal": 10, "worker.before_report": 10,
             "worker": 200}
# Points of a start come after another death.
OTHER_DEATH = {"epoch": "push.applied", "restore": "push.acknowledged"}
# Deletion is that of an older generation, so a job has some before it.
POINTS_OF_A_JOB = 3


def known_points(bin_dir):
    """All fail points, as a program itself tells them; none: it has none."""
    program = pathlib.Path(bin_dir) / local_cluster.COORDINATOR
    answer = subprocess.run([program, "version"], capture_output=True, text=True,
                            env={**os.environ, "MONSOON_FAIL_POINTS": "?"}, check=False)
    return re.findall(r"^  (\S+)", answer.stderr, re.MULTILINE) if answer.returncode == 2 else []


def kind_of(point):
    return point.split(".")[0]


def plan(points):
    """The points of each job: [[point]]."""
    jobs = []
    rest = []
    by_kind = collections.defaultdict(list)
    for point in points:
        by_kind[kind_of(point)].append(point)
    for kind, of_kind in by_kind.items():
        if kind in OTHER_DEATH:
            jobs += [[OTHER_DEATH[kind], point] for point in of_kind]
        elif kind in ("slice", "worker"):  # of a job's beginning; no shard may die with a worker
            jobs.append(of_kind)
        else:
            rest += [point for point in of_kind if point not in OTHER_DEATH.values()]
    # The coordinator's beside those of shards.
    rest.sort(key=lambda point: kind_of(point) == "journal")
    count = -(-len(rest) // POINTS_OF_A_JOB)
    jobs += [rest[i::count] for i in range(count)]
    return jobs


def draw_hits(points, draw):
    """{point: the hit at which it kills}"""
    hits = {}
    for point in points:
        most = [value for begin, value in MOST_HITS.items() if point.startswith(begin)]
        hits[point] = draw.randint(1, most[0] if most else 1)
    return hits


class Run:
    """One cluster in which each point kills once."""

    def __init__(self, checks, arguments, hits, folder):
        self._checks = checks
        self._folder = pathlib.Path(folder)
        self._tokens = self._folder / "tokens"
        self._tokens.mkdir()
        self._counts = self._folder / "counts"
        self._job_file = self._folder / "tiny.textproto"
        self._job_file.write_text(JOB)
        self._pushes = {}  # by job
        self.cluster = local_cluster.LocalCluster(
            ps=SHARDS, workers=2, bin_dir=arguments.bin,
            # The deaths are ours, many in a row.
            extra_flags=["--restart_backoff=0.05", "--restart_limit=0"],
            environment={
                "MONSOON_TRANSPORT": arguments.transport,
                "MONSOON_FAIL_POINTS": ",".join(f"{p}=kill@{n}" for p, n in hits.items()),
                "MONSOON_FAIL_POINTS_TOKENS": str(self._tokens),
                "MONSOON_FAIL_POINTS_COUNT": str(self._counts),
            })

    def kill_at(self, points):
        """Jobs until each of `points` has killed."""
        left = list(points)
        for _ in range(TRIES):
            if left:
                self._run_job(left)
                left = [point for point in left if (self._tokens / point).exists()]
        self._checks.check(f"a kill at each of {points}", not left, f"not reached: {left}")
        for point in left:
            (self._tokens / point).unlink()

    def _run_job(self, points):
        check = self._checks.check
        what = ", ".join(points)
        began = time.monotonic()
        for point in points:
            (self._tokens / point).touch()
        workers_die = any(kind_of(point) == "worker" for point in points)
        settings = {"stop.seconds": SECONDS_EACH * len(points)}
        if workers_die:  # with no push under way while another one is made
            settings["downpour.overlap"] = "NONE"
        job = self.cluster.submit(self._job_file, settings)
        watched = self._ask("watch", job)
        described = self._describe(job)
        check(f"{what}: the job succeeds", watched.returncode == 0 and
              described["state"] == "SUCCEEDED", (watched.returncode, described["reason"]))
        durability = described["durability"]
        check(f"{what}: promise", durability["promise"] == "exactly_once", durability)
        check(f"{what}: nothing is lost", not durability.get("lost"), durability)
        versions = {shard[key] for shard in described["shards"]
                    for key in ("version_min", "version_max")}
        pushes = described["counts"]["pushes"]
        # What a worker has not told before it died, it has pushed all the same; the sum is
        # compared at the end.
        right = len(versions) == 1 and (workers_die or versions == {pushes})
        check(f"{what}: each stripe has each push once", right, (versions, pushes))
        self._pushes[job] = max(versions)
        self._inspect(what, job)
        deaths = [point for point in points if not (self._tokens / point).exists()]
        print(f"  {time.monotonic() - began:5.1f} s, {len(deaths)} kills, {max(versions)} pushes: "
              f"{what}", flush=True)

    def _ask(self, verb, *arguments):
        """A command's result; asked again while the coordinator is not there."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = self.cluster.command(verb, *arguments, check=False, timeout=2 * PATIENCE_S)
            if answer.returncode != NOT_REACHED or time.monotonic() > deadline:
                return answer
            time.sleep(0.02)

    def _describe(self, job):
        return json.loads(self._ask("describe", job, "--json").stdout)

    def _inspect(self, what, job):
        pushes = self._pushes[job]
        answer = self._ask("inspect", job, "--json")
        report = json.loads(answer.stdout) if answer.returncode in (0, 5) else {}
        self._checks.check(f"{what}: all checksums hold", answer.returncode == 0 and report["ok"],
                           (answer.returncode, answer.stderr))
        newest = (report.get("generations") or [{}])[0]
        versions = {part[key] for part in newest.get("parts", [])
                    for key in ("version_min", "version_max")}
        self._checks.check(f"{what}: the last generation has all pushes",
                           newest.get("complete") and versions == {pushes}, (newest, pushes))

    def check_ended_jobs(self):
        """Deaths since their ends have cost them nothing."""
        for job, pushes in self._pushes.items():
            self._inspect(f"{job} at the end", job)
            described = self._describe(job)
            versions = {shard[key] for shard in described["shards"]
                        for key in ("version_min", "version_max")}
            self._checks.check(f"{job} at the end: its stripes are as they were",
                               versions == {pushes}, (versions, pushes))

    def check_counts(self, points):
        """Once all processes have ended."""
        hits = collections.Counter()
        for line in self._counts.read_text().splitlines():
            point, count = line.split()
            hits[point] += int(count)
        missed = [point for point in points if hits[point] == 0]
        self._checks.check("each point was reached", not missed, missed)
        # Of all lives of the workers, to the last hit of those that were killed.
        self._checks.check("all workers together have pushed what the stripes have",
                           hits["worker.pushed"] == sum(self._pushes.values()),
                           (hits["worker.pushed"], self._pushes))


def run(checks, arguments, points, seed):
    hits = draw_hits(points, random.Random(seed))
    print(f"seed {seed}: " + ", ".join(f"{point}@{count}" for point, count in hits.items()))
    with tempfile.TemporaryDirectory(prefix="monsoon-") as folder:
        one = Run(checks, arguments, hits, folder)
        with one.cluster:
            for job in plan(points):
                one.kill_at(job)
            one.check_ended_jobs()
            # In order, so that all leave their counts.
            one.cluster.stop()
            one.check_counts(points)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default=str(local_cluster.BIN))
    parser.add_argument("--transport", default="auto")
    parser.add_argument("--kills", type=int, default=0,
                        help="at least; by default one at each point")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    points = known_points(arguments.bin)
    if not points:
        print(f"kill_points.py: the programs in {arguments.bin} have no fail points: build them "
              "with --config=opt --config=failpoints", file=sys.stderr)
        return 2
    checks = Checks("kill_points")
    for round_number in range(max(1, -(-arguments.kills // len(points)))):
        run(checks, arguments, points, arguments.seed + round_number)
    return checks.summary()


if __name__ == "__main__":
    sys.exit(main())
