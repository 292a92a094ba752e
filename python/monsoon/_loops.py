"""What job.blocks(), job.steps() and job.accumulate() give to a training loop."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, List, Optional, Tuple

from .errors import InvalidArgument
from .streams import Kept

if TYPE_CHECKING:
    from .training import Training


def agreed(name: str, old: Optional[int], new: Optional[int]) -> Optional[int]:
    """The one number of `examples` or of samples in a `batch` that a job has: as it was said
    before, or now. Raises where the two differ."""
    if new is not None and int(new) < 1:
        raise InvalidArgument(f"{name} is {new}; it must be at least 1")
    if old is not None and new is not None and int(old) != int(new):
        raise InvalidArgument(f"{name} is {new} here, but {old} before; a job has one")
    return old if new is None else int(new)


class _Loop(Iterator[Any]):
    """Begins with the first item that is asked for: `ready` enters the job then."""

    def __init__(self, ready: Callable[[], "Training"]) -> None:
        self._ready = ready
        self._training: Optional["Training"] = None

    def _begun(self) -> "Training":
        if self._training is None:
            self._training = self._ready()
            self._training.begin_pass()
        return self._training


class Blocks(_Loop):
    """As Job.blocks."""

    def __next__(self) -> Any:
        drawn = self._begun().next()
        if drawn is None:
            raise StopIteration
        return drawn.samples

    def more(self) -> bool:
        """Whether a batch of the same epoch is to be had before those in hand are counted."""
        training = self._begun()
        if not training.available():
            return False
        pending = training.draws.peek()
        return pending is not None and pending.epoch == training.epoch


class Steps(_Loop):
    """As Job.steps."""

    def __init__(self, ready: Callable[[], "Training"], data: Iterable[Any],
                 state: Optional[str] = None, state_of: Any = None) -> None:
        super().__init__(ready)
        self._data = data
        self._kept = None if state is None else Kept(state, data if state_of is None else state_of)
        self._items: Iterator[Any] = iter(())
        self._ahead: List[Any] = []

    def _begun(self) -> "Training":
        if self._training is None:
            training = super()._begun()
            if self._kept is not None:
                self._kept = training.keep(self._kept)
            self._items = iter(self._data)
        assert self._training is not None
        return self._training

    def __next__(self) -> Any:
        training = self._begun()
        if not self.more():
            training.no_more()
            raise StopIteration
        item = self._ahead.pop()
        if training.next() is None:
            raise StopIteration
        return item

    def more(self) -> bool:
        """Whether `data` have another item."""
        self._begun()
        if not self._ahead:
            self._ahead += itertools.islice(self._items, 1)
            if self._ahead and self._kept is not None:
                self._kept.read()
        return bool(self._ahead)


class _Ahead(Iterator[Any]):
    """Any other iterable, a loader: looks ahead by taking the next item."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = iter(items)
        self._ahead: List[Any] = []

    def __next__(self) -> Any:
        if not self.more():
            raise StopIteration
        return self._ahead.pop()

    def more(self) -> bool:
        if not self._ahead:
            self._ahead += itertools.islice(self._items, 1)
        return bool(self._ahead)


def accumulate(batches: Iterable[Any], every: int) -> Iterator[Tuple[Any, bool]]:
    """As Job.accumulate. Looks ahead within a group alone, so that with the last of a group
    the loop has in hand just what it was given."""
    if isinstance(every, bool) or int(every) != every or every < 1:
        raise InvalidArgument(f"every is {every!r}; a group has at least 1 batch")
    items: Any = batches if isinstance(batches, (Blocks, Steps)) else _Ahead(batches)
    return _groups(items, int(every))


def _groups(items: Any, every: int) -> Iterator[Tuple[Any, bool]]:
    size = 0
    for item in items:
        size += 1
        last = size == every or not items.more()
        if last:
            size = 0
        yield item, last
