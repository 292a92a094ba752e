#!/usr/bin/python3
"""Kills parameter servers, workers and the coordinator at named points of their code
(common/base/fail_point.h), with programs of --config=failpoints as a user runs them:
`coordinator up` starts what has died, and nothing is lost or counted twice.

    kill_points.py --bin=DIR [--transport=auto|grpc|shared_memory] [--jobs=all|downpour|batch]
                   [--kills=N] [--seed=N] [--points=BEGIN[,BEGIN]]

Under Downpour jobs and under batch jobs (killed_jobs.py). Of each kind a quiet job comes
first, and then the cluster's new start: the points at which it counts hits are those that
such a job reaches, and the others are left out. Each of them kills once under jobs of that
kind, at a hit that is drawn; more kills draw each point again, in another cluster. A few
of them meet in one job. After each job: it has succeeded by itself, nothing is lost, and
all checksums hold. Of Downpour, each stripe has each push once, in memory and in the last
generation; a batch has the iterations, the end and the bits of the quiet job.
A seed draws the same hits for --points, names or their beginnings, as for all.
Last line: `kill_points: N passed, N failed, N skipped`; exit 1 if any failed or none ran.
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
import local_cluster  # noqa: E402
from checks import Checks  # noqa: E402
from deaths import PATIENCE_S, SHARDS  # noqa: E402
from killed_jobs import BatchJobs, DownpourJobs  # noqa: E402

KINDS = (DownpourJobs, BatchJobs)
# On a slower machine a point may not be reached; then the job is run again.
TRIES = 4
NOT_REACHED = 3  # exit code
# A point kills at a hit from 1 to this one, by the beginning of its name. A shard that
# writes has all steps of writing behind it by the third generation.
MOST_HITS = {"push": 300, "checkpoint": 2, "journal": 10, "worker.before_report": 10,
             "worker": 200, "vector": 30, "contribution": 60, "batch.evaluated": 5,
             "batch.iterated": 5}
OF_COORDINATOR = ("journal", "batch")
# Of jobs whose programs bring the model: tests/program/killed_programs.py kills there.
OF_PROGRAMS = ("initial", "write", "rows")


def known_points(bin_dir):
    """All fail points, as a program itself tells them; none: it has none."""
    program = pathlib.Path(bin_dir) / local_cluster.COORDINATOR
    answer = subprocess.run([program, "version"], capture_output=True, text=True,
                            env={**os.environ, "MONSOON_FAIL_POINTS": "?"}, check=False)
    return re.findall(r"^  (\S+)", answer.stderr, re.MULTILINE) if answer.returncode == 2 else []


def family_of(point):
    return point.split(".")[0]


def plan(kind, reached, points):
    """Of `points`, those of each job, with the other deaths that they need: [[point]]."""
    by_family = collections.defaultdict(list)
    for point in points:
        by_family[family_of(point)].append(point)
    other_deaths = {family: next(point for point in others if point in reached)
                    for family, others in kind.other_deaths.items() if family in by_family}
    jobs = []
    rest = []
    for family, of_family in by_family.items():
        if family in other_deaths:
            jobs += [[other_deaths[family], point] for point in of_family]
        elif family in ("slice", "worker"):  # of a job's beginning; no shard may die with a worker
            jobs.append(of_family)
        else:
            rest += [point for point in of_family if point not in other_deaths.values()]
    # The coordinator's beside those of shards.
    rest.sort(key=lambda point: family_of(point) in OF_COORDINATOR)
    count = -(-len(rest) // kind.points_of_a_job)
    jobs += [rest[i::count] for i in range(count)]
    return jobs


def draw_hits(points, draw):
    """{point: the hit at which it kills}"""
    hits = {}
    for point in points:
        most = [value for begin, value in MOST_HITS.items() if point.startswith(begin)]
        hits[point] = draw.randint(1, most[0] if most else 1)
    return hits


class PatientCluster(local_cluster.LocalCluster):
    """Its coordinator and its shards may be away for a while."""

    def ask(self, verb, *arguments):
        """A command's result; asked again while somebody is not there."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                answer = self.command(verb, *arguments, check=False, timeout=2 * PATIENCE_S)
            except subprocess.TimeoutExpired as error:
                raise RuntimeError(f"{verb} {arguments} does not end:\n"
                                   f"{self.end_of_log()}") from error
            if answer.returncode != NOT_REACHED or time.monotonic() > deadline:
                return answer
            time.sleep(0.02)

    def describe(self, job):
        answer = self.ask("describe", job, "--json")
        if answer.returncode != 0:
            raise RuntimeError(f"describe {job} gave {answer.returncode}: {answer.stderr}")
        return json.loads(answer.stdout)

    def end_of_log(self):
        lines = self.log_path.read_text().splitlines()
        return "\n".join([line for line in lines if "At step" not in line][-60:])


