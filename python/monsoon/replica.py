"""One replica of a job: the library's handle with Python's types around it.

Thread safety: one call at a time. A process that forked after the join gets Forked.
"""

from __future__ import annotations

import ctypes as c
import enum
import os
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy

from . import _join_options, _library, errors
from .layout import Layout


class EventKind(enum.IntEnum):
    GO = 0
    EVALUATE = 1
    NOTHING_NOW = 2
    ENDED = 3
    DUE = 4  # step() with unless_due: it was not counted


class Event(NamedTuple):
    """What a call brought: see monsoon_event in worker/client/monsoon.h."""

    kind: EventKind
    parameters_changed: bool = False
    discarded: bool = False


GO = Event(EventKind.GO)


class Batch(NamedTuple):
    """Numbers of samples, int64 of shape (count,), and the epoch from 0."""

    samples: numpy.ndarray
    epoch: int


class Stream(NamedTuple):
    """How far a stream was read (monsoon_stream); state None: nobody has told."""

    state: Optional[bytes]
    worker: int
    push: int
    read_again: int


class _Memory:
    """Owns the handle. The vectors and all views of them keep this alive: the memory is
    freed with the last of them, however long after the job that is."""

    def __init__(self, library: Any, handle: c.c_void_p) -> None:
        self._library, self.handle, self.pid = library, handle, os.getpid()

    def vector(self, address: int, size: int, values: str) -> numpy.ndarray:
        """Of shape (size,) at `address`; `values` as in typestr."""
        return numpy.asarray(_Window(self, address, size, values))

    def __del__(self) -> None:
        if self.handle and self.pid == os.getpid():
            self._library.monsoon_free(self.handle)


class _Window:
    def __init__(self, memory: _Memory, address: int, size: int, values: str) -> None:
        self._memory = memory
        self.__array_interface__ = {"shape": (size,), "typestr": values, "version": 3,
                                    "data": (address, False)}


