"""What multiplies the rate of an optimizer of the shards. k is the number of pushes that a
shard has applied before this one (Schedule in proto/optimizer.proto)."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Union

from .errors import InvalidArgument


@dataclasses.dataclass(frozen=True)
class StepSchedule:
    """factor ** (k // every_pushes), factor in (0, 1]."""

    every_pushes: int
    factor: float
    warm_up_pushes: int = 0

    def __post_init__(self) -> None:
        if self.every_pushes < 1 or not 0 < self.factor <= 1:
            raise InvalidArgument(f"{self}: every_pushes is at least 1, factor in (0, 1]")

    def text(self) -> Dict[str, Any]:
        return {"step": {"every_pushes": self.every_pushes, "factor": float(self.factor)},
                "warm_up_pushes": self.warm_up_pushes or None}


@dataclasses.dataclass(frozen=True)
class CosineSchedule:
    """Falls as half a cosine over `pushes` from 1 to `final`."""

    pushes: int
    final: float = 0.0
    warm_up_pushes: int = 0

    def __post_init__(self) -> None:
        if self.pushes < 1 or not 0 <= self.final <= 1:
            raise InvalidArgument(f"{self}: pushes is at least 1, final in [0, 1]")

    def text(self) -> Dict[str, Any]:
        return {"cosine": {"pushes": self.pushes, "final": float(self.final) or None},
                "warm_up_pushes": self.warm_up_pushes or None}

    def __repr__(self) -> str:
        rest = f", final={self.final}" if self.final else ""
        rest += f", warm_up_pushes={self.warm_up_pushes}" if self.warm_up_pushes else ""
        return f"CosineSchedule(pushes={self.pushes}{rest})"


@dataclasses.dataclass(frozen=True)
class WarmUp:
    """(k + 1) / pushes for the first `pushes`, then 1."""

    pushes: int

    def __post_init__(self) -> None:
        if self.pushes < 1:
            raise InvalidArgument(f"{self}: pushes is at least 1")

    def text(self) -> Dict[str, Any]:
        return {"warm_up_pushes": self.pushes}


Schedule = Union[StepSchedule, CosineSchedule, WarmUp]
