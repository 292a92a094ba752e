"""libmonsoon.so by ctypes: its structures and signatures as in worker/client/monsoon.h.

The only state of the package: the library, loaded once. ctypes gives the interpreter's lock
away during each call, so other threads of the program go on.
"""

from __future__ import annotations

import ctypes as c
from typing import Any, Optional

from . import _programs
from ._version import __version__
from .errors import LibraryNotFound, VersionsDiffer

ABI = 6
INTERRUPTED = 100


class Tensor(c.Structure):
    _fields_ = [("name", c.c_char_p), ("shape", c.POINTER(c.c_uint64)),
                ("dimensions", c.c_size_t), ("kind", c.c_int),
                ("aliases", c.POINTER(c.c_char_p)), ("alias_count", c.c_size_t)]


class JoinOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("coordinator", c.c_char_p), ("job", c.c_char_p),
                ("tensors", c.POINTER(Tensor)), ("tensor_count", c.c_size_t),
                ("only_enter", c.c_int), ("sidecar", c.c_char_p), ("log_file", c.c_char_p),
                ("connect_timeout_ms", c.c_uint32), ("tables", c.c_char_p), ("format", c.c_int),
                ("replay_window_bytes", c.c_uint64)]


class Event(c.Structure):
    _fields_ = [("kind", c.c_int), ("parameters_changed", c.c_int), ("discarded", c.c_int)]


class Batch(c.Structure):
    _fields_ = [("samples", c.POINTER(c.c_uint32)), ("count", c.c_size_t),
                ("epoch", c.c_uint32), ("left", c.c_size_t)]


class StepInfo(c.Structure):
    _fields_ = [("size", c.c_size_t), ("batches", c.c_size_t), ("examples", c.c_uint64),
                ("loss", c.c_double), ("has_loss", c.c_int), ("correct", c.c_uint64),
                ("has_correct", c.c_int), ("unless_due", c.c_int),
                ("zero_gradient", c.c_int), ("absent", c.POINTER(c.c_uint32)),
                ("absent_count", c.c_size_t)]


class Stream(c.Structure):
    _fields_ = [("was_read", c.c_int), ("state", c.c_void_p), ("bytes", c.c_size_t),
                ("worker", c.c_uint32), ("push", c.c_uint64), ("read_again", c.c_uint64)]


class Metric(c.Structure):
    _fields_ = [("name", c.c_char_p), ("value", c.c_double)]


class Stats(c.Structure):
    _fields_ = [("size", c.c_size_t), ("steps", c.c_uint64), ("examples", c.c_uint64),
                ("fetches", c.c_uint64), ("pushes", c.c_uint64), ("refused", c.c_uint64),
                ("bytes_fetched", c.c_uint64), ("bytes_pushed", c.c_uint64),
                ("staleness", c.c_int64), ("staleness_max", c.c_uint64),
                ("sessions", c.c_uint64), ("evaluations", c.c_uint64),
                ("replicas", c.c_uint32), ("worker", c.c_uint32), ("sidecar_pid", c.c_uint32),
                ("local_steps", c.c_uint32)]