class Replica:
    """Joined by the constructor; `leave` ends it. Each method raises what errors.CODES says.

    parameters, gradient, evaluated: float32 vectors of `size` values, padding included; with
    `halves` the bits of bfloat16, as int16.
    offsets: where each tensor of the layout begins in them, in values.
    """

    def __init__(self, coordinator: str, job: str, layout: Layout, *, create: bool = True,
                 log_file: Optional[str] = None, connect_timeout_s: float = 30.0,
                 halves: bool = False, replay_window: int = 0) -> None:
        self._lib = _library.load()
        self._memory: Optional[_Memory] = None
        handle = c.c_void_p()
        options, _kept = _join_options.make(coordinator, job, layout, create, log_file,
                                            connect_timeout_s, halves, replay_window)
        code = _library.INTERRUPTED
        while code == _library.INTERRUPTED:
            code = self._lib.monsoon_join(c.byref(options), c.byref(handle))
        if code != 0:
            raise self._join_error(code)
        self._memory = _Memory(self._lib, handle)
        self._handle = handle
        # Made once: a call that only counts takes microseconds, as making these does.
        self._event, self._batch = _library.Event(), _library.Batch()
        self._info = _library.StepInfo(size=c.sizeof(_library.StepInfo), zero_gradient=1)
        self._told = _library.Stats(size=c.sizeof(_library.Stats))
        self._to_event, self._to_batch, self._to_info, self._to_told = (
            c.byref(part) for part in (self._event, self._batch, self._info, self._told))
        self.job_id: str = self._lib.monsoon_job(handle).decode()
        # What is right in the settings and known to train badly.
        self.warnings: List[str] = self._lib.monsoon_warnings(handle).decode().splitlines()
        self.size: int = self._lib.monsoon_size(handle)
        self.offsets: List[int] = [self._lib.monsoon_offset(handle, i)
                                   for i in range(len(layout.entries))]
        self.local_steps: int = self._lib.monsoon_local_steps(handle)
        self.parameters, self.gradient, self.evaluated = (
            self._memory.vector(c.cast(at(handle), c.c_void_p).value or 0, self.size,
                                "<i2" if halves else "<f4")
            for at in (self._lib.monsoon_parameters, self._lib.monsoon_gradient,
                       self._lib.monsoon_evaluated))

    # Of a group of processes, one evaluates.
    evaluates_here = True

    def _join_error(self, code: int) -> errors.MonsoonError:
        error = errors.of_code(code, self._message())
        text = str(error)
        if isinstance(error, errors.InvalidArgument) and " has other settings: " in text:
            return errors.SettingsDiffer(text)
        if isinstance(error, errors.NotNow) and "version" in text:
            return errors.VersionsDiffer(text)
        return error

    def _message(self) -> str:
        text = self._lib.monsoon_last_error()
        return text.decode("utf-8", "replace") if text else ""

    def _checked(self) -> c.c_void_p:
        assert self._memory is not None
        if self._memory.pid != os.getpid():
            raise errors.Forked(f"{self.job_id} was joined by process {self._memory.pid}, and this "
                                f"is its fork {os.getpid()}; only the process that joined may "
                                "call (workers of a DataLoader need not)")
        return self._handle

    def _finish(self, code: int, draws: bool = False) -> Event:
        """What the call came to, in self._event and, where it draws, self._batch."""
        event = self._event
        while code == _library.INTERRUPTED:
            # Python runs its signal handlers here; one that raises ends the wait.
            code = self._lib.monsoon_wait(self._handle, self._to_batch if draws else None,
                                          self._to_event)
        if code != 0:
            raise errors.of_code(code, self._message())
        if not (event.kind or event.parameters_changed or event.discarded):
            return GO
        return Event(EventKind(event.kind), bool(event.parameters_changed),
                     bool(event.discarded))

    def begin(self) -> Event:
        """Waits until the job trains. `parameters` hold its values then; before, this
        program's initial ones, which the job takes if it begins with them."""
        return self._finish(self._lib.monsoon_begin(self._checked(), self._to_event))

    def draw(self) -> Tuple[List[Batch], Event]:
        """The next batches that are leased to this replica, all that are here; none where the
        event is not GO."""
        told, batch = self._draw(), self._batch
        drawn: List[Batch] = []
        more = told.kind is EventKind.GO and batch.count > 0
        while more:
            # A copy by bytes: numpy.ctypeslib.as_array takes ten times as long.
            samples = numpy.frombuffer(c.string_at(batch.samples, 4 * batch.count), numpy.uint32)
            drawn.append(Batch(samples.astype(numpy.int64), batch.epoch))
            more = batch.left > 0
            if more:
                self._draw()  # is here already, and has nothing to tell
        return drawn, told

    def _draw(self) -> Event:
        code = self._lib.monsoon_draw(self._checked(), self._to_batch, self._to_event)
        return self._finish(code, draws=True)

    def no_more_samples(self) -> Event:
        """This program has no more samples (jobs of unknown length): waits for the others'
        end. GO: the session was lost, say it again."""
        return self._finish(self._lib.monsoon_no_more_samples(self._checked(), self._to_event))

    def finish(self) -> Event:
        """Ends the job for all its programs, and waits for that. GO: the session was lost, say
        it again."""
        return self._finish(self._lib.monsoon_finish(self._checked(), self._to_event))

    def step(self, batches: int, *, examples: int = 0, loss: Optional[float] = None,
             correct: Optional[int] = None, unless_due: bool = False,
             absent: Sequence[int] = ()) -> Event:
        """Counts the oldest `batches` drawn. examples 0: those of the batches. unless_due: a
        step that will read the parameters is not counted, and DUE returned. absent: entries of
        the layout without any gradient, rising. Without local steps the gradient is zero after
        GO."""
        info = self._info
        info.absent_count = len(absent)
        if absent:
            info.absent = (c.c_uint32 * len(absent))(*absent)
        info.batches, info.examples, info.unless_due = batches, examples, unless_due
        info.has_loss, info.has_correct = loss is not None, correct is not None
        if loss is not None:
            info.loss = loss
        if correct is not None:
            info.correct = correct
        code = self._lib.monsoon_step(self._checked(), self._to_info, self._to_event)
        return self._finish(code)

    def fetch_rows(self, table: int, rows: numpy.ndarray, values: numpy.ndarray) -> Event:
        """Rows (uint64) of the layout's table to `values` (float32, a row each), both in one
        piece. The event is not GO where the session was lost meanwhile."""
        return self._finish(self._lib.monsoon_fetch_rows(
            self._checked(), table, _pointer(rows, c.c_uint64), rows.size,
            _pointer(values, c.c_float), self._to_event))

    def push_rows(self, table: int, rows: numpy.ndarray, values: numpy.ndarray) -> None:
        """Gradients of rows for the next step."""
        code = self._lib.monsoon_push_rows(self._checked(), table, _pointer(rows, c.c_uint64),
                                           rows.size, _pointer(values, c.c_float))
        if code != 0:
            raise errors.of_code(code, self._message())

    def take_stream(self, name: str) -> Stream:
        """Takes the stream of this name, which nobody else gets while the session is open."""
        self._finish(self._lib.monsoon_take_stream(self._checked(), name.encode(), self._to_event))
        told = self._lib.monsoon_taken_stream(self._handle)
        state = c.string_at(told.state, told.bytes) if told.was_read else None
        return Stream(state, int(told.worker), int(told.push), int(told.read_again))

    def note_position(self, name: str, state: bytes) -> None:
        """How far of the stream the batches have read that the next step counts."""
        code = self._lib.monsoon_note_position(self._checked(), name.encode(), state, len(state))
        if code != 0:
            raise errors.of_code(code, self._message())

    def report_evaluation(self, metrics: Mapping[str, float],
                          failure: Optional[str] = None) -> Event:
        """The answer to EVALUATE; with `failure` the job fails with that message."""
        names = [name.encode() for name in metrics]
        array = (_library.Metric * max(1, len(names)))(
            *(_library.Metric(name, float(value))
              for name, value in zip(names, metrics.values())))
        code = self._lib.monsoon_report_evaluation(
            self._checked(), array, len(names), None if failure is None else failure.encode(),
            self._to_event)
        return self._finish(code)

    def report_divergence(self, what: str) -> Event:
        """What this program keeps by itself is not finite: its part in the job ends, and this
        raises ProgramDiverged, or JobFailed with the job's last program. An event: say it again
        after the next step."""
        return self._finish(self._lib.monsoon_report_divergence(
            self._checked(), what.encode(), self._to_event))

    def unwell(self, known: int, look: Callable[[], Optional[str]]) -> Tuple[int, Optional[str]]:
        """How many pushes and steps were not finite, as of the last call, and, where these are
        more than `known`, what look() says."""
        self._take_stats()
        refused = int(self._told.refused)
        return refused, look() if refused > known else None

    def _take_stats(self) -> None:
        code = self._lib.monsoon_get_stats(self._checked(), self._to_told)
        if code != 0:
            raise errors.of_code(code, self._message())

    def programs(self) -> int:
        """How many train, as of the last call; 0: not known."""
        self._take_stats()
        return int(self._told.replicas)

    def stats(self) -> Dict[str, int]:
        """monsoon_stats by name, as of the last call."""
        self._take_stats()
        return {name: int(getattr(self._told, name)) for name, _ in self._told._fields_
                if name != "size"}

    def leave(self) -> None:
        """Leaves the job, within 20 seconds. Safe to repeat; in a fork it does nothing."""
        if self._memory is None or self._memory.pid != os.getpid():
            return
        code = _library.INTERRUPTED
        while code == _library.INTERRUPTED:
            code = self._lib.monsoon_leave(self._handle)
        if code != 0:
            raise errors.of_code(code, self._message())


def _pointer(array: numpy.ndarray, kind: Any) -> Any:
    return c.cast(array.ctypes.data, c.POINTER(kind))
