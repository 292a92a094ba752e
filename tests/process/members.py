"""A cluster over four machines, which are network namespaces here, whose members prove who they are
(docs/security.md): made by the commands as they are printed, from nothing to a job and a program
that train. Who has no token gets nothing, and each mistake says what it is and what to do.
"""

import json
import pathlib
import re
import subprocess
import time

from tests.process.machines import Cluster, await_tasks
from tests.tools import machines, stranger
from tests.tools.local_cluster import PATIENCE_S, poll
from tests.tools.programs import program_environment
from tests.tools.tiny_job import tiny_job

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILE = "--cluster=cluster.textproto"
SPREAD = """
name: "lab"
coordinator { address: "alpha:2221" }
ps { address: "alpha:2222" }
ps { address: "gamma:2222" }
worker { address: "beta:2301" device: CPU threads: 1 }
open: true
heartbeat_ms: 100
lost_after_ms: 1500
"""
JOB = tiny_job(units=50, more="""
batch_size: 10
stripe_kib: 4
downpour { optimizer { adagrad { rate: 0.02 } } workers: 1 }
stop { steps: 200 }
""")
READER = """
model { input_shape: 2 layer { dense { units: 2 } } }
train { csv { file: "%s" label: "kind" } }
batch_size: 1
downpour { optimizer { sgd { rate: 0.1 } } }
stop { epochs: 1 }
"""
# No mistake takes longer to be told.
LONGEST_S = 5
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")


class Lab:
    """The cluster, and what its checks share."""

    def __init__(self, checks, options, four, cluster):
        self.checks, self.options, self.four, self.cluster = checks, options, four, cluster
        self.tokens = []

    def run(self, name, *words):
        return self.cluster.run(name, ["coordinator", *words], check=False)

    def token(self, *words):
        """The line that `token create` prints, as words without the program."""
        made = self.run("alpha", "token", "create", *words, FILE)
        self.checks.check(f"a token is made: {' '.join(words)}", made.returncode == 0,
                          made.stdout + made.stderr + self.cluster.logs())
        words = made.stdout.split()[1:]
        self.tokens.append(words[1].split(".")[2])
        return words

    def program(self, name, credentials, *words, **more):
        """One that joins a job of its own, there."""
        return subprocess.run(
            [*self.four.on(name), "/usr/bin/python3", ROOT / "python/examples/mlp_numpy.py",
             "--coordinator=alpha:2221", "--steps=100", *words], capture_output=True, text=True,
            env={**program_environment(self.options.bin), "MONSOON_CREDENTIALS": str(credentials),
                 **more}, timeout=PATIENCE_S, check=False)

    def refused(self, what, name, words, *said):
        """The command fails soon, with all of `said` in its words."""
        began = time.monotonic()
        answer = self.run(name, *words)
        took = time.monotonic() - began
        text = answer.stdout + answer.stderr
        self.checks.check(what, answer.returncode not in (0, 130) and took < LONGEST_S and
                          all(re.search(part, text) for part in said), (took, text))


def make(lab):
    init = lab.run("alpha", "cluster", "init", FILE)
    lab.checks.check("cluster init makes the authority", init.returncode == 0, init.stderr)
    again = lab.run("alpha", "cluster", "init", FILE)
    lab.checks.check("a second one changes nothing", again.returncode == 0, again.stderr)
    lab.cluster.start("alpha", ["coordinator", "up", FILE])
    lab.checks.check("alpha's tasks are up", await_tasks(
        lab.cluster, ["coordinator", "tasks", FILE], "alpha", 2) != "", lab.cluster.logs())
    lab.refused("who has not joined is told to", "delta", ["jobs", FILE], "join|speaks|credential")
    joined = lab.run("gamma", *lab.token("--role=ps", "--ttl=1h"), "--task=1")
    lab.checks.check("a server joins", joined.returncode == 0, joined.stderr)
    lab.cluster.start("gamma", ["ps_server", "--task=1", FILE])
    joined = lab.run("beta", *lab.token("--role=worker", "--uses=2"), "--task=0")
    lab.checks.check("a worker joins", joined.returncode == 0, joined.stderr)
    lab.cluster.start("beta", ["worker", "--task=0", FILE])
    lab.checks.check("all tasks are up", await_tasks(
        lab.cluster, ["coordinator", "tasks", FILE], "alpha", 4) != "", lab.cluster.logs())


def reads_nothing_unasked(lab):
    """Whose machine it is says with --data=DIR which files jobs of others may read there."""
    secret = lab.cluster.write("secret.csv", "a,b,kind\n1,2,Xyzzy\n")
    job = lab.cluster.write("reader.textproto", READER % secret)
    lab.refused("a job reads no files of a machine that has joined", "alpha",
                ["submit", job, FILE], "worker/0 on beta", "--data=DIR")


