"""Which drawn batches no step has counted yet."""

from __future__ import annotations

import collections
import itertools
from typing import Deque, Iterable, Optional

from .errors import NotNow
from .replica import Batch


class Draws:
    """Batches are drawn, delivered to the loop, and counted by its steps, in one order.

    A lost session takes all of them away: those that the loop has in hand then are stale,
    and its next steps on them count nothing.
    """

    def __init__(self) -> None:
        self._drawn: Deque[Batch] = collections.deque()
        self._delivered = 0  # of _drawn, from the left
        self._stale = 0      # delivered, and not of this session

    @property
    def in_hand(self) -> int:
        """Delivered and not yet counted, those that the loss of a session took away too."""
        return self._stale + self._delivered

    @property
    def uncounted(self) -> int:
        return len(self._drawn)

    def add(self, batches: Iterable[Batch]) -> None:
        self._drawn.extend(batches)

    def peek(self) -> Optional[Batch]:
        """The next to deliver, if one is drawn."""
        return self._drawn[self._delivered] if self._delivered < len(self._drawn) else None

    def deliver(self) -> Batch:
        self._delivered += 1
        return self._drawn[self._delivered - 1]

    def deliver_again(self) -> None:
        """A loop was left early and begins anew: what it had in hand is delivered again."""
        self._delivered = 0
        self._stale = 0

    def samples(self, batches: int) -> Optional[int]:
        """In the oldest of those in hand; None where a lost session has taken some away."""
        if self._stale or batches > len(self._drawn):
            return None
        return sum(len(batch.samples) for batch in itertools.islice(self._drawn, batches))

    def count(self, batches: int) -> int:
        """A step counts so many of those in hand, oldest first; how many of them this
        session still has. Raises NotNow where the loop has not so many."""
        stale = min(self._stale, batches)
        fresh = batches - stale
        if batches < 1 or fresh > self._delivered:
            raise NotNow(f"job.step(batches={batches}), but {self._stale + self._delivered} "
                         "batches are drawn and not counted; draw them from job.blocks(), "
                         "job.sampler() or job.steps(), and count each once; a loop "
                         "whose loader is read ahead says how many, as batches=1")
        self._stale -= stale
        for _ in range(fresh):
            self._drawn.popleft()
        self._delivered -= fresh
        return fresh

    def discard(self) -> None:
        """The session is lost."""
        self._stale += self._delivered
        self._drawn.clear()
        self._delivered = 0
