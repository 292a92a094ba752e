"""How far a program has read a stream, kept with the job (Job.steps(state=...))."""

from __future__ import annotations

import collections
import io
import json
import sys
import time
from typing import Any, Deque, Optional, Tuple

from .errors import InvalidArgument
from .replica import Replica

# A state that is read as fast is read after each item, others so rarely that it takes at most
# such a share of the time.
_FAST_S = 1e-4
_SHARE = 0.1


def as_json(state: Any) -> Optional[bytes]:
    """A state_dict() as JSON; None where that would not give it back."""
    try:
        text = json.dumps(state)
        return b"J" + text.encode() if json.loads(text) == state else None
    except (TypeError, ValueError, RecursionError):
        return None


def as_tensors(state: Any) -> bytes:
    """As torch.save() writes it."""
    import torch
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return b"T" + buffer.getvalue()


def packed(state: Any, name: str) -> bytes:
    """A state_dict() as JSON where that gives it back, else as torch.save() writes it. Raises
    InvalidArgument for one that torch.load(weights_only=True) would not read."""
    text = as_json(state)
    if text is not None:
        return text
    try:
        text = as_tensors(state)
        unpacked(text)
        return text
    except Exception as error:
        raise InvalidArgument(
            f"the state of stream {name} can be kept neither as JSON nor by torch.save() with "
            f"weights_only: {type(error).__name__}: {error}; let state_dict() give numbers, "
            "strings, lists, dicts and tensors") from error


def unpacked(state: bytes) -> Any:
    """What packed() was given."""
    if state[:1] == b"J":
        return json.loads(state[1:].decode())
    import torch
    return torch.load(io.BytesIO(state[1:]), map_location="cpu", weights_only=True)


class Kept:
    """The position of one stream, which `of` tells and takes: state_dict(), load_state_dict().

    Items are numbered as they are read. The state after one is read before the next item is, and
    told with the step that counts it.
    """

    def __init__(self, name: str, of: Any) -> None:
        if not isinstance(name, str) or not name:
            raise InvalidArgument(f"state={name!r}; it is the stream's name among those of the "
                                  "job, as state='part-0'")
        for method in ("state_dict", "load_state_dict"):
            if not callable(getattr(of, method, None)):
                raise InvalidArgument(
                    f"stream {name} is a {type(of).__name__} without {method}(): give "
                    "torchdata's StatefulDataLoader, or state_of= what has state_dict() and "
                    "load_state_dict()")
        self.name, self._of = name, of
        self._read = self._counted = 0
        self._states: Deque[Tuple[int, bytes]] = collections.deque()
        # What reading the state took of late, in this thread's time. The least counts: a busy machine,
        # or a look for garbage, makes no state slow.
        self._costs: Deque[float] = collections.deque(maxlen=8)
        self._next_s = 0.0
        self._has_tensors = False

    def begin(self, replica: Any, job: str) -> None:
        """Before the stream is iterated: it goes on where the job has it."""
        if not isinstance(replica, Replica):
            raise InvalidArgument(f"state={self.name!r} with group=: each rank reads a stream of "
                                  "its own, and the job keeps one a program; leave out one of them")
        self._has_tensors = packed(self._of.state_dict(), self.name)[:1] == b"T"
        self._timed()
        told = replica.take_stream(self.name)
        if told.state is None:
            return
        self._of.load_state_dict(unpacked(told.state))
        before = ("the job before" if told.push == 0 else
                  f"worker/{told.worker} was at its push {told.push}")
        again = f"; {told.read_again} pushes of what follows are read again" if told.read_again else ""
        print(f"monsoon: stream {self.name} of {job} goes on where {before}{again}",
              file=sys.stderr)

    def again(self) -> None:
        """Another loop over it begins: what the one before left uncounted is behind it."""
        self._counted = self._read
        self._states.clear()

    def read(self) -> None:
        """An item was read, and the next one was not."""
        self._read += 1
        now = time.perf_counter()
        if now >= self._next_s:
            self._states.append((self._read, self._timed()))
            cost = min(self._costs)
            self._next_s = now + (0.0 if cost <= _FAST_S else cost / _SHARE)

    def _timed(self) -> bytes:
        begun = time.thread_time()
        state = self._of.state_dict()
        # Looking whether it can be read again takes longer than writing it.
        bytes_ = as_tensors(state) if self._has_tensors else packed(state, self.name)
        self._costs.append(time.thread_time() - begun)
        return bytes_

    def count(self, replica: Any, items: int) -> None:
        """A step counts so many items, the oldest; tells how far the stream was read by them."""
        self._counted += items
        newest: Optional[bytes] = None
        while self._states and self._states[0][0] <= self._counted:
            newest = self._states.popleft()[1]
        if newest is not None:
            replica.note_position(self.name, newest)
