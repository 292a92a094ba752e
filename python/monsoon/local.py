"""Local steps: an optimizer of this process, whose differences travel."""

from __future__ import annotations

import dataclasses
import numbers
from typing import Any, Dict, Optional, Union

from . import _text
from .errors import InvalidArgument
from .layout import Layout
from .optimizers import ShardOptimizer
from .several import name_of, one_of


# Of a float32, as job.proto has it.
_LARGEST = 3.4028234663852886e38
_CHANGES = ("int4", "int8", "bfloat16", "float16")
_WEIGHTS = {None: None, "steps": "STEPS", "tokens": "TOKENS",
            "tokens_squared_per_step": "TOKENS_SQUARED_PER_STEP"}


def _finite(name: str, value: Any, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= value <= most:
        raise InvalidArgument(f"{name} is {value!r}; it must be 0 to {most:g}")
    return float(value)


@dataclasses.dataclass(frozen=True)
class Rounds:
    """Differences are averaged: the mean of a round is one gradient for `outer`.

    quorum: a round ends `grace` seconds after the differences of so many programs are in it,
    or when those of all are. 0: all, which is synchronous DiLoCo.
    grace: seconds, at most 3600; with a quorum only. Who comes later is in the next round.
    adaptive: 0 to 1; a round ends sooner, after that share of the time for which those who are in
    it go on without it. With fragments, else programs wait for their round at once. 0: no sooner.

    >>> Rounds(quorum=1, grace=2.0).text()
    {'quorum': 1, 'grace_seconds': 2.0}
    """

    quorum: int = 0
    grace: float = 0.0
    adaptive: float = 0.0

    def __post_init__(self) -> None:
        if isinstance(self.quorum, bool) or not isinstance(self.quorum, numbers.Integral) or not (
                0 <= self.quorum <= 4096):
            raise InvalidArgument(f"quorum is {self.quorum!r}; it must be 0, for all, to 4096")
        if _finite("grace", self.grace, 3600) > 0 and self.quorum == 0:
            raise InvalidArgument(f"grace is {self.grace!r}; a round of all programs has nobody "
                                  "to wait for: say quorum too, as in Rounds(quorum=1, grace=2.0)")
        if _finite("adaptive", self.adaptive, 1) > 0 and self.grace == 0:
            raise InvalidArgument(f"adaptive is {self.adaptive!r}; say the longest grace too, as "
                                  "in Rounds(quorum=1, grace=10.0, adaptive=0.9)")

    def text(self) -> Dict[str, Any]:
        """The `rounds` of the job file."""
        return {**({"quorum": int(self.quorum)} if self.quorum else {}),
                **({"grace_seconds": float(self.grace)} if self.grace else {}),
                **({"adaptive_share": float(self.adaptive)} if self.adaptive else {})}


@dataclasses.dataclass(frozen=True)
class Fragments:
    """The model leaves in parts, one after another: every `every / count` steps a program pushes
    what moved one of them, and fetches that (Streaming DiLoCo).

    count: 2 to 1024; a divisor of `every`, and no more than the model has layers.
    order: "layer", layer i is of part i mod count (layers are told by the numbers in the names
    of their tensors), or "stripe", parts of equal size.

    >>> Fragments(4).text()
    {'count': 4}
    """

    count: int
    order: str = "layer"

    def __post_init__(self) -> None:
        if isinstance(self.count, bool) or not isinstance(self.count, numbers.Integral) or not (
                2 <= self.count <= 1024):
            raise InvalidArgument(f"count is {self.count!r}; it must be 2 to 1024")
        if self.order not in ("layer", "stripe"):
            raise InvalidArgument(f"order={self.order!r}: there are layer, stripe")

    def text(self) -> Dict[str, Any]:
        """The `fragments` of the job file."""
        stripe = {"order": _text.Token("BY_STRIPE")} if self.order == "stripe" else {}
        return {"count": int(self.count), **stripe}


class Local:
    """Steps here, differences travel: an optimizer of this process takes `every` steps, then
    what they moved is pushed, and training goes on from the job's parameters.

    optimizer: of torch.optim or like it (step, zero_grad, state_dict), or a list of those, as Muon
    for matrices and AdamW for the rest; None for loops that move NumPy arrays themselves.
    job.step() calls optimizer.step() and zero_grad(), unless it is told optimizer_stepped=True. All
    that works on the optimizer works on: schedulers, clip_grad_norm_ after backward, accumulation
    over several batches.
    every: steps between two pushes, 1 to 1048576.
    scaler: a GradScaler; then scaler.step(optimizer) and scaler.update() are called.
    scheduler: its step() is called after each step of the optimizer; or a list. schedules: "own",
    it counts the steps of this program, or "job", those of all (Job.following).
    outer: an optimizer of the shards, for which a difference is a gradient: with N programs
    DelayedNesterov(period=N) or SGD(1 / N), with one Nesterov() for example. None: SGD(1 / N) with
    the N of join(programs=N), or of 1; in rounds SGD(1). It takes no weight_decay, clip_value or
    clip_norm.
    dynamic: only the fastest program takes `every` steps, slower ones fewer in proportion to
    their measured speed, so that all push about equally often; job.stats.local_steps tells.
    rounds: Rounds(), or None: each difference moves the job's parameters as it comes.
    weight: how much a difference counts: its "steps", "tokens" (the samples that they saw) or
    "tokens_squared_per_step"; in a round its share of the mean, else a factor. None: "steps" in
    rounds, and all alike without.
    weight_reference: the weight that counts as 1; None: that of `every` steps of one batch.
    fragments: Fragments(count), or None: each push is of the whole model.
    mixing: 0 up to but not 1; what is fetched becomes mixing * (what is here) + (1 - mixing) *
    (what was fetched), and what is left of their difference travels with the next push.
    changes: "int4", "int8", "bfloat16" or "float16": what is fetched comes as the changes of a copy
    that all programs have alike, rounded to this; what that leaves out comes with the next one.
    None: the parameters whole, in fetch_format.

    >>> from monsoon import Local
    >>> Local(None, every=10).text()
    {'local': {'steps': 10}}
    """

    def __init__(self, optimizer: Any, every: int = 100, *, scaler: Any = None,
                 scheduler: Any = None, outer: Optional[ShardOptimizer] = None,
                 dynamic: bool = False, rounds: Optional[Rounds] = None,
                 weight: Optional[str] = None, weight_reference: Optional[float] = None,
                 fragments: Optional[Fragments] = None, mixing: float = 0.0,
                 changes: Optional[str] = None, schedules: str = "own") -> None:
        if isinstance(optimizer, ShardOptimizer):
            raise InvalidArgument("Local() takes an optimizer of this process, as of "
                                  f"torch.optim; give {optimizer!r} as it is to run it on shards")
        optimizer, scheduler = one_of("optimizer", optimizer), one_of("scheduler", scheduler)
        if optimizer is not None and not callable(getattr(optimizer, "step", None)):
            raise InvalidArgument(f"Local({type(optimizer).__name__}): an optimizer with step() "
                                  "is needed, such as torch.optim.AdamW(model.parameters())")
        if not 1 <= int(every) <= 1048576:
            raise InvalidArgument(f"every is {every}; it must be 1 to 1048576")
        self.optimizer, self.every = optimizer, int(every)
        if outer is not None and not isinstance(outer, ShardOptimizer):
            raise InvalidArgument(f"outer is a {type(outer).__name__}; give an optimizer of the "
                                  "shards, as monsoon.DelayedNesterov(period=4)")
        self.scaler, self.scheduler, self.outer = scaler, scheduler, outer
        self.dynamic = bool(dynamic)
        if rounds is not None and not isinstance(rounds, Rounds):
            raise InvalidArgument(f"rounds is a {type(rounds).__name__}; give monsoon.Rounds()")
        if weight not in _WEIGHTS:
            raise InvalidArgument(f"weight={weight!r}: there are "
                                  f"{', '.join(name for name in _WEIGHTS if name)}")
        if weight_reference is not None:
            weight_reference = _finite("weight_reference", weight_reference, _LARGEST)
            if weight_reference > 0 and weight is None and rounds is None:
                raise InvalidArgument("weight_reference means nothing without weight, as in "
                                      "weight='steps'")
        self.rounds, self.weight, self.weight_reference = rounds, weight, weight_reference
        if fragments is not None and not isinstance(fragments, Fragments):
            raise InvalidArgument(f"fragments is a {type(fragments).__name__}; give "
                                  "monsoon.Fragments(4)")
        if fragments is not None and self.every % fragments.count:
            raise InvalidArgument(f"every is {self.every}, no multiple of the {fragments.count} "
                                  "fragments, of which one is pushed after equally many steps")
        self.fragments, self.mixing = fragments, _finite("mixing", mixing, 1)
        if self.mixing == 1:
            raise InvalidArgument("mixing is 1; what was fetched would never be used")
        if changes is not None and changes not in _CHANGES:
            raise InvalidArgument(f"changes={changes!r}: there are {', '.join(_CHANGES)}")
        self.changes = changes
        if schedules not in ("job", "own"):
            raise InvalidArgument(f"schedules={schedules!r}: there are job, own")
        if schedules == "job" and scheduler is None:
            raise InvalidArgument("schedules='job' means nothing without scheduler=; a loop that "
                                  "steps its own takes job.following(scheduler)")
        self.schedules = schedules

    def text(self) -> Dict[str, Any]:
        """What it adds to the `downpour` of the job file."""
        local: Dict[str, Any] = {"steps": self.every}
        if self.fragments is not None:
            local["fragments"] = self.fragments.text()
        if self.mixing:
            local["mixing"] = self.mixing
        if self.dynamic:
            local["dynamic"] = True
        weight = _WEIGHTS[self.weight]
        if weight is not None:
            local["weight"] = _text.Token(weight)
        if self.weight_reference:
            local["weight_reference"] = self.weight_reference
        text: Dict[str, Any] = {"local": local}
        if self.rounds is not None:
            text["rounds"] = self.rounds.text()
        if self.changes is not None:
            text["fetch_changes"] = _text.Token(self.changes.upper())
        if self.outer is not None:
            text["optimizer"] = self.outer.text()
        return text

    def bind(self, layout: Layout) -> None:
        """As ShardOptimizer.bind, of the outer one."""
        if self.outer is not None:
            self.outer.bind(layout)

    def step(self) -> None:
        """One step of the optimizer, its gradients zeroed after it."""
        if self.optimizer is None:
            return
        if self.scaler is not None:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
        if self.scheduler is not None:
            self.scheduler.step()
        if hasattr(self.optimizer, "zero_grad"):
            self.optimizer.zero_grad()

    def state(self) -> Dict[str, Any]:
        """The states of optimizer, scaler and scheduler, where they have one."""
        parts = {"optimizer": self.optimizer, "scaler": self.scaler, "scheduler": self.scheduler}
        return {name: part.state_dict() for name, part in parts.items()
                if hasattr(part, "state_dict")}

    def load_state(self, state: Dict[str, Any]) -> None:
        for name in ("optimizer", "scaler", "scheduler"):
            if name in state and getattr(self, name) is not None:
                getattr(self, name).load_state_dict(state[name])

    def __repr__(self) -> str:
        outer = "" if self.outer is None else f", outer={self.outer!r}"
        dynamic = ", dynamic=True" if self.dynamic else ""
        given = "".join(f", {name}={getattr(self, name)!r}"
                        for name in ("rounds", "weight", "weight_reference", "fragments",
                                     "changes") if getattr(self, name) is not None)
        given += f", mixing={self.mixing:g}" if self.mixing else ""
        return (f"Local({name_of(self.optimizer)}, every={self.every}{outer}{dynamic}"
                f"{given})")


Optimizer = Union[ShardOptimizer, Local]
