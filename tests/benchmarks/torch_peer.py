"""Starts torch_side.py with an interpreter that has PyTorch, and says why where
there is none worth comparing with.

Debian's PyTorch (python3-torch, with libopenblas0) is what every machine with
Debian can have. Others, named by MONSOON_TORCH_PYTHON (interpreters, joined by
':'), are reported beside it; peers.py has the newest.
"""

import json
import os
import subprocess

SIDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_side.py")
DEBIAN = "/usr/bin/python3"
DATA = "/usr/share/datasets/fashion-mnist"


class NoPeer(Exception):
    """Its text is the reason."""


class TorchPeer:
    """A running torch_side.py. Raises NoPeer if it cannot serve."""

    def __init__(self, python=DEBIAN, core=None):
        """`core`: the only one that it may use."""
        if not os.path.exists(python):
            raise NoPeer(f"there is no {python}")
        if subprocess.run([python, "-c", "import torch"], capture_output=True,
                          check=False).returncode != 0:
            raise NoPeer(f"{python} has no PyTorch (Debian: python3-torch libopenblas0)")
        self._process = subprocess.Popen(
            [python, SIDE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            preexec_fn=pin_to(core))
        hello = self.ask("hello")
        self.name = f"PyTorch {hello['version']}"
        if not hello["blas"]:
            self.close()
            raise NoPeer(f"{self.name} runs on the reference BLAS, which is no match "
                         "(Debian: libopenblas0)")
        self.name += f" ({'+'.join(hello['blas'])})"
        self.ask("load", folder=DATA)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def close(self):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def ask(self, operation, **arguments):
        self._process.stdin.write(json.dumps({"op": operation, **arguments}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"torch_side.py ended in {operation}, see its error above")
        return json.loads(answer)


def pin_to(core):
    """A preexec function; None: nothing to do."""
    return None if core is None else lambda: os.sched_setaffinity(0, {core})


def other_pythons():
    return [path for path in os.environ.get("MONSOON_TORCH_PYTHON", "").split(":") if path]
