"""Clusters over several machines, which are network namespaces here (tests/tools/machines.py): what
README.md and docs/python.md say of them, word by word, and a worker that loses one shard while it
reaches all others.
"""

import json
import os
import pathlib
import re
import subprocess
import tempfile

from tests.tools import machines
from tests.tools.local_cluster import PATIENCE_S, end, poll
from tests.tools.programs import program_environment
from tests.tools.tiny_job import tiny_job

ROOT = pathlib.Path(__file__).resolve().parents[2]
SETTINGS = "heartbeat_ms: 100\nlost_after_ms: 1500\n"
SPREAD = """
coordinator { address: "alpha:2221" }
ps { address: "alpha:2222" }
ps { address: "gamma:2222" }
worker { address: "alpha:2301" device: CPU threads: 1 }
worker { address: "beta:2301" device: CPU threads: 1 }
""" + SETTINGS
JOB = tiny_job(units=200, more="""
batch_size: 10
stripe_kib: 4
downpour { optimizer { adagrad { rate: 0.02 } } workers: 2 }
checkpoint { every_seconds: 1 }
""")
# Each worker has so many between two faults.
STEPS_BETWEEN = 300
STEPS = 60000
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")


def section(page, title):
    """Of a page of the documentation, with its lines joined."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#|\Z)", text, re.M | re.S)
    return found.group(1)


def words(text, command):
    """The words of the code span that begins with `command`."""
    prose = re.sub(r"```.*?```", "", text, flags=re.S).replace("\n", " ")
    spans = re.findall(r"`([^`]+)`", prose)
    return next(span for span in spans if span.startswith(command)).split()


class Cluster:
    """The programs of one cluster, on their machines; each has a copy of the file and a state
    folder."""

    def __init__(self, options, all_machines, text):
        self._machines, self._bin = all_machines, pathlib.Path(options.bin)
        self._folder = tempfile.TemporaryDirectory(prefix="monsoon-")
        self._running = []
        for name in all_machines.names:
            own = pathlib.Path(self._folder.name) / name
            own.mkdir()
            (own / "cluster.textproto").write_text(text)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.stop()
        self._folder.cleanup()

    def stop(self):
        """Ends all programs."""
        end(*reversed(self._running))
        self._running = []

    def call(self, name, command):
        """The command as the page has it, of the file's copy there, and its environment."""
        program, *rest = command
        path = self._bin / {"monsoon": "coordinator"}.get(program, program)
        path = path / path.name
        rest = [word.replace("FILE", "cluster.textproto") for word in rest]
        own = pathlib.Path(self._folder.name) / name
        environment = {**os.environ, "MONSOON_STATE_DIR": str(own / "state"),
                       "MONSOON_CREDENTIALS": str(own / "credentials")}
        return [*self._machines.on(name), "env", f"--chdir={own}", path, *rest], environment

    def folder(self, name):
        """Where the machine's programs run."""
        return pathlib.Path(self._folder.name) / name

    def write(self, name, text):
        """A file that all machines see."""
        path = pathlib.Path(self._folder.name) / name
        path.write_text(text)
        return str(path)

    def start(self, name, command):
        call, environment = self.call(name, command)
        with open(pathlib.Path(self._folder.name) / f"{name}.log", "a", encoding="utf-8") as log:
            self._running.append(subprocess.Popen(call, stdout=log, stderr=log, env=environment,
                                                  stdin=subprocess.DEVNULL))

    def run(self, name, command, check=True):
        call, environment = self.call(name, command)
        return subprocess.run(call, capture_output=True, text=True, env=environment, check=check,
                              timeout=PATIENCE_S)

    def describe(self, name, job):
        answer = self.run(name, ["coordinator", "describe", job, "--json",
                                 "--cluster=cluster.textproto"], check=False)
        return json.loads(answer.stdout) if answer.returncode == 0 else None

    def logs(self):
        return "\n".join(f"{path.name}:\n{path.read_text()[-3000:]}" for path in
                         pathlib.Path(self._folder.name).glob("*.log"))


def join(cluster, text, program, name, role, *more):
    """Lets `name` in as the page says: by the line that alpha's token is printed with."""
    create = [re.sub("--role=.*", f"--role={role}", word)
              for word in words(text, f"{program} token create")]
    line = cluster.run("alpha", create).stdout.split()
    cluster.run(name, [*line, *more])


def await_tasks(cluster, command, name, count):
    """The table, once it has so many tasks that are up."""
    def look():
        answer = cluster.run(name, command, check=False)
        return answer.stdout if len(re.findall(r"\bUP\b", answer.stdout)) == count else ""

    return poll(look)