_FLOATS = c.POINTER(c.c_float)
_EVENT = c.POINTER(Event)
_ROWS = c.POINTER(c.c_uint64)
# Name: (what it returns, what it takes).
SIGNATURES = {
    "monsoon_abi": (c.c_uint32, []),
    "monsoon_version": (c.c_char_p, []),
    "monsoon_last_error": (c.c_char_p, []),
    "monsoon_join": (c.c_int, [c.POINTER(JoinOptions), c.POINTER(c.c_void_p)]),
    "monsoon_job": (c.c_char_p, [c.c_void_p]),
    "monsoon_warnings": (c.c_char_p, [c.c_void_p]),
    "monsoon_size": (c.c_size_t, [c.c_void_p]),
    "monsoon_offset": (c.c_size_t, [c.c_void_p, c.c_size_t]),
    "monsoon_parameters": (_FLOATS, [c.c_void_p]),
    "monsoon_gradient": (_FLOATS, [c.c_void_p]),
    "monsoon_evaluated": (_FLOATS, [c.c_void_p]),
    "monsoon_local_steps": (c.c_uint32, [c.c_void_p]),
    "monsoon_begin": (c.c_int, [c.c_void_p, _EVENT]),
    "monsoon_draw": (c.c_int, [c.c_void_p, c.POINTER(Batch), _EVENT]),
    "monsoon_no_more_samples": (c.c_int, [c.c_void_p, c.POINTER(Event)]),
    "monsoon_finish": (c.c_int, [c.c_void_p, _EVENT]),
    "monsoon_step_is_due": (c.c_int, [c.c_void_p, c.c_size_t, c.POINTER(c.c_int)]),
    "monsoon_step": (c.c_int, [c.c_void_p, c.POINTER(StepInfo), _EVENT]),
    "monsoon_fetch_rows":
        (c.c_int, [c.c_void_p, c.c_size_t, _ROWS, c.c_size_t, _FLOATS, _EVENT]),
    "monsoon_push_rows": (c.c_int, [c.c_void_p, c.c_size_t, _ROWS, c.c_size_t, _FLOATS]),
    "monsoon_take_stream": (c.c_int, [c.c_void_p, c.c_char_p, _EVENT]),
    "monsoon_taken_stream": (Stream, [c.c_void_p]),
    "monsoon_note_position": (c.c_int, [c.c_void_p, c.c_char_p, c.c_char_p, c.c_size_t]),
    "monsoon_report_evaluation":
        (c.c_int, [c.c_void_p, c.POINTER(Metric), c.c_size_t, c.c_char_p, _EVENT]),
    "monsoon_report_divergence": (c.c_int, [c.c_void_p, c.c_char_p, _EVENT]),
    "monsoon_wait": (c.c_int, [c.c_void_p, c.POINTER(Batch), _EVENT]),
    "monsoon_get_stats": (c.c_int, [c.c_void_p, c.POINTER(Stats)]),
    "monsoon_leave": (c.c_int, [c.c_void_p]),
    "monsoon_free": (None, [c.c_void_p]),
}

_loaded: Optional[Any] = None


def load() -> Any:
    """The library, loaded by the first call. Raises LibraryNotFound or VersionsDiffer."""
    global _loaded
    if _loaded is None:
        path = _programs.find("libmonsoon.so", "MONSOON_LIBRARY")
        try:
            # RTLD_LOCAL is ctypes' default: no symbol meets those of other libraries.
            library = c.CDLL(path)
        except OSError as error:
            raise LibraryNotFound(f"{path} cannot be loaded: {error}") from error
        check(library, path)
        _loaded = library
    return _loaded


def check(library: Any, path: str) -> None:
    """Declares the signatures; refuses a library of another interface or version."""
    for name, (result, arguments) in SIGNATURES.items():
        try:
            function = getattr(library, name)
        except AttributeError as error:
            raise VersionsDiffer(f"{path} has no {name}: it is not of this package's version, "
                                 f"{__version__}") from error
        function.restype, function.argtypes = result, arguments
    abi = library.monsoon_abi()
    if abi != ABI:
        raise VersionsDiffer(f"{path} has interface {abi}, this package needs {ABI}; "
                             "install both from one wheel or one build")
    # As `coordinator version` prints it; the version is its first word.
    version = library.monsoon_version().decode().split(" ")[0].split("+")[0]
    if version != __version__:
        raise VersionsDiffer(f"{path} is version {version}, this package is {__version__}; "
                             "install both from one wheel or one build")


def use(library: Optional[Any]) -> Optional[Any]:
    """Puts another library object in place of the loaded one, for tests; returns that one.
    With None the next load() loads."""
    global _loaded
    before, _loaded = _loaded, library
    return before


def sidecar() -> Optional[bytes]:
    """The helper program's path, or None: the library finds it by itself."""
    try:
        return _programs.find("monsoon_sidecar", "MONSOON_SIDECAR").encode()
    except LibraryNotFound:
        return None
