"""The newest peers: torch and TensorFlow from PyPI, in the virtual environment that
peers_venv.sh makes. Starts their sides and speaks with them: a JSON request a line, an
answer a line.
"""

import os
import subprocess
import typing

import torch_peer
from side_process import SideProcess
from torch_peer import DATA, NoPeer

HERE = os.path.dirname(os.path.abspath(__file__))
VENV = os.environ.get("MONSOON_PEERS_VENV") or os.path.expanduser("~/.cache/monsoon-peers")
VENV_PYTHON = os.path.join(VENV, "bin", "python3")
# No request takes longer; a side that does is stuck, and is killed.
DEADLINE_S = 900
# What else than its default a peer may be fastest with; the best is searched. In bytes: glibc
# takes "512M" for 512, and then each array comes fresh from the kernel: half of the rate.
ENVIRONMENTS = {
    "torch": {"": {}, "large malloc threshold": {"MALLOC_MMAP_THRESHOLD_": str(512 << 20),
                                                 "MALLOC_TRIM_THRESHOLD_": str(512 << 20)}},
    "tensorflow": {"": {}},  # without oneDNN it was never faster
}
TITLES = {"torch": "PyTorch", "tensorflow": "TensorFlow"}


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


class Side(SideProcess):
    """A running side, bound to `cores` if given. ask() may be cut in two, so that several
    compute at once: start(), then answer(). `served`: it speaks with others and answers
    nothing, and is killed in the end."""

    def __init__(self, command, cores=None, environment=None, served=False):
        # A killed benchmark leaves no side behind.
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *command], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})},
            preexec_fn=None if cores is None else lambda: os.sched_setaffinity(0, cores))
        super().__init__(process, os.path.basename(command[1]), DEADLINE_S)
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


class Way(typing.NamedTuple):
    """What a model is fastest with: one of the peer's ENVIRONMENTS and one of its side's
    VARIANTS; `rates`: of all that were tried, by name."""
    environment: str
    variant: str
    rates: dict

    @property
    def name(self):
        return name_of(self.environment, self.variant)


def name_of(environment, variant):
    return (variant or "plain") + (f", {environment}" if environment else "")


def search(environments, rate, fastest_variant):
    """The fastest way: first the environment, with the plain variant, then the variant.
    rate(environment) trains once; fastest_variant(environment) answers as the sides do."""
    rates = {}
    for turn in range(3 if len(environments) > 1 else 0):
        for name in environments:
            told = rate(name)
            if turn > 0:  # the first one warms up
                rates[name] = max(rates.get(name, 0), told)
    best = max(environments, key=lambda name: rates.get(name, 0))
    found = fastest_variant(best)
    others = {name_of(name, ""): told for name, told in rates.items() if name != best}
    return Way(best, found["variant"], {
        **others, **{name_of(best, each): told for each, told in found["rates"].items()}})


class TrainingPeer:
    """torch or TensorFlow that trains with so many threads on `cores`, in a process for each of
    its ENVIRONMENTS. It computes in the way that is fastest here, which is searched for each
    model once."""

    # Steps of a turn in the search for the fastest way.
    SEARCH_STEPS = {"mlp": 1000, "lenet": 40}
    SEARCH_BATCH = 64

    def __init__(self, kind, threads, cores):
        self._kind = kind
        self._threads = {"threads": threads} if kind == "torch" else {}
        if kind == "torch":
            command = [torch_python(), os.path.join(HERE, "torch_side.py")]
            common = {"OMP_NUM_THREADS": str(threads)}
        else:
            command = [tensorflow_python(), os.path.join(HERE, "tf_side.py"), str(threads)]
            common = {}
        self._sides, self._ways = {}, {}
        for name, environment in ENVIRONMENTS[kind].items():
            side = self._sides[name] = Side(command, cores, {**common, **environment})
            self.name = f"{TITLES[kind]} {side.ask('hello')['version'].partition('+')[0]}"
            side.ask("load", folder=DATA)

    def close(self):
        for side in self._sides.values():
            side.close()

    def way(self, model):
        if model not in self._ways:
            common = {"model": model, "batch": self.SEARCH_BATCH,
                      "steps": self.SEARCH_STEPS[model], **self._threads}
            self._ways[model] = search(
                list(self._sides),
                lambda name: self._sides[name].ask("train", **common, seed=1, rate=0.02,
                                                   variant="")["examples_per_s"],
                lambda name: self._sides[name].ask("fastest_variant", **common))
        return self._ways[model]

    def environment(self, model):
        """That of the fastest way."""
        return ENVIRONMENTS[self._kind][self.way(model).environment]

    def full_name(self, model):
        return f"{self.name} ({self.way(model).name})"

    def ask(self, operation, model, **arguments):
        way = self.way(model)
        return self._sides[way.environment].ask(operation, model=model, variant=way.variant,
                                                **self._threads, **arguments)