def train(lab):
    job = json.loads(lab.cluster.run("alpha", [
        "coordinator", "submit", lab.cluster.write("job.textproto", JOB), "--json",
        FILE]).stdout)["job"]
    described = poll(lambda: next((now for now in [lab.cluster.describe("alpha", job)]
                                   if now and now["state"] in ENDED), None))
    lab.checks.check("a job trains", described is not None and described["state"] == "SUCCEEDED",
                     described and described["reason"] or lab.cluster.logs())
    exported = lab.run("alpha", "export", job, "--out=model.npz", FILE)
    lab.checks.check("its model is exported", exported.returncode == 0, exported.stderr)
    model = lab.cluster.folder("beta") / "mlp.npz"
    ran = lab.program("beta", lab.cluster.folder("beta") / "credentials", f"--export={model}")
    lab.checks.check("a program of a member trains, and exports its model",
                     ran.returncode == 0 and model.exists(), ran.stderr + lab.cluster.logs())
    own = lab.cluster.folder("delta") / "program"
    ran = lab.program("delta", own)
    lab.checks.check("a program of a stranger is told to join", ran.returncode != 0 and
                     "join" in ran.stderr, ran.stderr)
    invitation = lab.token("--role=worker")[1]
    for what in ("a program joins with its token", "and needs it once"):
        ran = lab.program("delta", own, MONSOON_TOKEN=invitation)
        lab.checks.check(what, ran.returncode == 0, ran.stderr + lab.cluster.logs())


def strangers(lab):
    for token in lab.tokens:
        revoked = lab.run("alpha", "token", "revoke", token, FILE)
        lab.checks.check("a token is revoked", revoked.returncode == 0, revoked.stderr)
    ports = ("alpha:2221", "alpha:2222", "gamma:2222", "beta:2301")
    heard = stranger.ask(lab.four.on("delta"), ports)
    lab.checks.check("without a token no port talks to a stranger", heard == "", heard)
    lab.refused("insecure commands get nothing", "delta", ["jobs", FILE, "--insecure"],
                "not reached")


def mistakes(lab):
    viewer = lab.token("--role=viewer")
    secret = viewer[1].split("@", maxsplit=1)[0]
    wrong = secret[:-4] + ("AAAA" if not secret.endswith("AAAA") else "BBBB") + "@alpha:2221"
    lab.refused("a wrong secret", "delta", ["join", wrong], "token")
    lab.refused("a token cut short", "delta", ["join", secret[:40]], "token|cut")
    other = secret.split(".")
    other[1] = other[1][:-4] + ("AAAA" if not other[1].endswith("AAAA") else "BBBB")
    lab.refused("another cluster's token", "delta", ["join", ".".join(other) + "@alpha:2221"],
                "another cluster")
    lab.refused("an address where nobody listens", "delta", ["join", secret + "@alpha:9"],
                "connection refused")
    lab.refused("the address of a server", "delta", ["join", secret + "@alpha:2222"],
                "ps/0|coordinator")
    joined = lab.run("delta", *viewer)
    lab.checks.check("a viewer joins", joined.returncode == 0, joined.stderr)
    listed = lab.run("delta", "jobs", FILE)
    lab.checks.check("it sees the jobs", listed.returncode == 0 and "SUCCEEDED" in listed.stdout,
                     listed.stdout + listed.stderr)
    lab.refused("and changes nothing", "delta", ["delete", "latest", FILE], "operator")
    lab.refused("a token that is used up", "gamma", [*viewer, "--replace"], "used up|lets nobody")
    lab.refused("a task of another role", "delta", ["serve", FILE], "viewer")
    member, = (lab.cluster.folder("delta") / "credentials/lab").glob("viewer-*.pem")
    member.chmod(0o644)
    lab.refused("a key that others can read", "delta", ["jobs", FILE], "chmod 600")
    member.chmod(0o600)


def revoke(lab):
    listed = lab.run("alpha", "member", "list", FILE)
    lab.checks.check("members are listed", all(name in listed.stdout for name in (
        "ps/1", "worker/0", "viewer/")), listed.stdout + listed.stderr)
    revoked = lab.run("alpha", "member", "revoke", "worker/0", FILE)
    lab.checks.check("a member is thrown out", revoked.returncode == 0, revoked.stderr)
    left = poll(lambda: "LOST" in lab.run("alpha", "tasks", FILE).stdout or
                "thrown out" in lab.cluster.logs())
    lab.checks.check("its worker is gone, and knows why", left and
                     poll(lambda: "thrown out" in lab.cluster.logs()), lab.cluster.logs())
    joined = lab.run("beta", *lab.token("--role=worker"), "--task=0", "--replace")
    lab.checks.check("it may come back with a new token", joined.returncode == 0, joined.stderr)


def run(checks, options):
    if why := machines.refusal():
        checks.skip("members", why)
        return
    with machines.Machines("alpha", "beta", "gamma", "delta") as four, \
            Cluster(options, four, SPREAD) as cluster:
        lab = Lab(checks, options, four, cluster)
        make(lab)
        reads_nothing_unasked(lab)
        train(lab)
        strangers(lab)
        mistakes(lab)
        revoke(lab)
