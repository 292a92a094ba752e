"""Floods against a cluster whose members prove who they are: by strangers, who have no certificate
or another cluster's, and by a member, a worker that has turned bad. A job trains over TLS
meanwhile. Its steps go on, others are served, and all is as before soon after each flood; the
figures are printed.

--seconds of each flood; --connections of those that hold many.
"""

import contextlib
import json
import os
import pathlib
import resource
import subprocess
import tempfile
import time

from tests.process import floods
from tests.process.hostile_clients import PROCESSES, TASKS
from tests.tools import http2, messages
from tests.tools.local_cluster import COORDINATOR, end, poll
from tests.tools.tasks import children_by_name, free_ports
from tests.tools.tiny_job import tiny_job

JOB = tiny_job(units=400, more="""
batch_size: 10
stripe_kib: 64
downpour { optimizer { adagrad { rate: 0.02 } } workers: 1 }
stop { steps: 100000000 }
""")
# Of nearly 1 MiB, which is what a job file may have.
CLASSES = 60
LARGE_JOB = tiny_job(units=8, classes=CLASSES, more=JOB.split("seed: 5")[1]).replace(
    "train {", "train { " + " ".join(f'class_name: "{i:016000}"' for i in range(CLASSES)))
PORTS = ("coordinator", "ps")
# Of honest steps and calls, on a machine whose two cores the hostile clients take as well.
LEAST_SHARE = 0.05
LONGEST_CALL_S = 8.0
LONGEST_RECOVERY_S = 5.0
MOST_MIB = 256
MOST_LARGE_JOBS = (32 << 20) // len(LARGE_JOB) + 1  # more than one member may have
HEALTH = "/grpc.health.v1.Health/Check"


