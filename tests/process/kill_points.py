"""Kills parameter servers, workers and the coordinator at named points of their code
(common/base/fail_point.h), with programs of --config=failpoints as a user runs them:
`coordinator up` starts what has died, and nothing is lost or counted twice.

Under Downpour jobs and under batch jobs (killed_jobs.py). Of each kind a quiet job comes
first, and then the cluster's new start: the points at which it counts hits are those that
such a job reaches, and the others are left out. Each of them kills once under jobs of that
kind, at a hit that is drawn; more kills draw each point again, in another cluster. A few
of them meet in one job. After each job: it has succeeded by itself, nothing is lost, and
all checksums hold. Of Downpour, each stripe has each push once, in memory and in the last
generation; a batch has the iterations, the end and the bits of the quiet job.
A seed draws the same hits for --points, names or their beginnings, as for all.
"""

import collections
import json
import pathlib
import random
import subprocess
import tempfile
import time

from tests.process.deaths import SHARDS
from tests.process.killed_jobs import BatchJobs, DownpourJobs, SynchronousJobs
from tests.process.options import add_transport
from tests.tools import fail_points
from tests.tools.checks import Unusable
from tests.tools.fail_points import family_of
from tests.tools.local_cluster import PATIENCE_S, UNREACHABLE, LocalCluster, poll
from tests.tools.printing import print_events

KINDS = (DownpourJobs, BatchJobs, SynchronousJobs)
# On a slower machine a point may not be reached; then the job is run again.
TRIES = 4
# A point kills at a hit from 1 to this one, by the beginning of its name. A shard that
# writes has all steps of writing behind it by the third generation.
MOST_HITS = {"push": 300, "checkpoint": 2, "journal": 10, "worker.before_report": 10,
             "worker": 200, "vector": 30, "contribution": 60, "batch.evaluated": 5,
             "batch.iterated": 5, "member.begins": 1, "member.shared": 1, "member.copied": 2,
             "member.before_seal": 2, "member.sealed": 2, "member": 400, "collective": 800,
             "state": 4}
OF_COORDINATOR = ("journal", "batch")


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


class PatientCluster(LocalCluster):
    """Its coordinator and its shards may be away for a while."""

    def ask(self, verb, *arguments):
        """A command's result; asked again while somebody is not there."""
        answer = None

        def answered():
            nonlocal answer
            answer = self.command(verb, *arguments, check=False, timeout=2 * PATIENCE_S)
            return answer.returncode != UNREACHABLE

        try:
            poll(answered)
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"{verb} {arguments} does not end:\n"
                               f"{self.end_of_log()}") from error
        return answer

    def describe(self, job):
        answer = self.ask("describe", job, "--json")
        if answer.returncode != 0:
            raise RuntimeError(f"describe {job} gave {answer.returncode}: {answer.stderr}")
        return json.loads(answer.stdout)


class Run:
    """Jobs of one kind on one cluster."""

    def __init__(self, checks, options, kind, folder, hits=None, seed=0, quiet=None):
        """Each point kills once, at its hit of `hits`; without any, the run is quiet."""
        self._checks = checks
        self._kind = kind
        self._seed = seed
        folder = pathlib.Path(folder)
        self._counts = folder / "counts"
        self._job_file = folder / "tiny.textproto"
        self._job_file.write_text(kind.text)
        environment = {"MONSOON_TRANSPORT": options.transport,
                       "MONSOON_FAIL_POINTS_COUNT": str(self._counts)}
        flags = []
        self._kills = fail_points.Kills(folder, hits) if hits else None
        if hits:
            environment.update(self._kills.environment)
            # The deaths are ours, many in a row.
            flags = ["--restart_backoff=0.05", "--restart_limit=0", *kind.flags]
        self.cluster = PatientCluster(ps=SHARDS, workers=2, bin_dir=options.bin,
                                      extra_flags=flags, environment=environment)
        self._jobs = kind(checks, self.cluster, quiet)

    def run_quietly(self):
        """One job, and the cluster's new start; (what is to be known of it, the hits)."""
        with self.cluster:
            job = self.cluster.run(self._job_file, self._kind.quiet_settings)["job"]
            reference = self._jobs.reference(job)
            self.cluster.stop()
            self.cluster.start()
            if not poll(lambda: len(self.cluster.describe(job)["shards"]) == SHARDS):
                raise RuntimeError(f"{job} does not come back: {self.cluster.describe(job)}")
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
                left = [point for point in left if self._kills.is_armed(point)]
                moment = None  # so that they are reached now
        self._checks.check(f"a kill at each of {points}", not left, f"not reached: {left}")
        for point in left:
            self._kills.disarm(point)

    def _arm(self, points):
        for point in points:
            self._kills.arm(point)

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
        deaths = [point for point in points if not self._kills.is_armed(point)]
        print(f"  {time.monotonic() - began:5.1f} s, {len(deaths)} kills, {done}: {what}",
              flush=True)
        if self._checks.failed > failed:
            print_events(self.cluster.describe(job))
            print(self.cluster.end_of_log(), flush=True)

    def _hits(self):
        """Of all processes, once they have ended."""
        hits = collections.Counter()
        for line in self._counts.read_text().splitlines():
            point, count = line.split()
            hits[point] += int(count)
        return hits


