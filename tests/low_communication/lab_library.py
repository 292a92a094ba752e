"""lab.cc in Python: a real shard at virtual time, in a process of its own. Vectors are contiguous
float32 tensors."""

import os
import pathlib
import struct
import subprocess

import numpy


class LabError(Exception):
    """What the lab says is wrong."""


def _program():
    built = pathlib.Path("tests/low_communication/lab")
    root = pathlib.Path(__file__).resolve().parents[2]
    # In a test's runfiles, else where a build leaves it.
    places = [os.environ.get("MONSOON_LAB"), root / "bazel-bin" / built]
    if "TEST_SRCDIR" in os.environ:
        places = [pathlib.Path(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"], built)]
    found = [str(place) for place in places if place and os.path.exists(place)]
    if not found:
        raise LabError("the program lab is missing: bazel build --config=opt "
                       "//tests/low_communication:lab")
    return found[0]


def _text(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _vector(tensor):
    # tobytes, not the tensor's own buffer: torch's numpy() shares memory only.
    data = tensor.detach().numpy().tobytes()
    return struct.pack("<Q", len(data)) + data


class _Process:
    """Answers questions as lab.cc has them, until it is closed or nobody has it any more."""

    def __init__(self):
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", _program()], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE)

    def ask(self, letter, *arguments):
        """The number that the answer begins with."""
        self._process.stdin.write(letter.encode() + b"".join(arguments))
        self._process.stdin.flush()
        number, = self.numbers("q")
        if number == -1:
            raise LabError(self.array("u1").tobytes().decode())
        return number

    def _read(self, size):
        data = self._process.stdout.read(size)
        if len(data) < size:
            raise LabError("the lab has ended")
        return data

    def numbers(self, kinds):
        return struct.unpack("<" + kinds, self._read(struct.calcsize("<" + kinds)))

    def array(self, kind):
        size, = self.numbers("Q")
        return numpy.frombuffer(self._read(size), kind)

    def close(self):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


def layout(model):
    """(floats of the vector, offsets of the tensors) of a model in text format."""
    process = _Process()
    try:
        floats = process.ask("L", _text(model))
        return floats, [int(offset) for offset in process.array("<u8")]
    finally:
        process.close()


class Lab:
    """One shard with its job; sessions of all workers are open. See lab_shard.h."""

    def __init__(self, model, downpour, stripe_bytes, initial):
        self._process = _Process()
        try:
            self.fragments = self._process.ask(
                "C", _text(model), _text(downpour), struct.pack("<Q", stripe_bytes),
                _vector(initial))
            self.slices = self._slices(initial.numel())
        except BaseException:
            self.close()
            raise

    def _slices(self, floats):
        """[(begin, end), ...] of each fragment."""
        width, = self._process.numbers("Q")
        slices = [[] for _ in range(self.fragments)]
        for stripe, fragment in enumerate(self._process.array("<u4")):
            begin, end = stripe * width, min((stripe + 1) * width, floats)
            mine = slices[fragment]
            if mine and mine[-1][1] == begin:
                mine[-1] = (mine[-1][0], end)
            else:
                mine.append((begin, end))
        return slices

    def close(self):
        if self._process:
            self._process.close()
            self._process = None

    def _take(self, out):
        out.numpy()[:] = self._process.array("<f4").reshape(out.shape)

    def push(self, worker, difference, weight):
        """(fragment, stripes, bytes, staleness of all stripes together)."""
        fragment = self._process.ask("P", struct.pack("<If", worker, weight), _vector(difference))
        return (fragment, *self._process.numbers("qqq"))

    def fetch(self, worker, fragment, out):
        """False, and nothing is done: the round is open. `fragment` None: all."""
        fetched = self._process.ask(
            "F", struct.pack("<Ii", worker, -1 if fragment is None else fragment), _vector(out))
        if fetched:
            self._take(out)
        return bool(fetched)

    def leave(self, worker):
        self._process.ask("X", struct.pack("<I", worker))

    def read(self, out):
        self._process.ask("R")
        self._take(out)

    def local_steps(self, worker, step_ms):
        return self._process.ask("S", struct.pack("<Id", worker, step_ms))

    def advance(self, seconds):
        self._process.ask("A", struct.pack("<d", seconds))