class Run:
    """Jobs of one kind on one cluster."""

    def __init__(self, checks, arguments, kind, folder, hits=None, seed=0, quiet=None):
        """Each point kills once, at its hit of `hits`; without any, the run is quiet."""
        self._checks = checks
        self._kind = kind
        self._seed = seed
        folder = pathlib.Path(folder)
        self._tokens = folder / "tokens"
        self._tokens.mkdir()
        self._counts = folder / "counts"
        self._job_file = folder / "tiny.textproto"
        self._job_file.write_text(kind.text)
        environment = {"MONSOON_TRANSPORT": arguments.transport,
                       "MONSOON_FAIL_POINTS_COUNT": str(self._counts)}
        flags = []
        if hits:
            environment["MONSOON_FAIL_POINTS"] = ",".join(f"{p}=kill@{n}" for p, n in hits.items())
            environment["MONSOON_FAIL_POINTS_TOKENS"] = str(self._tokens)
            # The deaths are ours, many in a row.
            flags = ["--restart_backoff=0.05", "--restart_limit=0", *kind.flags]
        self.cluster = PatientCluster(ps=SHARDS, workers=2, bin_dir=arguments.bin,
                                      extra_flags=flags, environment=environment)
        self._jobs = kind(checks, self.cluster, quiet)

    def run_quietly(self):
        """One job, and the cluster's new start; (what is to be known of it, the hits)."""
        with self.cluster:
            job = self.cluster.run(self._job_file, self._kind.quiet_settings)["job"]
            reference = self._jobs.reference(job)
            self.cluster.stop()
            self.cluster.start()
            deadline = time.monotonic() + PATIENCE_S
            while len(self.cluster.describe(job)["shards"]) < SHARDS:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{job} does not come back: {self.cluster.describe(job)}")
                time.sleep(0.02)
            self.cluster.stop()
        return reference, self._hits()

    def kill_at_all(self, jobs):
        """`jobs` as of plan()."""
        with self.cluster:
            for points in jobs:
                self._kill_at(points)
            self._jobs.check_at_end()
            # In order, so that all leave their counts.
            self.cluster.stop()
            hits = self._hits()
            missed = {point for points in jobs for point in points if hits[point] == 0}
            self._checks.check("each point was reached", not missed, missed)
            self._jobs.check_counts(hits)

    def _kill_at(self, points):
        """Jobs until each of `points` has killed."""
        left = list(points)
        moment = self._jobs.draw_moment(points, random.Random(f"{self._seed} {points}"))
        for _ in range(TRIES):
            if left:
                self._run_job(left, moment)
                left = [point for point in left if (self._tokens / point).exists()]
                moment = None  # so that they are reached now
        self._checks.check(f"a kill at each of {points}", not left, f"not reached: {left}")
        for point in left:
            (self._tokens / point).unlink()

    def _arm(self, points):
        for point in points:
            (self._tokens / point).touch()

    def _run_job(self, points, moment):
        what = ", ".join(points) + (f" from {moment}" if moment is not None else "")
        failed = self._checks.failed
        began = time.monotonic()
        if moment is None:
            self._arm(points)
        job = self.cluster.submit(self._job_file, self._jobs.settings(points))
        if moment is not None:
            self._jobs.await_moment(job, moment)
            self._arm(points)
        watched = self.cluster.ask("watch", job)
        self._checks.check(f"{what}: watch ends with the job's code", watched.returncode == 0,
                           (watched.returncode, watched.stderr[-1000:]))
        done = self._jobs.check(what, job, points, self.cluster.describe(job))
        deaths = [point for point in points if not (self._tokens / point).exists()]
        print(f"  {time.monotonic() - began:5.1f} s, {len(deaths)} kills, {done}: {what}",
              flush=True)
        if self._checks.failed > failed:
            for event in self.cluster.describe(job)["events"]:
                print(f"    {event['elapsed_s']:.3f} {event['kind']} {event['task']} "
                      f"{event['text']}")
            print(self.cluster.end_of_log(), flush=True)

    def _hits(self):
        """Of all processes, once they have ended."""
        hits = collections.Counter()
        for line in self._counts.read_text().splitlines():
            point, count = line.split()
            hits[point] += int(count)
        return hits


