"""The jobs that kill_points.py runs, by kind: what such a job is, and what must hold of one
under which processes have died."""

import json

from tests.process import batch_deaths, deaths
from tests.tools.local_cluster import poll


class Jobs:
    """Jobs of one kind on one cluster (a kill_points.PatientCluster)."""

    name = ""  # for --jobs
    text = ""  # the job file
    flags = ()  # of a cluster on which processes die
    quiet_settings = {}
    # Points of a start come after another death: at the first of these that such a job
    # reaches.
    other_deaths = {}
    # Deletion is that of an older generation, so a job has some before it.
    points_of_a_job = 3

    def __init__(self, checks, cluster, quiet):
        """`quiet`: what the quiet job came to; None for that one."""
        self._check = checks.check
        self._cluster = cluster
        self._quiet = quiet

    def reference(self, job):
        """What is to be known of the quiet job."""

    def settings(self, points):
        """Of a job in which each of `points` is to kill."""
        return {}

    def draw_moment(self, points, draw):
        """When the points begin to be dangerous, for await_moment; None: at once."""
        return None

    def await_moment(self, job, moment):
        """Returns when `job` has come so far, or has ended."""

    def check(self, what, job, points, described):
        """The job has ended; what is to be told of it."""
        durability = described["durability"]
        self._check(f"{what}: the job succeeds", described["state"] == "SUCCEEDED",
                    described["reason"])
        self._check(f"{what}: promise", durability["promise"] == "exactly_once", durability)
        self._check(f"{what}: nothing is lost", not durability.get("lost"), durability)
        return self._check_more(what, job, points, described)

    def check_at_end(self):
        """Deaths since the jobs' ends have cost them nothing."""

    def check_counts(self, hits):
        """Of all processes, once they have ended."""

    def _newest_generation(self, what, job):
        answer = self._cluster.ask("inspect", job, "--json")
        report = json.loads(answer.stdout) if answer.returncode in (0, 5) else {}
        self._check(f"{what}: all checksums hold", answer.returncode == 0 and report["ok"],
                    (answer.returncode, answer.stderr))
        newest = (report.get("generations") or [{}])[0]
        self._check(f"{what}: the last generation is whole", newest.get("complete"), newest)
        return newest


def versions_of(parts):
    return {part[key] for part in parts for key in ("version_min", "version_max")}


class DownpourJobs(Jobs):
    """Each stripe has each push once, in memory and in the last generation."""

    name = "downpour"
    # Steps of writing come often.
    text = deaths.JOB.replace("every_seconds: 1 ", "every_seconds: 0.2 ")
    quiet_settings = {"stop.seconds": 1.5}
    other_deaths = {"epoch": ["push.applied"], "restore": ["push.acknowledged"]}
    # How long a job trains for each kill: about twice what a death takes with its recovery.
    SECONDS_EACH = 1.0

    def __init__(self, checks, cluster, quiet):
        super().__init__(checks, cluster, quiet)
        self._pushes = {}  # by job

    def settings(self, points):
        settings = {"stop.seconds": self.SECONDS_EACH * len(points)}
        if self._workers_die(points):  # with no push under way while another one is made
            settings["downpour.overlap"] = "NONE"
        return settings

    def _workers_die(self, points):
        return any(point.startswith("worker.") for point in points)

    def _check_more(self, what, job, points, described):
        versions = versions_of(described["shards"])
        pushes = described["counts"]["pushes"]
        # What a worker has not told before it died, it has pushed all the same; the sum is
        # compared at the end.
        right = len(versions) == 1 and (self._workers_die(points) or versions == {pushes})
        self._check(f"{what}: each stripe has each push once", right, (versions, pushes))
        self._pushes[job] = max(versions, default=0)
        self._inspect(what, job)
        return f"{self._pushes[job]} pushes"

    def _inspect(self, what, job):
        pushes = self._pushes[job]
        newest = self._newest_generation(what, job)
        self._check(f"{what}: the last generation has all pushes",
                    versions_of(newest.get("parts", [])) == {pushes}, (newest, pushes))

    def check_at_end(self):
        for job, pushes in self._pushes.items():
            self._inspect(f"{job} at the end", job)
            versions = versions_of(self._cluster.describe(job)["shards"])
            self._check(f"{job} at the end: its stripes are as they were", versions == {pushes},
                        (versions, pushes))

    def check_counts(self, hits):
        # Of all lives of the workers, to the last hit of those that were killed.
        self._check("all workers together have pushed what the stripes have",
                    hits["worker.pushed"] == sum(self._pushes.values()),
                    (hits["worker.pushed"], self._pushes))


