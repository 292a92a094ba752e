"""Where a job stands in its data, and learning-rate schedules that go by it."""

from __future__ import annotations

import math
import threading
import time
import warnings
from typing import Any, Callable, Optional, Tuple

# The coordinator is asked so often where several programs train.
_ASK_EVERY_S = 5.0


class Lengths:
    """Batches and optimizer steps of a job whose steps are of `accumulate` batches each, of fewer
    at the end of an epoch.

    >>> lengths = Lengths(examples=63 * 8, batch=8, accumulate=4)
    >>> lengths.steps(63), lengths.steps(64), lengths.batches(17)
    (16, 17, 67)
    """

    def __init__(self, examples: int, batch: int, accumulate: int = 1) -> None:
        self.accumulate = max(1, accumulate)
        self.per_epoch = -(-examples // batch)
        self._steps_per_epoch = -(-self.per_epoch // self.accumulate)

    def steps(self, batches: float) -> int:
        """That so many batches make."""
        epochs, rest = divmod(int(batches + 1e-3), self.per_epoch)
        return epochs * self._steps_per_epoch + -(-rest // self.accumulate)

    def batches(self, steps: int) -> int:
        """That so many steps are of."""
        epochs, rest = divmod(steps, self._steps_per_epoch)
        return epochs * self.per_epoch + min(rest * self.accumulate, self.per_epoch)

    def total(self, epochs: Optional[float], batches: Optional[int]) -> Optional[int]:
        """Batches of a job with these ends; None: neither is one."""
        ends = [] if batches is None else [batches]
        if epochs is not None:
            ends.append(math.ceil(epochs * self.per_epoch))
        return min(ends, default=None)


class Place:
    """How many batches all programs have done: those of this one, and where there are others,
    what is known (an epoch begins where all of the last one are done, and the coordinator tells
    every few seconds) with this program's pace times theirs since.

    `ask` gives the job's place in epochs, or None. It is called by a thread of its own. `meant`:
    how many programs are to train; those that do may be known some seconds later.
    Thread safety: none but for that thread.
    """

    def __init__(self, per_epoch: int, ask: Callable[[], Optional[float]], meant: int = 1) -> None:
        self._per_epoch, self._ask, self._meant = per_epoch, ask, meant
        self._own, self._programs, self._epoch = 0, 1, 0
        self._known: Tuple[float, int] = (0.0, 0)  # batches, and how many were our own then
        self._most = 0.0
        self._asking: Optional[threading.Thread] = None
        self._asked = float("-inf")

    def begin(self) -> None:
        """This program has entered; the job may have been under way."""
        self._hear()
        self._epoch = int(self._known[0] / self._per_epoch)

    def counted(self, batches: int, epoch: int, programs: int) -> None:
        """A step of this program, on batches of `epoch`."""
        if epoch > self._epoch:
            self._epoch, self._known = epoch, (epoch * self._per_epoch, self._own)
        self._own += batches
        self._programs = max(1, programs)
        if max(self._programs, self._meant) > 1:
            self._ask_soon()

    def batches(self) -> float:
        """Never falls."""
        known, own = self._known
        place = known + (self._own - own) * self._programs
        place = min(max(place, self._epoch * self._per_epoch), (self._epoch + 1) * self._per_epoch)
        self._most = max(self._most, place)
        return self._most

    def _hear(self) -> None:
        epochs = self._ask()
        if epochs is not None and epochs >= self._epoch:  # and not of the time before
            self._known = (epochs * self._per_epoch, self._own)

    def _ask_soon(self) -> None:
        now = time.monotonic()
        if now - self._asked < _ASK_EVERY_S or (self._asking and self._asking.is_alive()):
            return
        self._asked = now
        self._asking = threading.Thread(target=self._hear, daemon=True, name="monsoon-place")
        self._asking.start()


def can_follow(scheduler: Any) -> bool:
    """It counts its steps, as torch's do, and goes by no figure."""
    return isinstance(getattr(scheduler, "last_epoch", None), int) and not hasattr(
        scheduler, "num_bad_epochs")


class Following:
    """A torch scheduler whose steps are those of the job: step() goes on to where the job is,
    by one at least, and not past its end. All else is the scheduler's.

    target: the job's steps so far. most: the steps of the whole job, None: nobody knows.
    waits: step() does nothing, and catch_up() moves.
    """

    def __init__(self, scheduler: Any, target: Callable[[], int], most: Optional[int] = None,
                 waits: bool = False) -> None:
        self._scheduler, self._target, self._most, self._waits = scheduler, target, most, waits

    @property
    def scheduler(self) -> Any:
        return self._scheduler

    def step(self, *arguments: Any, **more: Any) -> None:
        if not self._waits:
            self._go_to(max(self._target(), self._scheduler.last_epoch + 1))

    def catch_up(self) -> None:
        with warnings.catch_warnings():
            # Of the optimizer's first step, which comes later here.
            warnings.filterwarnings("ignore", message="Detected call of `lr_scheduler.step")
            self._go_to(self._target())

    def _go_to(self, target: int) -> None:
        target = target if self._most is None else min(target, self._most)
        for _ in range(target - self._scheduler.last_epoch):
            self._scheduler.step()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scheduler, name)