class SecuredCluster:
    """A coordinator, a ps and a worker on TCP, whose connections are TLS; `files`: descriptors that
    each may have."""

    def __init__(self, bin_dir, files):
        self._folder = tempfile.TemporaryDirectory(prefix="monsoon-")
        self.folder = pathlib.Path(self._folder.name)
        self.ports = dict(zip(TASKS, free_ports(len(TASKS))))
        self._file = self.folder / "cluster.textproto"
        self._file.write_text('name: "lab"\n' + "".join(
            f'{task} {{ address: "127.0.0.1:{port}" {more} }}\n' for (task, port), more in zip(
                self.ports.items(), ("", "", "device: CPU threads: 1"))))
        self.job_file = self.folder / "job.textproto"
        self.job_file.write_text(JOB)
        self._large_job_file = self.folder / "large.textproto"
        self._large_job_file.write_text(LARGE_JOB)
        self.log = self.folder / "up.log"
        self._coordinator = bin_dir / COORDINATOR
        self._environment = {**os.environ, "MONSOON_STATE_DIR": str(self.folder / "state"),
                             "MONSOON_TRANSPORT": "grpc"}
        self.must("cluster", "init")
        with open(self.log, "w", encoding="utf-8") as log:
            self._up = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", "prlimit", f"--nofile={files}:{files}",
                 self._coordinator, "up", f"--cluster={self._file}"], stdout=log,
                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=self._of("own"))
        if not poll(lambda: self.command("jobs").returncode == 0):
            raise RuntimeError(f"the cluster did not come up:\n{self.log.read_text()}")
        self.pids = self.find()
        self.job = json.loads(self.must("submit", self.job_file, "--json"))["job"]
        if not poll(lambda: self.steps() > 0):
            raise RuntimeError(f"the job does not train:\n{self.log.read_text()}")

    def _of(self, who):
        return {**self._environment, "MONSOON_CREDENTIALS": str(self.folder / who)}

    def command(self, verb, *words, who="own"):
        cluster = [] if verb == "join" else [f"--cluster={self._file}"]  # the token knows it
        return subprocess.run([self._coordinator, verb, *words, *cluster],
                              capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              timeout=60, env=self._of(who), check=False)

    def must(self, *words):
        answer = self.command(*words)
        if answer.returncode != 0:
            raise RuntimeError(f"{words}: {answer.stderr}")
        return answer.stdout

    def join(self, who, role="worker"):
        """The credential file."""
        line = self.must("token", "create", f"--role={role}").split()
        answer = self.command(*line[1:], f"--name={who}", who=who)
        if answer.returncode != 0:
            raise RuntimeError(f"{line}: {answer.stderr}")
        return self.certificate(who)

    def submit_large(self):
        return self.command("submit", self._large_job_file, who="eve")

    def certificate(self, who, name="*"):
        return next(path for path in sorted((self.folder / who).glob(f"*/{name}.pem"))
                    if path.name != "authority.pem")

    def of_another_cluster(self):
        """A certificate that another authority of the same name has made."""
        answer = self.command("cluster", "init", who="another")
        if answer.returncode != 0:
            raise RuntimeError(answer.stderr)
        return self.certificate("another")

    def steps(self):
        """Of the job; a command is tried again as people do."""
        told = poll(lambda: self.command("describe", self.job, "--json").stdout, every_s=0.1)
        if not told:
            raise RuntimeError("`describe` gets no answer")
        return sum(worker["steps"] for worker in json.loads(told)["workers"])

    def parameters(self):
        """The frame that asks for all of the job's."""
        operator = http2.secured(self.certificate("own", "operator*"))
        with http2.connect("127.0.0.1", self.ports["coordinator"], context=operator) as connection:
            connection.sendall(http2.whole_call("/monsoon.JobService/Locate", 1,
                                                messages.field(1, self.job)))
            location = dict(messages.fields(http2.answer(connection, 1)))
        return floods.fetch(self.job, job_term=location[7], layout_hash=location[3], stripes=2)

    def find(self):
        names = children_by_name(self._up)
        return {task: names[process] for task, process in PROCESSES.items()}

    def mib(self, task):
        lines = pathlib.Path(f"/proc/{self.pids[task]}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) >> 10

    def cpu_s(self, task):
        words = pathlib.Path(f"/proc/{self.pids[task]}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        end(self._up, timeout_s=60)
        self._folder.cleanup()


class Honest:
    """What honest members see of the cluster."""

    def __init__(self, cluster, certificate):
        self._cluster, self._context = cluster, http2.secured(certificate)

    def greets(self, task):
        """A new connection of a member has a call answered; the seconds, None: it has not."""
        began = time.monotonic()
        try:
            with http2.connect("127.0.0.1", self._cluster.ports[task], timeout_s=10,
                               context=self._context) as connection:
                connection.sendall(http2.whole_call(HEALTH, 1))
                if http2.answer(connection, 1) is not None:
                    return time.monotonic() - began
        except OSError:
            pass
        return None

    def soon(self, task):
        """The same, tried again as programs do."""
        began = time.monotonic()
        answered = poll(lambda: self.greets(task) is not None, timeout_s=20, every_s=0.1)
        return time.monotonic() - began if answered else None

    def rate(self, seconds):
        """Steps a second; commands are new connections too."""
        began, before = time.monotonic(), self._cluster.steps()
        time.sleep(seconds)
        return (self._cluster.steps() - before) / (time.monotonic() - began)


def endure(checks, cluster, honest, flood, seconds, before):
    """One flood; the line of the table."""
    mib = {task: cluster.mib(task) for task in TASKS}
    with flood:
        cpu = {task: cluster.cpu_s(task) for task in PORTS}
        rate = honest.rate(seconds)
        calls = [honest.soon(task) for task in PORTS]
        most = {task: cluster.mib(task) - mib[task] for task in TASKS}
        cpu = {task: cluster.cpu_s(task) - cpu[task] for task in PORTS}
    began = time.monotonic()
    recovered = all(honest.soon(task) is not None for task in PORTS)
    took = time.monotonic() - began
    after = honest.rate(1)
    name = flood.name
    checks.check(f"{name}: it was done", flood.made > 0, flood.made)
    checks.check(f"{name}: honest steps go on", rate >= LEAST_SHARE * before, (rate, before))
    checks.check(f"{name}: honest members get in", None not in calls and
                 max(calls) <= LONGEST_CALL_S, calls)
    checks.check(f"{name}: memory has a bound", max(most.values()) <= MOST_MIB, most)
    checks.check(f"{name}: all is as before soon", recovered and took <= LONGEST_RECOVERY_S, took)
    print(f"| {name} | {flood.made} | {before:.0f} | {rate:.0f} | {after:.0f} | " +
          ", ".join("never" if call is None else f"{call:.2f}" for call in calls) + " | " +
          ", ".join(f"{task} {most[task]:+d}" for task in TASKS) + " | " +
          ", ".join(f"{task} {cpu[task]:.1f}" for task in PORTS) + f" | {took:.2f} |", flush=True)


def by_strangers(cluster, count):
    other = http2.secured(cluster.of_another_cluster())
    for task in PORTS:
        port = cluster.ports[task]
        yield floods.silent(port, count)
        yield floods.half_handshakes(port, count)
        yield floods.garbage(port, count // 4)
        yield floods.hellos(port)
        yield floods.handshakes(port, http2.secured(), "without a certificate")
        yield floods.handshakes(port, other, "of another cluster")


def by_a_member(cluster, context, count):
    coordinator, ps = (cluster.ports[task] for task in PORTS)
    yield floods.resets(coordinator, context, "/monsoon.ReplicaService/NextWork")
    yield floods.resets(ps, context, "/monsoon.ParameterServer/GetStatus")
    yield floods.member_connections(coordinator, context, count)
    yield floods.member_connections(ps, context, count)
    yield floods.idle_streams(ps, context, count // 8)
    yield floods.slow_readers(ps, context, 32, cluster.parameters())
    yield floods.garbage_frames(ps, context)
    yield floods.large_requests(coordinator, context, "/monsoon.ReplicaService/Heartbeat", 64)
    yield floods.again("large jobs", lambda: cluster.submit_large().returncode == 0)


def check_list(checks, cluster):
    """The list of jobs, after one operator has submitted as many as it could."""
    for _ in range(MOST_LARGE_JOBS):
        refused = cluster.submit_large()
        if refused.returncode != 0:
            break
    checks.check("who fills the list is refused by name", refused.returncode != 0 and all(
        text in refused.stderr for text in ("operator/eve has", "delete ended ones")), refused)
    checks.check("others submit on", cluster.command("submit", cluster.job_file).returncode == 0)


def attack(checks, options, files):
    cluster = SecuredCluster(options.bin, files)
    try:
        honest = Honest(cluster, cluster.join("honest"))
        hostile = http2.secured(cluster.join("mallory"))
        cluster.join("eve", role="operator")
        cluster.must("token", "create", "--role=worker")  # strangers may come in to join
        before = honest.rate(2)
        print(f"with {files} descriptors a task:\n| flood | made | steps/s before | during | after "
              "| honest calls s | MiB more | CPU s | s until all is as before |\n" + "|---" * 9 + "|")
        for flood in [*by_strangers(cluster, options.connections),
                      *by_a_member(cluster, hostile, options.connections)]:
            if options.only in flood.name:
                endure(checks, cluster, honest, flood, options.seconds, before)
        if options.only in "large jobs":
            check_list(checks, cluster)
        checks.check("nobody has died", cluster.pids == cluster.find(), cluster.pids)
        checks.check("the job trains at the end", honest.rate(1) > 0)
    finally:
        print("\n".join(cluster.log.read_text().splitlines()[-8:]))
        cluster.stop()


def add_options(parser):
    parser.add_argument("--seconds", type=float, default=2, help="of each flood")
    parser.add_argument("--connections", type=int, default=400)
    parser.add_argument("--files", type=int, nargs="+", default=[1024],
                        help="descriptors that a task may have, of a cluster each")
    parser.add_argument("--only", default="", help="floods whose name has this")


def run(checks, options):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with contextlib.ExitStack() as ends:
        ends.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for files in options.files:
            attack(checks, options, files)
