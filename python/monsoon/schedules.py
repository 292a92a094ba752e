"""What multiplies the rate of an optimizer of the shards. k is the number of pushes that a
shard has applied before this one (Schedule in proto/optimizer.proto). A share in place of a
number is of all pushes until the job's end, which must be given by epochs or max_steps."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Dict, Optional, Union

from .errors import InvalidArgument


def _check(schedule: Any, number: str, share: str, needed: bool = True) -> None:
    """One of a number and a share, each in its range."""
    count, part = getattr(schedule, number), getattr(schedule, share)
    if part is not None and (count or not 0 < part <= 1):
        raise InvalidArgument(f"{schedule}: {share} is in (0, 1], and stands in place of {number}")
    if part is None and (count is None or count < 1) and (needed or (count or 0) < 0):
        raise InvalidArgument(f"{schedule}: {number} is at least 1, or say {share}")


@dataclasses.dataclass(frozen=True)
class StepSchedule:
    """factor ** (k // every_pushes), factor in (0, 1]."""

    every_pushes: Optional[int] = None
    factor: float = 0.5
    warm_up_pushes: int = 0
    every_share: Optional[float] = None
    warm_up_share: Optional[float] = None

    def __post_init__(self) -> None:
        _check(self, "every_pushes", "every_share")
        _check(self, "warm_up_pushes", "warm_up_share", needed=False)
        if not 0 < self.factor <= 1:
            raise InvalidArgument(f"{self}: factor is in (0, 1]")

    def text(self) -> Dict[str, Any]:
        return {"step": {"every_pushes": self.every_pushes, "factor": float(self.factor),
                         "every_share": self.every_share},
                "warm_up_pushes": self.warm_up_pushes or None,
                "warm_up_share": self.warm_up_share}


@dataclasses.dataclass(frozen=True)
class CosineSchedule:
    """Falls as half a cosine over `pushes`, or over a `share` of all, from 1 to `final`."""

    pushes: Optional[int] = None
    final: float = 0.0
    warm_up_pushes: int = 0
    share: Optional[float] = None
    warm_up_share: Optional[float] = None

    def __post_init__(self) -> None:
        _check(self, "pushes", "share")
        _check(self, "warm_up_pushes", "warm_up_share", needed=False)
        if not 0 <= self.final <= 1:
            raise InvalidArgument(f"{self}: final is in [0, 1]")

    def text(self) -> Dict[str, Any]:
        return {"cosine": {"pushes": self.pushes, "final": float(self.final) or None,
                           "share": self.share},
                "warm_up_pushes": self.warm_up_pushes or None,
                "warm_up_share": self.warm_up_share}

    def __repr__(self) -> str:
        said = [f"{name}={getattr(self, name)}"
                for name in ("pushes", "share", "final", "warm_up_pushes", "warm_up_share")
                if getattr(self, name)]
        return f"CosineSchedule({', '.join(said)})"


@dataclasses.dataclass(frozen=True)
class WarmUp:
    """(k + 1) / pushes for the first `pushes`, or the first `share` of all, then 1."""

    pushes: Optional[int] = None
    share: Optional[float] = None

    def __post_init__(self) -> None:
        _check(self, "pushes", "share")

    def text(self) -> Dict[str, Any]:
        return {"warm_up_pushes": self.pushes, "warm_up_share": self.share}


@dataclasses.dataclass(frozen=True)
class Plateau:
    """join(plateau=...): factor ** n, not below min_factor, with n how often the test figure,
    "loss" or "accuracy", has not become better than its best by min_change in `patience` evaluations in a
    row. Of the shards' optimizer, with Local of the outer one; beside it a schedule may warm up."""

    factor: float = 0.5
    patience: int = 2
    min_change: float = 0.0
    min_factor: float = 0.0
    figure: str = "loss"

    def __post_init__(self) -> None:
        if not 0 < self.factor < 1:
            raise InvalidArgument(f"{self}: factor is in (0, 1)")
        if not 0 <= self.min_factor < 1:
            raise InvalidArgument(f"{self}: min_factor is in [0, 1)")
        check_figure(self)

    def text(self) -> Dict[str, Any]:
        return {"factor": float(self.factor), "patience": int(self.patience),
                "min_change": float(self.min_change) or None,
                "min_factor": float(self.min_factor) or None,
                "by_accuracy": True if self.figure == "accuracy" else None}


def check_figure(rule: Any) -> None:
    """Of what counts evaluations without a better figure: Plateau and EarlyStop."""
    if rule.figure not in ("loss", "accuracy"):
        raise InvalidArgument(f"{rule}: figure is \"loss\" or \"accuracy\"")
    if isinstance(rule.patience, bool) or int(rule.patience) != rule.patience or rule.patience < 1:
        raise InvalidArgument(f"{rule}: patience is a number of evaluations, at least 1")
    if not 0 <= rule.min_change < math.inf:
        raise InvalidArgument(f"{rule}: min_change is finite and at least 0")


Schedule = Union[StepSchedule, CosineSchedule, WarmUp]
