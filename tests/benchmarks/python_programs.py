"""Starts the training processes of the benchmarks of the Python package, and a cluster
for them. Needs NumPy and no PyTorch; where that is missing, Program raises NoPeer.
"""

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile

import measure
from side_process import SideProcess
from torch_peer import DEBIAN, NoPeer

HERE = os.path.dirname(os.path.abspath(__file__))
SIDE = os.path.join(HERE, "python_side.py")
sys.path.insert(0, os.path.join(HERE, "..", "..", "python"))
import monsoon as ms  # noqa: E402

# No request takes longer; a process that does is stuck, and is killed.
DEADLINE_S = 1800
TITLES = {"lenet": "LeNet", "gpt": "byte GPT"}
TRANSPORTS = {"auto": None, "grpc": "grpc"}
TASKS = ("lenet", "gpt")
# Outer optimizers of local steps; what they are, python_ways.py says.
OUTER = ("SGD", "delayed Nesterov")


class Program(SideProcess):
    """A running python_side.py, bound to `cores` if given. ask() may be cut in two, so that
    several compute at once: start(), then answer()."""

    def __init__(self, transport="auto", cores=None):
        if not os.path.exists(DEBIAN) or subprocess.run(
                [DEBIAN, "-c", "import torch, numpy"], capture_output=True,
                check=False).returncode != 0:
            raise NoPeer(f"{DEBIAN} has no PyTorch (Debian: python3-torch libopenblas0)")
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        environment.pop("MONSOON_TRANSPORT", None)
        if TRANSPORTS[transport]:
            environment["MONSOON_TRANSPORT"] = TRANSPORTS[transport]
        # A killed benchmark leaves no program behind.
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", DEBIAN, SIDE], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, env=environment,
            preexec_fn=None if cores is None else lambda: os.sched_setaffinity(0, cores))
        super().__init__(process, os.path.basename(SIDE), DEADLINE_S)

    def __enter__(self):
        return self

    def __exit__(self, kind, *unused):
        self._process.stdin.close()
        if kind is not None:
            # It may wait for another one that is gone.
            self._process.kill()
        self._process.wait()
        self._process.stdout.close()


def versions():
    """In words; raises NoPeer where there is no PyTorch. All contenders here compute with the
    same one, so the reference BLAS is no reason to refuse, but it is told: steps are slow
    with it, and what is added to them looks small."""
    with Program() as program:
        told = program.ask("hello")
    blas = "+".join(told["blas"]) or "REFERENCE BLAS, not to be quoted: install libopenblas0"
    return (f"PyTorch {told['torch']} ({blas}), NumPy {told['numpy']}, Python "
            f"{told['python']}, monsoon {ms.__version__}")


@contextlib.contextmanager
def cluster(transport="auto"):
    """A coordinator and one ps of their own; yields the address."""
    before = os.environ.pop("MONSOON_TRANSPORT", None)
    if TRANSPORTS[transport]:
        os.environ["MONSOON_TRANSPORT"] = TRANSPORTS[transport]
    try:
        running = ms.local_cluster(ps=1).start()
    finally:
        os.environ.pop("MONSOON_TRANSPORT", None)
        if before is not None:
            os.environ["MONSOON_TRANSPORT"] = before
    try:
        yield running.address
    finally:
        running.stop()


def cores_of(workers):
    """A set of cores for each worker, and in words. With a core for each and one over, one
    each; else all of them, so that those who wait for each other are not put on one core."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > workers:
        return [{core} for core in cores[:workers]], "a core a worker"
    return [set(cores)] * workers, f"{len(cores)} cores for all"


def run_together(programs, server, request, task):
    """The answers of all `programs` to one way's run; program i is rank i. `server`: one more
    that serves the ways that need it, else None."""
    with tempfile.TemporaryDirectory(prefix="monsoon-") as folder:
        store = os.path.join(folder, "store")
        common = {"task": task, "world": len(programs), "store": store, "warm_up": 0,
                  "copy_s": None, **request}
        if server is not None:
            server.start("serve", **common)
        for rank, program in enumerate(programs):
            first = {} if rank == 0 else {"copy_s": None, "final": False}
            program.start("run", **{**common, "rank": rank, **first})
        answers = [program.answer() for program in programs]
        if server is not None:
            server.answer()
    return answers


def demand_learning(who, losses, at_most):
    """The mean of the newest losses of a run must be at most so much."""
    newest = statistics.mean(losses[-max(1, len(losses) // 10):])
    if not newest <= at_most:
        raise RuntimeError(f"{who} ends with a loss of {newest:.3f}, not at most {at_most:g}: it "
                           "did not learn")


def run_program(measure_it, parser):
    """As measure.run_program, with the versions before the table."""
    try:
        print(versions() + ".")
    except NoPeer as reason:
        measure.log(str(reason))
    sys.stdout.flush()
    measure.run_program(measure_it, parser)
