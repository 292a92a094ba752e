"""Trains by the trainers of others, Lightning's, Hugging Face's (with peft, too) and loops with
accelerate, as PyPI has them: one program and two, kills in the middle, late programs.

It makes an environment in --venv, unless one is there, and installs the newest of those packages
from PyPI: some 6 GB, since torch there comes with CUDA. Where PyPI does not give them the check is
skipped. In each program (trainers_program.py) an optimizer steps once for 4 batches of 63 in an
epoch, so that each epoch ends with a short group. What must hold:

- one program has the learning rates, to the bit, and the weights of the trainer without a job;
- two programs share the batches; their schedules, of all programs' steps, end near 0; both end
  with the job, with its parameters;
- a program that is killed in the middle, and one that is started in its place, cost nothing: the
  job has had all batches, and the new one's schedule is soon where the job is;
- a program that comes when the job has ended trains nothing and has its parameters;
- the examples of docs/python.md run as they are printed;
- all settings of Local(): outer, rounds, fragments, dynamic; two processes of one trainer as one
  replica.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

from tests.tools.local_cluster import LocalCluster
from tests.tools.programs import program_environment

PROGRAM = pathlib.Path(__file__).with_name("trainers_program.py")
PACKAGES = ("torch", "lightning", "transformers", "accelerate", "peft", "numpy")
KINDS = ("lightning", "huggingface", "peft", "accelerate")
INSTALL_S, DEADLINE_S = 3600, 600

RATE = 0.02  # at most
STEPS = 3 * 16  # of a job: 63 batches in groups of 4, in each of 3 epochs
SHARED = "dict(outer=ms.SGD(0.5), programs=2)"
OPTIONS = {
    "outer": "dict(outer=ms.DelayedNesterov(0.7, 0.9, period=2))",
    "rounds": "dict(rounds=ms.Rounds(), outer=ms.Nesterov(0.7, 0.9))",
    "fragments": "dict(every=6, fragments=ms.Fragments(2, order='stripe'))",
    "dynamic": "dict(dynamic=True, outer=ms.SGD(1), weight='tokens', seed=3)",
}


def add_options(parser):
    parser.add_argument("--venv", type=pathlib.Path, default=None,
                        help="environment with the packages; made if it is not there "
                             "(default: one that goes with the check)")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)


class Program:
    def __init__(self, run, job, kind, launcher=(), **settings):
        run.started += 1
        self.out = run.folder / f"out-{run.started}"
        self.errors = open(run.folder / f"errors-{run.started}", "w+")
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", *(launcher or [str(run.python)]), str(PROGRAM),
             run.cluster.address, job, kind, str(self.out), json.dumps(settings)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
            env=run.environment)

    def await_steps(self, count):
        """Until its optimizer has stepped so often. False: it ended before."""
        return any(line.strip() == f"step {count}" for line in self.process.stdout)

    def go_on(self):
        """Of one that waits."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def finish(self):
        """What it told; None: it failed, or did not end."""
        try:
            self.process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
        if self.process.returncode != 0 or not self.out.exists():
            return None
        return json.loads(self.out.read_text())

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()

    def said(self):
        self.errors.seek(0)
        return self.errors.read()[-3000:]


