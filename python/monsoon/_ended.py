"""What a program gets that comes when the newest job of its name has ended."""

from __future__ import annotations

import re
import sys
from typing import Any, Callable, Dict, List, Mapping, Tuple

import numpy

from . import errors
from .client import Client
from .layout import Layout
from .replica import Batch, Event, EventKind

ON_ENDED = ("load", "new", "raise")
# As coordinator/replicas/entering.cc words it.
_SAYS_ENDED = re.compile(r"(?:the newest, |job )(\S+?),? has ended: (\w+)")
_ALIGNED = 16  # values: 64 bytes


def check(on_ended: str) -> None:
    if on_ended not in ON_ENDED:
        raise errors.InvalidArgument(f"on_ended={on_ended!r}: there are {', '.join(ON_ENDED)}")


def enter(join: Callable[[bool], Any], load: Callable[[str], Mapping[str, Any]], layout: Layout, *,
          create: bool, on_ended: str) -> Any:
    """The replica that `join(create)` makes; where the newest job of its name has succeeded and
    on_ended is "load", an EndedReplica with `load(id)`, its arrays by name. Of one that failed or
    was cancelled there is nothing to load, and a new one is made."""
    if on_ended == "new":
        return join(create)
    try:
        return join(False)
    except (errors.JobNotFound, errors.NotNow) as error:
        ended = _SAYS_ENDED.search(str(error))
        if ended is None and not (create and isinstance(error, errors.JobNotFound)):
            raise
    if ended is None:
        return join(True)
    job, state = ended[1], ended[2]
    if on_ended == "raise" or (state != "SUCCEEDED" and not create):
        raise errors.JobEnded(f"job {job} has ended: {state}; with on_ended=\"load\" a program "
                              "gets the model of a job that succeeded, with \"new\" it trains a "
                              "new one")
    if state != "SUCCEEDED":
        return join(True)
    try:
        arrays = load(job)
    except errors.MonsoonError as error:
        raise errors.JobEnded(f"job {job} has ended: {state}, and its model cannot be loaded here: "
                              f"{error}; on_ended=\"new\" trains a new job") from error
    print(f"monsoon: job {job} has ended ({state}): its model is loaded, and nothing is trained; "
          "on_ended=\"new\" or another name trains a new job", file=sys.stderr)
    return EndedReplica(job, layout, arrays)


class EndedReplica:
    """The methods of Replica for a job that had ended before this program came: the first event
    is its end, with its parameters."""

    local_steps = 0
    evaluates_here = False

    def __init__(self, job: str, layout: Layout, arrays: Mapping[str, Any]) -> None:
        self.job_id = job
        self.warnings: List[str] = []
        self._values: List[Tuple[int, numpy.ndarray]] = []
        self.offsets: List[int] = []
        self.size = 0
        for entry in layout.entries:
            array = arrays.get(entry.name)
            if array is None or tuple(array.shape) != tuple(entry.shape):
                has = "none of this name" if array is None else f"one of {tuple(array.shape)}"
                raise errors.JobEnded(
                    f"job {job} has ended, and its model is another: {entry.name} is of "
                    f"{tuple(entry.shape)} here, and it has {has}; on_ended=\"new\" trains a new "
                    "job")
            self.offsets.append(self.size)
            self._values.append((self.size, numpy.ravel(array)))
            self.size += -(-entry.size // _ALIGNED) * _ALIGNED
        self.parameters = numpy.zeros(self.size, numpy.float32)
        self.gradient = numpy.zeros(self.size, numpy.float32)
        self.evaluated = numpy.zeros(0, numpy.float32)

    def begin(self) -> Event:
        for offset, values in self._values:
            self.parameters[offset:offset + values.size] = values
        self._values = []
        return Event(EventKind.ENDED, parameters_changed=True)

    def draw(self) -> Tuple[List[Batch], Event]:
        return [], Event(EventKind.ENDED)

    def no_more_samples(self) -> Event:
        return Event(EventKind.ENDED)

    def finish(self) -> Event:
        return Event(EventKind.ENDED)

    def fetch_rows(self, table: int, rows: numpy.ndarray, values: numpy.ndarray) -> Event:
        raise errors.JobEnded(f"job {self.job_id} had ended before this program came, which can "
                              "fetch no rows of its tables; on_ended=\"new\" trains a new job")

    def push_rows(self, table: int, rows: numpy.ndarray, values: numpy.ndarray) -> None:
        self.fetch_rows(table, rows, values)

    def stats(self) -> Dict[str, int]:
        return {}

    def leave(self) -> None:
        """Nothing was joined."""