def be_quiet(checks, arguments, kind, known):
    """(The points that such jobs reach, what the quiet one came to)"""
    with tempfile.TemporaryDirectory(prefix="monsoon-") as folder:
        reference, hits = Run(checks, arguments, kind, folder).run_quietly()
    points = [point for point in known if hits[point]]
    left_out = [point for point in known if not hits[point]]
    print(f"{kind.name} jobs reach {len(points)} points, and not "
          f"{', '.join(left_out) or 'none'}")
    # Else the quiet job is too short, or a point is at a place that nobody reaches.
    parts = {family_of(point) for point in points} & {family_of(point) for point in left_out}
    checks.check(f"{kind.name} jobs reach all of a family or none of it", not parts, left_out)
    return points, reference


def run(checks, arguments, kind, reached, reference, seed):
    hits = draw_hits(reached, random.Random(seed))
    jobs = plan(kind, reached, [point for point in reached if point in arguments.points])
    hits = {point: hits[point] for point in reached if any(point in job for job in jobs)}
    print(f"{kind.name}, seed {seed}: " +
          ", ".join(f"{point}@{count}" for point, count in hits.items()))
    try:
        with tempfile.TemporaryDirectory(prefix="monsoon-") as folder:
            Run(checks, arguments, kind, folder, hits, seed, reference).kill_at_all(jobs)
    except RuntimeError as error:
        checks.check(f"{kind.name}, seed {seed}", False, error)
    return len(hits)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default=str(local_cluster.BIN))
    parser.add_argument("--transport", default="auto")
    parser.add_argument("--jobs", choices=["all", *(kind.name for kind in KINDS)], default="all")
    parser.add_argument("--kills", type=int, default=0,
                        help="at least; by default one at each point under each kind of job")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--points", default="", help="only those whose names begin so")
    arguments = parser.parse_args()
    known = [point for point in known_points(arguments.bin)
             if family_of(point) not in OF_PROGRAMS]
    if not known:
        print(f"kill_points.py: the programs in {arguments.bin} have no fail points: build them "
              "with --config=opt --config=failpoints", file=sys.stderr)
        return 2
    begins = tuple(arguments.points.split(","))
    arguments.points = [point for point in known if point.startswith(begins)]
    if not arguments.points:
        print(f"kill_points.py: --points: no point's name begins with any of {begins}",
              file=sys.stderr)
        return 2
    checks = Checks("kill_points")
    kinds = [kind for kind in KINDS if arguments.jobs in ("all", kind.name)]
    quiet = {kind: be_quiet(checks, arguments, kind, known) for kind in kinds}
    if arguments.jobs == "all":
        unused = set(known).difference(*(points for points, _ in quiet.values()))
        checks.check("each point is reached by some kind of job", not unused, unused)
    kills = 0
    seed = arguments.seed
    while seed == arguments.seed or 0 < kills < arguments.kills:
        for kind, (reached, reference) in quiet.items():
            if set(reached) & set(arguments.points):
                kills += run(checks, arguments, kind, reached, reference, seed)
        seed += 1
    return checks.summary()


if __name__ == "__main__":
    sys.exit(main())
