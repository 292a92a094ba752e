"""What multiplies the rate of an optimizer of the shards. k is the number of pushes that a
shard has applied before this one (Schedule in proto/optimizer.proto). A share in place of a
number is of all pushes until the job's end, which must be given by epochs or max_steps."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Dict, Optional, Sequence, Tuple, Union

from .errors import InvalidArgument


def _check(schedule: Any, number: str, share: str, needed: bool = True) -> None:
    """One of a number and a share, each in its range."""
    count, part = getattr(schedule, number), getattr(schedule, share)
    if part is not None and (count or not 0 < part <= 1):
        raise InvalidArgument(f"{schedule}: {share} is in (0, 1], and stands in place of {number}")
    if part is None and (count is None or count < 1) and (needed or (count or 0) < 0):
        raise InvalidArgument(f"{schedule}: {number} is at least 1, or say {share}")


class _Schedule:
    """What all have in common.

    warm_up_pushes or warm_up_share: the factor grows to what it is in that time.
    in_steps: all numbers are steps of all programs together and not pushes; they become pushes.
    """

    def __init__(self, *, warm_up_pushes: int = 0, warm_up_share: Optional[float] = None,
                 in_steps: bool = False) -> None:
        self.warm_up_pushes, self.warm_up_share = warm_up_pushes, warm_up_share
        self.in_steps = bool(in_steps)
        _check(self, "warm_up_pushes", "warm_up_share", needed=False)

    def _within(self, name: str, least: float, most: float, above: bool = False) -> None:
        value = getattr(self, name)
        if not (least < value if above else least <= value) or not value <= most:
            raise InvalidArgument(f"{self}: {name} is in {'(' if above else '['}{least:g}, "
                                  f"{most:g}]")

    def _kind(self) -> Dict[str, Any]:
        """The kind of Schedule, as a job file has it."""
        raise NotImplementedError

    def text(self) -> Dict[str, Any]:
        return {**self._kind(), "warm_up_pushes": self.warm_up_pushes or None,
                "warm_up_share": self.warm_up_share, "in_steps": self.in_steps or None}

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((type(self), *sorted(vars(self).items())))

    def __repr__(self) -> str:
        unset = (None, False, 0)
        said = [f"{name}={value!r}" for name, value in vars(self).items()
                if not any(value is x or value == x for x in unset)]
        return f"{type(self).__name__}({', '.join(said)})"


class StepSchedule(_Schedule):
    """factor ** (k // every_pushes), factor in (0, 1]."""

    def __init__(self, every_pushes: Optional[int] = None, factor: float = 0.5, *,
                 every_share: Optional[float] = None, **common: Any) -> None:
        self.every_pushes, self.factor, self.every_share = every_pushes, factor, every_share
        super().__init__(**common)
        _check(self, "every_pushes", "every_share")
        self._within("factor", 0, 1, above=True)

    def _kind(self) -> Dict[str, Any]:
        return {"step": {"every_pushes": self.every_pushes, "factor": float(self.factor),
                         "every_share": self.every_share}}


class _Fall(_Schedule):
    """From 1 to `final` over `pushes`, or over a `share` of all."""

    _NAME = ""

    def __init__(self, pushes: Optional[int] = None, final: float = 0.0, *,
                 share: Optional[float] = None, **common: Any) -> None:
        self.pushes, self.final, self.share = pushes, final, share
        super().__init__(**common)
        _check(self, "pushes", "share")
        self._within("final", 0, 1)

    def _kind(self) -> Dict[str, Any]:
        return {self._NAME: {"pushes": self.pushes, "final": float(self.final) or None,
                             "share": self.share}}


class CosineSchedule(_Fall):
    """Falls as half a cosine over `pushes`, or over a `share` of all, from 1 to `final`."""

    _NAME = "cosine"


class LinearSchedule(_Fall):
    """Falls in a straight line over `pushes`, or over a `share` of all, from 1 to `final`."""

    _NAME = "linear"


class PolynomialSchedule(_Fall):
    """final + (1 - final) * (1 - x) ** power, with x = min(k / pushes, 1)."""

    _NAME = "polynomial"

    def __init__(self, pushes: Optional[int] = None, final: float = 0.0, power: float = 2.0,
                 **common: Any) -> None:
        self.power = power
        super().__init__(pushes, final, **common)
        self._within("power", 0, 100, above=True)

    def _kind(self) -> Dict[str, Any]:
        return {self._NAME: {**super()._kind()[self._NAME], "power": float(self.power)}}


class InverseRootSchedule(_Schedule):
    """sqrt(pushes / max(k, pushes)). With a warm-up of as many pushes it is that of Vaswani et al.
    2017. It has no end."""

    def __init__(self, pushes: Optional[int] = None, *, share: Optional[float] = None,
                 **common: Any) -> None:
        self.pushes, self.share = pushes, share
        super().__init__(**common)
        _check(self, "pushes", "share")

    def _kind(self) -> Dict[str, Any]:
        return {"inverse_root": {"pushes": self.pushes, "share": self.share}}


class OneCycleSchedule(_Schedule):
    """As torch's OneCycleLR: half a cosine up from `start` to 1 in the part `rise` of `pushes`, or
    of a `share` of all, and half a cosine down to `final` (Smith and Topin 2019). The momentum
    stays."""

    def __init__(self, pushes: Optional[int] = None, *, share: Optional[float] = None,
                 rise: float = 0.3, start: float = 0.04, final: float = 4e-6,
                 **common: Any) -> None:
        self.pushes, self.share, self.rise, self.start, self.final = (pushes, share, rise, start,
                                                                      final)
        super().__init__(**common)
        _check(self, "pushes", "share")
        if not 0 < rise < 1:
            raise InvalidArgument(f"{self}: rise is in (0, 1)")
        self._within("start", 0, 1)
        self._within("final", 0, 1)

    def _kind(self) -> Dict[str, Any]:
        return {"one_cycle": {"pushes": self.pushes, "share": self.share,
                              "rise": float(self.rise), "start": float(self.start),
                              "final": float(self.final)}}


class PointsSchedule(_Schedule):
    """Straight lines between the points (pushes, factor), or with `hold` each factor until the
    next. With `shares`, points are (share, factor): shares of all pushes, in [0, 1].

    >>> from monsoon import PointsSchedule
    >>> PointsSchedule([(0, 1), (300, 0.1)], hold=True)
    PointsSchedule(points=((0, 1.0), (300, 0.1)), hold=True)
    """

    def __init__(self, points: Sequence[Tuple[float, float]], *, hold: bool = False,
                 shares: bool = False, **common: Any) -> None:
        self.points = tuple((at, float(factor)) for at, factor in points)
        self.hold, self.shares = bool(hold), bool(shares)
        super().__init__(**common)
        places = [at for at, _ in self.points]
        if not places or places != sorted(places) or places[0] < 0:
            raise InvalidArgument(f"{self}: give points (pushes, factor) in the order of pushes")
        if self.shares and places[-1] > 1:
            raise InvalidArgument(f"{self}: a share is in [0, 1]")
        if not self.shares and any(int(at) != at for at in places):
            raise InvalidArgument(f"{self}: pushes are whole numbers; say shares=True for shares")
        if any(not 0 <= factor < math.inf for _, factor in self.points):
            raise InvalidArgument(f"{self}: a factor is finite and at least 0")

    def _kind(self) -> Dict[str, Any]:
        name, number = ("share", float) if self.shares else ("pushes", int)
        return {"points": {"point": [{name: number(at) or None, "factor": factor}
                                     for at, factor in self.points],
                           "hold": self.hold or None}}


@dataclasses.dataclass(frozen=True)
class WarmUp:
    """(k + 1) / pushes for the first `pushes`, or the first `share` of all, then 1."""

    pushes: Optional[int] = None
    share: Optional[float] = None
    in_steps: bool = False

    def __post_init__(self) -> None:
        _check(self, "pushes", "share")

    def text(self) -> Dict[str, Any]:
        return {"warm_up_pushes": self.pushes, "warm_up_share": self.share,
                "in_steps": self.in_steps or None}


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


Schedule = Union[_Schedule, WarmUp]