def check_python_page(checks, options):
    text = section("docs/python.md", "From pip install to two machines")
    file = re.search(r"```text\n(coordinator.*?)```", text, re.S).group(1)
    with machines.Machines("alpha", "beta") as both, Cluster(options, both, file) as cluster:
        cluster.run("alpha", words(text, "monsoon cluster init"))
        cluster.start("alpha", words(text, "monsoon up"))
        await_tasks(cluster, words(text, "monsoon tasks"), "alpha", 2)
        join(cluster, text, "monsoon", "beta", "ps", "--task=1")
        join(cluster, text, "monsoon", "beta", "worker")
        cluster.start("beta", words(text, "monsoon up"))
        table = await_tasks(cluster, words(text, "monsoon tasks"), "beta", 3)
        checks.check("python.md: coordinator and servers are up on two machines",
                     "alpha" in table and "beta" in table, table or cluster.logs())
        ran = subprocess.run(
            [*both.on("beta"), "/usr/bin/python3", ROOT / "python/examples/mlp_numpy.py",
             "--coordinator=alpha:2221", "--steps=200"], capture_output=True, text=True,
            env={**program_environment(options.bin),
                 "MONSOON_CREDENTIALS": str(cluster.folder("beta") / "credentials")},
            timeout=PATIENCE_S, check=False)
        checks.check("python.md: a program on the other machine trains", ran.returncode == 0,
                     ran.stderr + cluster.logs())


def check_readme(checks, options):
    text = section("README.md", "On several machines")
    with machines.Machines("alpha", "beta", "gamma") as three, \
            Cluster(options, three, SPREAD) as cluster:
        table = ["coordinator", "tasks", "--cluster=cluster.textproto"]
        cluster.run("alpha", words(text, "coordinator cluster init"))
        cluster.start("alpha", words(text, "coordinator up"))
        await_tasks(cluster, table, "alpha", 3)
        join(cluster, text, "coordinator", "beta", "worker", "--task=1")
        cluster.start("beta", words(text, "coordinator up"))
        join(cluster, text, "coordinator", "gamma", "ps", "--task=1")
        by_hand = [word.replace("--task=0", "--task=1") for word in words(text, "ps_server")]
        cluster.start("gamma", by_hand)
        # As an operator; gamma's user may look as little as any worker.
        checks.check("README.md: all tasks are up on three machines",
                     await_tasks(cluster, table, "alpha", 5) != "", cluster.logs())
        lose_one_shard(checks, cluster, three)


def lose_one_shard(checks, cluster, three):
    """worker/1 on beta reaches the coordinator and ps/0 on alpha, and not ps/1 on gamma."""
    job = json.loads(cluster.run("alpha", [
        "coordinator", "submit", cluster.write("job.textproto", JOB), f"--set=stop.steps={STEPS}",
        "--json", "--cluster=cluster.textproto"]).stdout)["job"]

    def await_described(what, reached):
        def look():
            now = cluster.describe("alpha", job)
            return now if now and (reached(now) or now["state"] in ENDED) else None

        described = poll(look)
        checks.check(what, described is not None and reached(described),
                     described and described["events"] or cluster.logs())
        return described or cluster.describe("alpha", job)

    def steps_of(described, worker):
        return sum(each["steps"] for each in described["workers"] if each["task"] == worker)

    await_described("both workers train", lambda now: all(
        steps_of(now, task) > STEPS_BETWEEN for task in (0, 1)))
    three.cut("beta", "gamma")
    described = await_described("who loses touch with one shard loses its session", lambda now: any(
        event["kind"] == "worker_cut" and event["task"] == "worker/1" for event in now["events"]))
    other = steps_of(described, 0)
    described = await_described("the other one goes on", lambda now:
                                steps_of(now, 0) > other + STEPS_BETWEEN)
    three.cut("beta", "gamma", cut=False)
    before = steps_of(described, 1)
    await_described("it comes back with the line", lambda now:
                    steps_of(now, 1) > before + STEPS_BETWEEN)
    described = await_described("the job ends", lambda now: now["state"] == "SUCCEEDED")
    lost = sum(entry["records"] for entry in described["durability"]["lost"])
    versions = {(shard["version_min"], shard["version_max"]) for shard in described["shards"]}
    checks.check("shards are of one version, or what some lack is told", lost > 0 or
                 versions == {(described["counts"]["pushes"],) * 2} or
                 any(event["kind"] == "pushes_incomplete" for event in described["events"]),
                 (versions, described["counts"]["pushes"], described["events"][-8:]))


def run(checks, options):
    if why := machines.refusal():
        checks.skip("machines", why)
        return
    check_python_page(checks, options)
    check_readme(checks, options)