class SynchronousJobs(Jobs):
    """Each batch is in one step, and all shards store the last one."""

    name = "synchronous"
    # Longer than a few generations take: the oldest is deleted.
    EPOCHS, PER_EPOCH = 60, 400
    text = deaths.JOB.replace("every_seconds: 1 ", "every_seconds: 0.2 ") + (
        f"synchronous {{ reduce: RING }} stop {{ epochs: {EPOCHS} }}")
    other_deaths = {"epoch": ["state.staged"], "restore": ["state.adopted"]}

    def _check_more(self, what, job, points, described):
        step = described["progress"]["step"]
        self._check(f"{what}: each batch is in one step", step == self.EPOCHS * self.PER_EPOCH,
                    (step, self.EPOCHS * self.PER_EPOCH))
        updates = described["synchronous"]["updates"]
        self._check(f"{what}: all shards store the last step",
                    versions_of(described["shards"]) == {updates}, (described["shards"], updates))
        newest = self._newest_generation(what, job)
        self._check(f"{what}: the last generation has it",
                    versions_of(newest.get("parts", [])) == {updates}, (newest, updates))
        return f"{updates} updates"


class BatchJobs(Jobs):
    """The same bits, iterations and end as of the quiet job, in memory and on the disk."""

    name = "batch"
    text = batch_deaths.JOB.replace("every_seconds: 0.3 ", "every_seconds: 0.2 ")
    # Far longer than a generation, on any machine.
    flags = (batch_deaths.DELAY,)
    ITERATIONS = 15
    quiet_settings = {"sandblaster.max_iterations": ITERATIONS}
    other_deaths = {"epoch": ["contribution.added", "checkpoint.part_half_written"],
                    "restore": ["vector.applied", "checkpoint.manifest_renamed"]}
    points_of_a_job = 5  # each death makes it longer

    def __init__(self, checks, cluster, quiet):
        super().__init__(checks, cluster, quiet)
        self._ended = []

    def reference(self, job):
        return self._result(job, self._cluster.describe(job))

    def settings(self, points):
        return self.quiet_settings

    def draw_moment(self, points, draw):
        """An iteration: else the end, with its generations, were behind all hits."""
        families = {point.split(".")[0] for point in points}
        if "slice" in families or (families.isdisjoint(self.other_deaths) and draw.random() < 0.5):
            return None
        return draw.randint(1, self.ITERATIONS - 1)

    def await_moment(self, job, moment):
        def came():
            described = self._cluster.describe(job)
            iteration = (described["sandblaster"] or {}).get("iteration", 0)  # or not begun
            return described["state"] not in ("PENDING", "RUNNING") or iteration >= moment

        poll(came)

    def _bits(self, job):
        path = self._cluster.path.parent / f"{job}.safetensors"
        answer = self._cluster.ask("export", job, f"--out={path}")
        return path.read_bytes() if answer.returncode == 0 else answer.stderr

    def _result(self, job, described):
        if described["sandblaster"] is None:  # it has failed before
            return {"iterations": [], "end": "", "bits": b""}
        return {"iterations": batch_deaths.trace(described),
                "end": described["sandblaster"]["end_reason"], "bits": self._bits(job)}

    def _check_more(self, what, job, points, described):
        result = self._result(job, described)
        for key, expected in self._quiet.items():
            self._check(f"{what}: the same {key}", result[key] == expected,
                        different(result[key], expected))
        self._newest_generation(what, job)
        self._ended.append(job)
        returns = [event for event in described["events"] if event["kind"] == "batch_returned"]
        return f"{len(returns)} returns"

    def check_at_end(self):
        for job in self._ended:
            self._newest_generation(f"{job} at the end", job)
            self._check(f"{job} at the end: the same bits",
                        self._bits(job) == self._quiet["bits"])


def different(seen, expected):
    """Short, of two lists or two files."""
    if not isinstance(seen, (list, bytes)):
        return seen
    pairs = [(i, a, b) for i, (a, b) in enumerate(zip(seen, expected)) if a != b]
    return f"{len(seen)} of {len(expected)}, {len(pairs)} of them differ: {pairs[:2]}"
