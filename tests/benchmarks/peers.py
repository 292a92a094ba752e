"""The newest peers: torch and TensorFlow from PyPI, in the virtual environment that
peers_venv.sh makes. Starts their sides and speaks with them: a JSON request a line, an
answer a line.
"""

import json
import os
import subprocess
import threading

import torch_peer
from torch_peer import DATA, NoPeer

HERE = os.path.dirname(os.path.abspath(__file__))
VENV = os.environ.get("MONSOON_PEERS_VENV") or os.path.expanduser("~/.cache/monsoon-peers")
VENV_PYTHON = os.path.join(VENV, "bin", "python3")
# No request takes longer; a side that does is stuck, and is killed.
DEADLINE_S = 900
# Without it torch's larger arrays come fresh from the kernel each step.
TORCH_MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(512 << 20), "MALLOC_TRIM_THRESHOLD_": str(512 << 20)}


def torch_python():
    """That of MONSOON_TORCH_PYTHON, else the virtual environment's; NoPeer: there is none."""
    return _present(torch_peer.other_pythons()[:1] or [VENV_PYTHON])


def tensorflow_python():
    return _present([VENV_PYTHON])


def _present(paths):
    for path in paths:
        if os.path.exists(path):
            return path
    raise NoPeer("run tests/benchmarks/peers_venv.sh, which installs torch and TensorFlow")


class Side:
    """A running side, bound to `cores` if given. ask() may be cut in two, so that several
    compute at once: start(), then answer(). `served`: it speaks with others and answers
    nothing, and is killed in the end."""

    def __init__(self, command, cores=None, environment=None, served=False):
        self._title = os.path.basename(command[1])
        # A killed benchmark leaves no side behind.
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *command], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})},
            preexec_fn=None if cores is None else lambda: os.sched_setaffinity(0, cores))
        self._operation = "its start"
        self._served = served

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def close(self):
        self._process.stdin.close()
        if self._served:
            self._process.kill()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def start(self, operation, **arguments):
        self._operation = operation
        self._process.stdin.write(json.dumps({"op": operation, **arguments}) + "\n")
        self._process.stdin.flush()

    def answer(self):
        timer = threading.Timer(DEADLINE_S, self._process.kill)
        timer.start()
        try:
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        if not line:
            raise RuntimeError(f"{self._title} ended in {self._operation}, see its error above "
                               f"(killed after {DEADLINE_S} s)")
        return json.loads(line)

    def ask(self, operation, **arguments):
        self.start(operation, **arguments)
        return self.answer()


class TrainingPeer:
    """One process of torch or TensorFlow that trains with so many threads on `cores`. It
    computes in the way that is fastest here, which is found for each model once."""

    # Steps of a turn in the search for the fastest way.
    SEARCH_STEPS = {"mlp": 1000, "lenet": 40}
    SEARCH_BATCH = 64

    def __init__(self, kind, threads, cores):
        self._threads = {"threads": threads} if kind == "torch" else {}
        if kind == "torch":
            command = [torch_python(), os.path.join(HERE, "torch_side.py")]
            environment = {**TORCH_MALLOC, "OMP_NUM_THREADS": str(threads)}
        else:
            command = [tensorflow_python(), os.path.join(HERE, "tf_side.py"), str(threads)]
            environment = {}
        self._side = Side(command, cores, environment)
        title = {"torch": "PyTorch", "tensorflow": "TensorFlow"}[kind]
        self.name = f"{title} {self._side.ask('hello')['version'].partition('+')[0]}"
        self._side.ask("load", folder=DATA)
        self._variants = {}

    def close(self):
        self._side.close()

    def variant(self, model):
        if model not in self._variants:
            found = self._side.ask("fastest_variant", model=model, batch=self.SEARCH_BATCH,
                                   steps=self.SEARCH_STEPS[model], **self._threads)
            self._variants[model] = found["variant"]
            self.rates = found["rates"]
        return self._variants[model]

    def full_name(self, model):
        return f"{self.name} ({self.variant(model) or 'plain'})"

    def ask(self, operation, model, **arguments):
        return self._side.ask(operation, model=model, variant=self.variant(model),
                              **self._threads, **arguments)
