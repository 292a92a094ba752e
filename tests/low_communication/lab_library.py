"""lab.h in Python: a real shard at virtual time. Vectors are contiguous float32 tensors."""

import ctypes
import os
import pathlib

_POINTER = ctypes.c_void_p
_FUNCTIONS = {
    "lab_error": (ctypes.c_char_p, []),
    "lab_layout": (ctypes.c_uint64, [ctypes.c_char_p, _POINTER, ctypes.c_uint64]),
    "lab_create": (_POINTER, [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint64, _POINTER,
                              ctypes.c_uint64]),
    "lab_destroy": (None, [_POINTER]),
    "lab_fragments": (ctypes.c_uint32, [_POINTER]),
    "lab_stripe_floats": (ctypes.c_uint64, [_POINTER]),
    "lab_stripes": (ctypes.c_uint32, [_POINTER]),
    "lab_fragment_of": (None, [_POINTER, _POINTER]),
    "lab_push": (ctypes.c_int, [_POINTER, ctypes.c_uint32, _POINTER, ctypes.c_float, _POINTER]),
    "lab_fetch": (ctypes.c_int, [_POINTER, ctypes.c_uint32, ctypes.c_int, _POINTER]),
    "lab_pass": (ctypes.c_int, [_POINTER, ctypes.c_uint32]),
    "lab_read": (ctypes.c_int, [_POINTER, _POINTER]),
    "lab_local_steps": (ctypes.c_uint32, [_POINTER, ctypes.c_uint32, ctypes.c_double]),
    "lab_advance": (None, [_POINTER, ctypes.c_double]),
}
_loaded = None


class LabError(Exception):
    """What the library says is wrong."""


def _library():
    global _loaded
    if _loaded is None:
        built = pathlib.Path("tests/low_communication/liblab.so")
        root = pathlib.Path(__file__).resolve().parents[2]
        # In a test's runfiles, else where a build leaves it.
        places = [os.environ.get("MONSOON_LAB"), root / "bazel-bin" / built]
        if "TEST_SRCDIR" in os.environ:
            places = [pathlib.Path(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"], built)]
        found = [str(place) for place in places if place and os.path.exists(place)]
        if not found:
            raise LabError("liblab.so is missing: bazel build --config=opt "
                           "//tests/low_communication:liblab.so")
        _loaded = ctypes.CDLL(found[0])
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(_loaded, name)
            function.restype, function.argtypes = result, arguments
    return _loaded


def _error():
    return LabError(_library().lab_error().decode())


def layout(model):
    """(floats of the vector, offsets of the tensors) of a model in text format."""
    offsets = (ctypes.c_uint64 * (model.count("tensor {") + 1))()
    floats = _library().lab_layout(model.encode(), offsets, len(offsets))
    if floats == 0:
        raise _error()
    return floats, list(offsets[:-1])


class Lab:
    """One shard with its job; sessions of all workers are open. See lab_shard.h."""

    def __init__(self, model, downpour, stripe_bytes, initial):
        self._library = _library()
        self._lab = self._library.lab_create(model.encode(), downpour.encode(), stripe_bytes,
                                             initial.data_ptr(), initial.numel())
        if not self._lab:
            raise _error()
        self.fragments = self._library.lab_fragments(self._lab)
        self.slices = self._slices(initial.numel())

    def _slices(self, floats):
        """[(begin, end), ...] of each fragment."""
        of = (ctypes.c_uint32 * self._library.lab_stripes(self._lab))()
        self._library.lab_fragment_of(self._lab, of)
        width = self._library.lab_stripe_floats(self._lab)
        slices = [[] for _ in range(self.fragments)]
        for stripe, fragment in enumerate(of):
            begin, end = stripe * width, min((stripe + 1) * width, floats)
            mine = slices[fragment]
            if mine and mine[-1][1] == begin:
                mine[-1] = (mine[-1][0], end)
            else:
                mine.append((begin, end))
        return slices

    def close(self):
        if self._lab:
            self._library.lab_destroy(self._lab)
            self._lab = None

    def _checked(self, result):
        if result < 0:
            raise _error()
        return result

    def push(self, worker, difference, weight):
        """(fragment, stripes, bytes, staleness of all stripes together)."""
        told = (ctypes.c_int64 * 4)()
        self._checked(self._library.lab_push(self._lab, worker, difference.data_ptr(), weight,
                                             told))
        return tuple(told)

    def fetch(self, worker, fragment, out):
        """False, and nothing is done: the round is open. `fragment` None: all."""
        return bool(self._checked(self._library.lab_fetch(
            self._lab, worker, -1 if fragment is None else fragment, out.data_ptr())))

    def leave(self, worker):
        self._checked(self._library.lab_pass(self._lab, worker))

    def read(self, out):
        self._checked(self._library.lab_read(self._lab, out.data_ptr()))

    def local_steps(self, worker, step_ms):
        return self._library.lab_local_steps(self._lab, worker, step_ms)

    def advance(self, seconds):
        self._library.lab_advance(self._lab, seconds)