class Run:
    def __init__(self, checks, options, cluster, folder, python):
        self.checks, self.check, self.cluster = checks, checks.check, cluster
        self.folder, self.python, self.started = pathlib.Path(folder), python, 0
        self.environment = {**program_environment(options.bin), "HF_HUB_OFFLINE": "1",
                            "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}

    def ended(self, what, program):
        """What the program told; checks that it ended with the job, and with its parameters."""
        told = program.finish()
        self.check(f"{what}: it ends with the job", told is not None and told["ended"],
                   program.said())
        if told is None:
            return {"rates": [], "batches": 0}
        self.check(f"{what}: with its parameters", told["tensors"] > 0 and
                   told["differs"] == 0, told["differs"])
        return told

    def has_had_all(self, what, job, more=0):
        """`more`: samples at most that had to be done once more."""
        jobs = json.loads(self.cluster.command("jobs", "--json").stdout)["jobs"]
        named = [each["job"] for each in jobs if each["name"] == job]
        told = self.cluster.describe(named[0]) if len(named) == 1 else {"state": named}
        self.check(f"{what}: the job has had all batches", told["state"] == "SUCCEEDED" and
                   0 <= told["progress"]["examples"] - 3 * 250 <= more, told)

    def alone(self, kind):
        what = f"{kind}, one program"
        told = self.ended(what, Program(self, f"{kind}-one", kind, plain=True))
        self.has_had_all(what, f"{kind}-one")
        self.check(f"{what}: {STEPS} steps", len(told["rates"]) == STEPS, len(told["rates"]))
        self.check(f"{what}: the rates of the trainer alone",
                   told["rates"] and told["rates"] == told.get("plain_rates"),
                   (told["rates"], told.get("plain_rates")))
        self.check(f"{what}: the weights of the trainer alone",
                   told.get("plain_differs", 1) < 2e-3, told.get("plain_differs"))

    def late(self, kind):
        what = f"{kind}, after the end"
        told = self.ended(what, Program(self, f"{kind}-one", kind))
        self.check(f"{what}: it trains nothing", told["rates"] == [] and told["batches"] == 0,
                   told["rates"])

    def together(self, kind):
        what, job = f"{kind}, two programs", f"{kind}-two"
        programs = [Program(self, job, kind, more=SHARED, wait_at=1) for _ in range(2)]
        self.check(f"{what}: both train", all([each.await_steps(1) for each in programs]),
                   [each.said() for each in programs])
        for program in programs:
            program.go_on()
        told = [self.ended(f"{what}, number {number}", program)
                for number, program in enumerate(programs)]
        self.has_had_all(what, job)
        self.check(f"{what}: they share {STEPS} steps",
                   STEPS <= sum(len(each["rates"]) for each in told) <= STEPS + 3 and
                   all(each["rates"] for each in told), [len(each["rates"]) for each in told])
        self.falls(what, kind, told)

    def falls(self, what, kind, told):
        """The schedule of who is there last is nearly over when the job is: of its own steps alone
        it would be half way. How many programs train is known by heartbeats, so not to the step in
        jobs of some seconds."""
        last = [each["rates"][-1] for each in told if each["rates"]]
        self.check(f"{what}: schedules end with the job", last and min(last) < 0.25 * RATE,
                   [each["rates"] for each in told])

    def killed(self, kind):
        what, job = f"{kind}, a kill", f"{kind}-killed"
        # In the second epoch. What is not pushed of the first one nobody counts yet.
        programs = [Program(self, job, kind, more=SHARED, wait_at=10) for _ in range(2)]
        self.check(f"{what}: in the middle", all([each.await_steps(10) for each in programs]),
                   [each.said() for each in programs])
        programs[0].kill()
        programs[0] = Program(self, job, kind, more=SHARED, wait_at=1)
        self.check(f"{what}: the new one trains", programs[0].await_steps(1), programs[0].said())
        for program in programs:
            program.go_on()
        told = [self.ended(f"{what}, {who}", program)
                for who, program in zip(("the new one", "the other"), programs)]
        self.has_had_all(what, job, more=64)
        self.falls(what, kind, told)
        # One that begins anew is below a sixth of it then.
        self.check(f"{what}: the new one's schedule is soon where the job is",
                   max(told[0]["rates"][:4], default=0) > 0.5 * RATE, told[0]["rates"])

    def options(self, kind):
        for name, more in OPTIONS.items():
            what, job = f"{kind}, {name}", f"{kind}-{name}"
            every = {"every": 6} if name == "fragments" else {}
            given = more.replace("every=6, ", "")
            self.ended(what, Program(self, job, kind, more=given, **every))
            self.has_had_all(what, job)


    def processes(self, kind):
        """Two of one trainer, which are one replica."""
        what, job = f"{kind}, two processes of a program", f"{kind}-ddp"
        launcher = [str(self.python.with_name("torchrun")), "--nproc-per-node=2", "--standalone"]
        told = self.ended(what, Program(
            self, job, kind, launcher if kind == "huggingface" else (), ddp=True,
            more="dict(group=lambda: dist.new_group(backend='gloo'))"))
        self.has_had_all(what, job)
        self.check(f"{what}: {STEPS} steps", len(told["rates"]) == STEPS, told["rates"])

    def printed(self, package):
        """The examples of docs/python.md."""
        program = Program(self, "", f"printed:{package}")
        told = program.finish()
        self.check(f"docs/python.md's lines with {package}", told is not None and told["ended"] and
                   told["examples"] == 3 * 250, program.said() if told is None else told)


def install(checks, venv):
    """Its Python; None: PyPI does not give the packages."""
    python = venv / "bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        done = subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=INSTALL_S, check=False)
        if done.returncode != 0:
            checks.skip("the trainers", "PyPI does not give them: " + done.stdout.strip()[-300:])
            return None
    told = subprocess.run([python, "-m", "pip", "list", "--format=freeze"], text=True,
                          stdout=subprocess.PIPE, check=True).stdout.split()
    print("with", *(line for line in told if line.split("==")[0] in PACKAGES), flush=True)
    return python


def run(checks, options):
    with tempfile.TemporaryDirectory(prefix="monsoon-trainers-") as folder:
        python = install(checks, options.venv or pathlib.Path(folder) / "venv")
        if python is None:
            return
        with LocalCluster(ps=2, workers=0, bin_dir=options.bin,
                          settings=["heartbeat_ms: 200", "lost_after_ms: 3000"]) as cluster:
            run_ = Run(checks, options, cluster, folder, python)
            for kind in options.kinds:
                run_.alone(kind)
                run_.late(kind)
                run_.together(kind)
                run_.killed(kind)
            for package in ("lightning.pytorch", "transformers", "accelerate"):
                run_.printed(package)
            for kind in set(options.kinds) & {"lightning", "huggingface"}:
                run_.options(kind)
                run_.processes(kind)
