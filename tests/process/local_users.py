"""A cluster on the loopback, started by `up` alone, on a machine where somebody else has an account:
that user reads nothing, changes nothing, and is not believed where he has taken a port.

Needs root, for the other user.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

from tests.tools import stranger
from tests.tools.local_cluster import end, poll
from tests.tools.tasks import free_ports
from tests.tools.tiny_job import tiny_job

OTHER = 65534
TASKS = ("coordinator", "ps", "worker")
PROGRAMS = ("coordinator/coordinator", "ps_server/ps_server", "worker/worker")
# No refusal takes longer.
LONGEST_S = 5
PATIENCE_S = 60
JOB = tiny_job(units=20, more="""
batch_size: 10
downpour { optimizer { adagrad { rate: 0.02 } } workers: 1 }
stop { steps: 200 }
""")
# Listens where a coordinator did, answers as HTTP/2 begins, and prints what it was told.
IMPOSTOR = """
import socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listens", flush=True)
server.settimeout(20)
while True:
    connection = server.accept()[0]
    connection.sendall(bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
    connection.settimeout(2)
    try:
        print(connection.recv(100000), flush=True)
    except OSError:
        pass
"""


class Home:
    """Of both users: one runs the cluster, the other has copies of its file and programs."""

    def __init__(self, folder, bin_dir):
        self.folder, self._bin = folder, bin_dir
        self.ports = free_ports(len(TASKS))
        self.text = 'name: "home"\n' + "".join(
            f'{task} {{ address: "127.0.0.1:{port}" }}\n'
            for task, port in zip(TASKS, self.ports)) + "heartbeat_ms: 100\nlost_after_ms: 1500\n"
        self.file = folder / "cluster.textproto"
        self.file.write_text(self.text)
        (folder / "job.textproto").write_text(JOB)
        self.others = folder / "other"
        for name in PROGRAMS:
            path = self.others / "bin" / name
            path.parent.mkdir(parents=True)
            shutil.copy(bin_dir / name, path)
        (self.others / "cluster.textproto").write_text(self.text)
        (self.others / "job.textproto").write_text(JOB)
        folder.chmod(0o711)
        subprocess.run(["chown", "-R", f"{OTHER}:{OTHER}", self.others], check=True)
        self._own = {**os.environ, "MONSOON_STATE_DIR": str(folder / "state"),
                     "MONSOON_CREDENTIALS": str(folder / "credentials")}
        self._up = None

    def up(self):
        with open(self.folder / "up.log", "a", encoding="utf-8") as log:
            self._up = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", self._bin / PROGRAMS[0], "up",
                 f"--cluster={self.file}"], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                env=self._own)
        if not poll(lambda: self.command("jobs").returncode == 0, PATIENCE_S):
            raise RuntimeError((self.folder / "up.log").read_text())

    def down(self):
        end(self._up, timeout_s=PATIENCE_S)

    def command(self, *words):
        return subprocess.run([self._bin / PROGRAMS[0], *words, f"--cluster={self.file}"],
                              capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              env=self._own, timeout=PATIENCE_S, check=False)

    def as_other(self):
        return ["setpriv", f"--reuid={OTHER}", f"--regid={OTHER}", "--clear-groups",
                "--pdeathsig", "KILL", "env", "-i", f"--chdir={self.others}",
                f"HOME={self.others}", "USER=other"]

    def other(self, program, *words):
        """As the other user; its result and the seconds."""
        began = time.monotonic()
        ran = subprocess.run([*self.as_other(), self.others / "bin" / program / program, *words],
                             capture_output=True, text=True, stdin=subprocess.DEVNULL,
                             timeout=PATIENCE_S, check=False)
        return ran, time.monotonic() - began


def train(checks, home):
    submitted = home.command("submit", str(home.folder / "job.textproto"), "--watch", "--json")
    checks.check("the owner's job trains", submitted.returncode == 0,
                 submitted.stderr[-2000:] + (home.folder / "up.log").read_text()[-2000:])


def refused(checks, home, what, program, *words, said):
    ran, took = home.other(program, *words)
    text = ran.stdout + ran.stderr
    checks.check(f"another user: {what}", ran.returncode != 0 and took < LONGEST_S and
                 re.search(said, text), (ran.returncode, took, text[-1000:]))


def another_user_asks(checks, home):
    heard = stranger.ask(home.as_other(), [f"127.0.0.1:{port}" for port in home.ports])
    checks.check("no port talks to another user", heard == "", heard)
    file = "--cluster=cluster.textproto"
    refused(checks, home, "asks for the jobs", "coordinator", "jobs", file, said="join")
    refused(checks, home, "asks insecurely", "coordinator", "jobs", file, "--insecure",
            said="not reached")
    for verb in ("submit", "cancel", "delete", "export", "drain"):
        what = {"submit": "job.textproto", "drain": "worker/0"}.get(verb, "latest")
        more = ["--out=model.npz"] if verb == "export" else []
        refused(checks, home, verb, "coordinator", verb, what, *more, file, said="join|reached")
    # An authority of the same name, as a task of that file makes it.
    made, _ = home.other("coordinator", "cluster", "init", file)
    checks.check("another user has an authority of the name", made.returncode == 0, made.stderr)
    for words in (["jobs"], ["submit", "job.textproto"]):
        refused(checks, home, f"{words[0]} with another authority", "coordinator", *words, file,
                said="authority|join")
    refused(checks, home, "starts a worker", "worker", file, "--task=0",
            "--address=127.0.0.1:0", said="authority|join")
    for folder in ("state", "credentials"):
        looked = subprocess.run([*home.as_other(), "ls", home.folder / folder],
                                capture_output=True, text=True, check=False)
        checks.check(f"another user cannot look into the {folder} folder", looked.returncode != 0,
                     looked.stdout)


def another_user_poses(checks, home):
    """The coordinator is down, and its port is somebody else's."""
    home.down()
    with subprocess.Popen([*home.as_other(), "/usr/bin/python3", "-c", IMPOSTOR,
                           str(home.ports[0])], stdout=subprocess.PIPE, text=True) as impostor:
        try:
            checks.check("somebody listens at the port", impostor.stdout.readline() == "listens\n")
            told = home.command("submit", str(home.folder / "job.textproto"))
            checks.check("the owner's command does not believe it", told.returncode != 0 and
                         re.search("TLS", told.stderr), told.stdout + told.stderr)
        finally:
            impostor.kill()
        heard = impostor.stdout.read()
        checks.check("it has been told nothing", "tiny" not in heard and "PRI" not in heard and
                     heard != "", heard[:1000])


def run(checks, options):
    if os.geteuid() != 0:
        checks.skip("local_users", "only root can be another user")
        return
    with tempfile.TemporaryDirectory(prefix="monsoon-") as folder:
        home = Home(pathlib.Path(folder), options.bin)
        home.up()
        try:
            train(checks, home)
            before = home.command("jobs", "--json").stdout
            another_user_asks(checks, home)
            after = home.command("jobs", "--json").stdout
            checks.check("the owner's jobs are as before", [job["state"] for job in json.loads(
                after)["jobs"]] == [job["state"] for job in json.loads(before)["jobs"]], after)
            another_user_poses(checks, home)
            home.up()
            train(checks, home)
        finally:
            home.down()
