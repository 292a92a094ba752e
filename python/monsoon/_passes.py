"""Passes of a loader over a sampler(), and what of them the training loop has had."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Callable, Iterator, List, Optional, Tuple

from .errors import NotNow

if TYPE_CHECKING:
    from .training import Training

# Packages whose loops over a loader fetch a batch before they give the one before.
_READ_AHEAD = ("accelerate", "lightning", "pytorch_lightning", "transformers")
_LOADERS = ("torch", "torchdata")


def _reader() -> Tuple[int, str, Any]:
    """Of the loader that asks for numbers just now: for how many batches it asks before its
    loop gets the first (0: it has no workers), the package of that loop, and what reads one batch
    ahead of it: accelerate's loader around that one, or None."""
    frame = sys._getframe(2)
    primed: Optional[int] = None
    shard: Any = None
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).split(".")[0]
        loader: Any = frame.f_locals.get("self")
        if package == "accelerate" and shard is None and hasattr(loader, "end_of_dataloader"):
            shard = loader
        elif package not in _LOADERS:
            return primed or 0, package, shard
        if primed is None and hasattr(loader, "_num_workers"):
            primed = int(loader._num_workers) * int(getattr(loader, "_prefetch_factor", 0) or 0)
        frame = frame.f_back  # type: ignore[assignment]
    return primed or 0, "", shard


class Pass(Iterator[List[int]]):
    """Numbers of samples, a batch after another, to the end of an epoch or a pause of the data.

    torch's loaders ask for as many batches as their workers hold when a pass begins, and then,
    also after the last, once for each that they give to the loop: so the calls tell what the
    loop has had. accelerate's loader holds one of them back until it has told the last.
    """

    def __init__(self, ready: Callable[[], "Training"]) -> None:
        self._ready: Callable[[], "Training"] = ready
        self._training: Optional["Training"] = None
        self._epoch: Optional[int] = None
        self._calls = self._primed = 0
        self._given = 0
        self._over = False  # all of the pass was given to the loader
        self._known = True
        self._shard: Any = None

    def __next__(self) -> List[int]:
        if self._training is None:
            # Loaders make iterators that they do not use.
            self._training = self._ready()
            self._primed, package, self._shard = _reader()
            self._known = package not in _READ_AHEAD
            self._training.begin_pass(self)
        elif self._training.loader_pass is not self:
            raise NotNow("another pass over the job's sampler() has begun, or a loop over blocks() "
                         "or steps(); a job has one at a time")
        self._calls += 1
        training = self._training
        if self._over or not training.available():
            self._over = True
            raise StopIteration
        pending = training.draws.peek()
        assert pending is not None
        if self._epoch is not None and pending.epoch != self._epoch:
            self._over = True
            raise StopIteration
        self._epoch = pending.epoch
        self._given += 1
        samples: List[int] = training.deliver().samples.tolist()
        return samples

    @property
    def with_loader(self) -> Optional[int]:
        """How many of the batches given the loop has not had yet; None: this loader does not
        tell."""
        if not self._known:
            return None
        held = 0 if self._shard is None or self._shard.end_of_dataloader else 1
        return self._given - max(0, min(self._given, self._calls - self._primed) - held)

    @property
    def is_over(self) -> bool:
        """The loop has had all of the pass, and did not leave it before its end."""
        return self._over and not self.with_loader
