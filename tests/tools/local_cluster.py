"""Runs a cluster of real processes on this machine, for benchmarks and checks.

    with LocalCluster(ps=1, workers=3) as cluster:
        description = cluster.run("configs/job/mlp_downpour.textproto", {"stop.epochs": 1})

Scripts of tests/benchmarks import this file by itself, so it needs nothing of this folder.

Tasks listen on Unix sockets in a folder of the cluster's own, so that two
runs never meet. Everything is stopped when the block is left, and when this
process ends: `coordinator up` is tied to its life, and its children to `up`'s.
"""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
# MONSOON_BIN: where the built programs are, if not behind Bazel's own link.
BIN = pathlib.Path(os.environ.get("MONSOON_BIN") or ROOT / "bazel-bin")
# Below that folder.
COORDINATOR = "coordinator/coordinator"
BASELINE = "worker/baseline/baseline"
UNREACHABLE = 3  # the exit code of commands (coordinator/cli/exit_code.h)
PATIENCE_S = 60


def poll(look, timeout_s=PATIENCE_S, every_s=0.02):
    """What look() gives as soon as that is true, or when the time is over."""
    deadline = time.monotonic() + timeout_s
    while True:
        late = time.monotonic() > deadline
        seen = look()
        if seen or late:
            return seen
        time.sleep(every_s)


def end(*processes, timeout_s=30, number=signal.SIGTERM):
    """Ends Popens by a signal, and those by SIGKILL that have not ended in time."""
    for process in processes:
        if process.poll() is None:
            process.send_signal(number)
    for process in processes:
        try:
            process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def training_seconds(description):
    """From the state RUNNING to FINISHING, by the coordinator's events."""
    times = {event["kind"]: event["elapsed_s"] for event in description["events"]}
    return times["finishing"] - times["running"]


class LocalCluster:
    def __init__(self, ps=1, workers=3, threads=1, bin_dir=BIN, extra_flags=(),
                 environment=None, settings=(), state_dir=None, name=None):
        """`settings` are lines of the cluster file; {sockets} there is the folder of the tasks'
        sockets. `environment` changes that of all tasks; None removes a variable. State is kept
        in a folder that goes with the cluster, unless one is named; a folder knows the `name` of
        the cluster whose it is."""
        self._directory = tempfile.TemporaryDirectory(prefix="monsoon-")
        prefix = f"unix:{self._directory.name}"
        self.address = f"{prefix}/coordinator"
        lines = [f'name: "{name or f"local-{os.getpid()}"}"',
                 f'coordinator {{ address: "{self.address}" }}']
        lines += [f'ps {{ address: "{prefix}/ps{i}" }}' for i in range(ps)]
        lines += [f'worker {{ address: "{prefix}/worker{i}" threads: {threads} device: CPU }}'
                  for i in range(workers)]
        lines += [line.replace("{sockets}", self._directory.name) for line in settings]
        self.path = pathlib.Path(self._directory.name) / "cluster.textproto"
        self.path.write_text("\n".join(lines) + "\n")
        self.log_path = pathlib.Path(self._directory.name) / "up.log"
        # `up` finds the other programs beside its own.
        self._coordinator = pathlib.Path(bin_dir) / COORDINATOR
        self._flags = list(extra_flags)
        self.state_dir = pathlib.Path(state_dir or pathlib.Path(self._directory.name) / "state")
        changed = {**os.environ, "MONSOON_STATE_DIR": str(self.state_dir), **(environment or {})}
        self._environment = {name: value for name, value in changed.items() if value is not None}
        self._up = None
        self._workers = []

    def __enter__(self):
        self.start()
        return self

    def start(self):
        """Returns when the cluster answers. Once, and again after each stop()."""
        with open(self.log_path, "w") as log:
            # A killed script leaves no cluster behind.
            self._up = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", self._coordinator, "up",
                 f"--cluster={self.path}", *self._flags],
                stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                env=self._environment)
        self._await_answer([self._up])

    def _await_answer(self, processes):
        """Of the coordinator; raises when one of `processes` ends before."""
        def ended():
            return any(process.poll() is not None for process in processes)

        # One that has ended need not be waited for.
        seen = poll(lambda: ended() or self._answers(), timeout_s=30, every_s=0.1)
        if ended() or not seen:
            raise RuntimeError(f"the cluster did not come up:\n{self.log_path.read_text()}")

    def _answers(self):
        return self.command("jobs", "--json", check=False).returncode == 0

    def _stop_workers(self):
        end(*self._workers)
        self._workers = []

    def stop(self):
        """Ends `up` in order. What it has kept on the disk stays until the block is left."""
        self._stop_workers()
        end(self._up, timeout_s=40)  # its stop takes 30 s at most

    def interrupt(self):
        """Ctrl-C; returns when all has ended."""
        self._stop_workers()
        self._up.send_signal(signal.SIGINT)
        self._up.wait(timeout=40)

    def __exit__(self, *unused):
        self.stop()
        self._directory.cleanup()

    def command(self, verb, *arguments, check=True, timeout=None):
        """One CLI call; its output as text."""
        result = subprocess.run(
            [self._coordinator, verb, f"--cluster={self.path}", *arguments],
            capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=timeout,
            env=self._environment)
        if check and result.returncode != 0:
            raise RuntimeError(f"coordinator {verb} {arguments} gave {result.returncode}: "
                               f"{result.stderr}\n{self.log_path.read_text()[-4000:]}")
        return result

    def start_command(self, verb, *arguments):
        """A CLI call that goes on; its Popen."""
        return subprocess.Popen([self._coordinator, verb, f"--cluster={self.path}", *arguments],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                stdin=subprocess.DEVNULL, env=self._environment)

    def submit(self, job, settings=None, flags=()):
        """`job` is a job file; None with a --resume among the flags."""
        overrides = [f"--set={path}={value}" for path, value in (settings or {}).items()]
        files = [] if job is None else [str(job)]
        return json.loads(
            self.command("submit", *files, "--json", *overrides, *flags).stdout)["job"]

    def start_worker(self, task):
        """One that `up` does not start again; it ends with the cluster's block."""
        self._workers.append(subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", self._coordinator.parents[1] / "worker" / "worker",
             f"--cluster={self.path}", f"--task={task}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
            env=self._environment))

    def describe(self, job):
        return json.loads(self.command("describe", job, "--json").stdout)

    def try_describe(self, job, may_give=None):
        """None where the command fails, with one of the exit codes `may_give` if there are any."""
        answer = self.command("describe", job, "--json", check=False)
        if answer.returncode == 0:
            return json.loads(answer.stdout)
        if may_give and answer.returncode not in may_give:
            raise RuntimeError(f"describe {job} gave {answer.returncode}: {answer.stderr}")
        return None

    def coordinator_pid(self):
        """Of the one that runs, or ran last."""
        return int((self.state_dir / "coordinator" / "lock").read_text())

    def end_of_log(self, lines=60):
        """Without what a worker tells of its steps."""
        told = self.log_path.read_text().splitlines()
        return "\n".join([line for line in told if "At step" not in line][-lines:])

    def run(self, job, settings=None, timeout=3600, flags=()):
        """Submits a job, waits for its end, returns its description."""
        name = self.submit(job, settings, flags)
        self.command("watch", name, check=False, timeout=timeout)
        description = self.describe(name)
        if description["state"] != "SUCCEEDED":
            raise RuntimeError(f"{name} ended {description['state']}: {description['reason']}\n"
                               f"{self.log_path.read_text()[-4000:]}")
        return description
