"""The package's exceptions. Each message says what was wrong, where, and what to do."""

from __future__ import annotations

from typing import Dict, Optional, Type


class MonsoonError(Exception):
    """The base of all exceptions of this package.

    `code` is the name of the library's error code, "UNAVAILABLE", where there is one.
    """

    code: Optional[str] = None

    def __init__(self, message: str, code: Optional[str] = None) -> None:
        super().__init__(message)
        self.code = code if code is not None else type(self).code


class InvalidArgument(MonsoonError, ValueError):
    """A setting, a tensor or an argument that cannot be right."""

    code = "INVALID_ARGUMENT"


class SettingsDiffer(InvalidArgument):
    """A job of this name runs, and this program's settings or tensors are others."""


class UnsupportedTensor(InvalidArgument, TypeError):
    """A parameter or gradient of a kind that does not travel; its name is in the message."""


class JobFailed(MonsoonError):
    """The job has failed; the message is its reason."""

    code = "ABORTED"


class ProgramDiverged(MonsoonError):
    """What this program keeps by itself (its optimizer's moments, its buffers) is not finite, and
    the job's parameters are. It has left the job, which goes on without it; its batches go to
    others. Start it again: it begins with the job's parameters and a new optimizer."""

    code = "OUT_OF_RANGE"


class JobCancelled(MonsoonError):
    """The job was cancelled, or this replica is leaving it."""

    code = "CANCELLED"


class JobNotFound(MonsoonError, LookupError):
    """No job of this name or id."""

    code = "NOT_FOUND"


class Unreachable(MonsoonError, ConnectionError):
    """The coordinator or a shard does not answer, or the helper process dies again and
    again."""

    code = "UNAVAILABLE"


class TimedOut(MonsoonError, TimeoutError):
    """What was waited for did not happen in time."""

    code = "DEADLINE_EXCEEDED"


class OutOfResources(MonsoonError):
    """Memory, on this machine or within a parameter server's limit, is not enough."""

    code = "RESOURCE_EXHAUSTED"


class NotNow(MonsoonError, RuntimeError):
    """The call is right but comes at the wrong time."""

    code = "FAILED_PRECONDITION"


class JobEnded(NotNow):
    """The newest job of the name had ended before this program came, and its model is not to be
    had, or was not to be loaded (join(on_ended=...))."""


class ModelChanged(NotNow):
    """The program has made another model of the one that it joined with, or has changed values
    that would be lost; the names of the tensors are in the message."""


class VersionsDiffer(NotNow):
    """Package, library or cluster are of different versions; the message has both."""


class Forked(NotNow):
    """A process forked after the job was joined has called it."""


class Internal(MonsoonError):
    """A mistake of Monsoon's own."""

    code = "INTERNAL"


class DataError(MonsoonError):
    """Data were damaged or could not be read while the job ran."""


class LibraryNotFound(MonsoonError, ImportError):
    """libmonsoon.so, or a program that belongs to it, is not where it was looked for."""


# The codes of worker/client/monsoon.h.
CODES: Dict[int, Type[MonsoonError]] = {
    1: JobCancelled,
    2: MonsoonError,
    3: InvalidArgument,
    4: TimedOut,
    5: JobNotFound,
    8: OutOfResources,
    9: NotNow,
    10: JobFailed,
    11: ProgramDiverged,
    13: Internal,
    14: Unreachable,
}


def of_code(code: int, message: str) -> MonsoonError:
    """The exception for an error code of the library."""
    kind = CODES.get(code, MonsoonError)
    return kind(message or "error without a message", kind.code or "UNKNOWN")