def be_quiet(checks, options, kind, known):
    """(The points that such jobs reach, what the quiet one came to)"""
    with tempfile.TemporaryDirectory(prefix="monsoon-") as folder:
        reference, hits = Run(checks, options, kind, folder).run_quietly()
    points = [point for point in known if hits[point]]
    left_out = [point for point in known if not hits[point]]
    print(f"{kind.name} jobs reach {len(points)} points, and not "
          f"{', '.join(left_out) or 'none'}")
    # Else the quiet job is too short, or a point is at a place that nobody reaches.
    parts = {family_of(point) for point in points} & {family_of(point) for point in left_out}
    checks.check(f"{kind.name} jobs reach all of a family or none of it", not parts, left_out)
    return points, reference


def kill_at_points(checks, options, kind, reached, reference, seed):
    """How many kills it has made."""
    hits = draw_hits(reached, random.Random(seed))
    jobs = plan(kind, reached, [point for point in reached if point in options.points])
    hits = {point: hits[point] for point in reached if any(point in job for job in jobs)}
    print(f"{kind.name}, seed {seed}: " +
          ", ".join(f"{point}@{count}" for point, count in hits.items()))
    try:
        with tempfile.TemporaryDirectory(prefix="monsoon-") as folder:
            Run(checks, options, kind, folder, hits, seed, reference).kill_at_all(jobs)
    except RuntimeError as error:
        checks.check(f"{kind.name}, seed {seed}", False, error)
    return len(hits)


def add_options(parser):
    add_transport(parser)
    parser.add_argument("--jobs", choices=["all", *(kind.name for kind in KINDS)], default="all")
    parser.add_argument("--kills", type=int, default=0,
                        help="at least; by default one at each point under each kind of job")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--points", default="", help="only those whose names begin so")


def run(checks, options):
    # The others, of jobs whose programs bring the model, are killed_programs.py's.
    known = [point for point in fail_points.known_points(options.bin)
             if family_of(point) not in fail_points.OF_PROGRAMS]
    if not known:
        raise Unusable(f"the programs in {options.bin} have no fail points: {fail_points.BUILD}")
    begins = tuple(options.points.split(","))
    options.points = [point for point in known if point.startswith(begins)]
    if not options.points:
        raise Unusable(f"--points: no point's name begins with any of {begins}")
    kinds = [kind for kind in KINDS if options.jobs in ("all", kind.name)]
    quiet = {kind: be_quiet(checks, options, kind, known) for kind in kinds}
    if options.jobs == "all":
        unused = set(known).difference(*(points for points, _ in quiet.values()))
        checks.check("each point is reached by some kind of job", not unused, unused)
    kills = 0
    seed = options.seed
    while seed == options.seed or 0 < kills < options.kills:
        for kind, (reached, reference) in quiet.items():
            if set(reached) & set(options.points):
                kills += kill_at_points(checks, options, kind, reached, reference, seed)
        seed += 1
