"""A job's settings, and the job file (proto/job.proto) that they make."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Optional

from . import _text
from .errors import InvalidArgument
from .local import Local, Optimizer
from .optimizers import ShardOptimizer
from .schedules import Plateau, WarmUp, check_figure

_FORMATS = {"float32": None, "bfloat16": "BFLOAT16", "float16": "FLOAT16", "int8": "INT8",
            "top_k": "TOP_K", "int4": "INT4", "top_k_2bit": "TOP_K_2BIT"}
_MEASURES = {None: None, "accuracy": "TEST_ACCURACY", "loss": "TEST_LOSS"}


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """When the shards write the job to the disk: seconds of training, or pushes, between two.
    keep_best: "accuracy" or "loss" keeps the state that evaluated best. off: never."""

    every_seconds: Optional[float] = None
    every_pushes: Optional[int] = None
    keep_best: Optional[str] = None
    off: bool = False

    def text(self) -> Dict[str, Any]:
        if self.keep_best not in _MEASURES:
            raise InvalidArgument(f"keep_best={self.keep_best!r}: it is 'accuracy' or 'loss'")
        best = _MEASURES[self.keep_best]
        return {"off": self.off or None,
                "every_seconds": None if self.every_seconds is None else float(self.every_seconds),
                "every_pushes": self.every_pushes,
                "keep_best": None if best is None else _text.Token(best)}


@dataclasses.dataclass(frozen=True)
class EarlyStop:
    """join(early_stop=...): the job ends, as succeeded, when the test figure, "loss" or "accuracy",
    has not become better than its best by min_change in `patience` evaluations in a row."""

    figure: str = "loss"
    patience: int = 5
    min_change: float = 0.0

    def __post_init__(self) -> None:
        check_figure(self)

    def text(self) -> Dict[str, Any]:
        return {"metric": _text.Token(str(_MEASURES[self.figure])), "patience": int(self.patience),
                "min_change": float(self.min_change) or None}


@dataclasses.dataclass
class Settings:
    """What all programs of a job must agree on; join() says what each field means."""

    name: str
    optimizer: Optimizer
    epochs: Optional[float] = None
    max_steps: Optional[int] = None
    max_seconds: Optional[float] = None
    target_accuracy: Optional[float] = None
    seed: int = 0
    n_fetch: Optional[int] = None
    n_push: Optional[int] = None
    overlap: bool = True
    push_format: str = "float32"
    fetch_format: str = "float32"
    top_k_share: Optional[float] = None
    residual_decay: Optional[float] = None
    staleness_bound: Optional[int] = None
    drop_older: bool = False
    evaluates: bool = False
    evaluate_every: Optional[float] = None
    checkpoint: Optional[Checkpoint] = None
    divergence: Optional[str] = None
    block_examples: Optional[int] = None
    programs: Optional[int] = None
    early_stop: Optional[EarlyStop] = None
    plateau: Optional[Plateau] = None

    def check(self) -> None:
        """Raises InvalidArgument for what no coordinator needs to be asked about."""
        if not isinstance(self.optimizer, (ShardOptimizer, Local)):
            raise InvalidArgument(
                f"optimizer is a {type(self.optimizer).__name__}; give one of the shards, as "
                "monsoon.Adagrad(0.03), or wrap one of torch: monsoon.Local(optimizer, every=100)")
        for setting in ("push_format", "fetch_format"):
            if getattr(self, setting) not in _FORMATS:
                raise InvalidArgument(f"{setting}={getattr(self, setting)!r}: there are "
                                      f"{', '.join(_FORMATS)}")
        if self.divergence not in (None, "reject", "skip", "halt"):
            raise InvalidArgument(f"divergence={self.divergence!r}: there are reject, skip, halt")
        if isinstance(self.optimizer, Local) and (self.n_fetch or self.n_push):
            raise InvalidArgument("n_fetch and n_push are for optimizers of the shards; with "
                                  "Local, `every` says when is pushed and fetched")
        if self.programs is not None and (
                isinstance(self.programs, bool) or not 1 <= int(self.programs) <= 4096):
            raise InvalidArgument(f"programs is {self.programs!r}; it must be 1 to 4096")
        if self.staleness_bound is not None and (
                isinstance(self.staleness_bound, bool) or not 0 <= self.staleness_bound <= 65536):
            raise InvalidArgument(f"staleness_bound is {self.staleness_bound!r}; it must be 0 to "
                                  "65536 pushes")
        if self.drop_older and self.staleness_bound is None:
            raise InvalidArgument("drop_older needs staleness_bound=, beyond which gradients are "
                                  "left out")
        if self.evaluate_every is not None and not self.evaluates:
            raise InvalidArgument("evaluate_every needs evaluate=, the function that evaluates")
        if self.target_accuracy is not None and not 0 < self.target_accuracy <= 1:
            raise InvalidArgument(f"target_accuracy is {self.target_accuracy!r}; it is a share in "
                                  "(0, 1], 0.9 for 90 per cent")
        self._check_figures()

    def _check_figures(self) -> None:
        for name, kind in (("early_stop", EarlyStop), ("plateau", Plateau)):
            rule = getattr(self, name)
            if rule is None:
                continue
            if not isinstance(rule, kind):
                raise InvalidArgument(f"{name} is a {type(rule).__name__}; give "
                                      f"monsoon.{kind.__name__}(patience=3)")
            if not self.evaluates or self.evaluate_every is None:
                raise InvalidArgument(f"{name} counts evaluations while the job trains: give "
                                      "evaluate= and evaluate_every= (epochs)")
        if self.plateau is None:
            return
        optimizer = self.optimizer.outer if isinstance(self.optimizer, Local) else self.optimizer
        if optimizer is None:
            raise InvalidArgument("plateau is of an optimizer on the shards: give Local(outer=...)"
                                  ", or a scheduler of torch to Local")
        if optimizer.schedule is not None and not isinstance(optimizer.schedule, WarmUp):
            raise InvalidArgument(f"plateau and {optimizer.schedule!r} both lower the rate; give "
                                  "one (WarmUp goes with either)")

    def travels_as(self, kind: str) -> bool:
        """All values travel as they are in a vector of this type, one of 16 bits: nothing is
        computed from float32 between the program and the shards."""
        return (self.push_format == self.fetch_format == kind and (self.n_push or 1) == 1
                and isinstance(self.optimizer, ShardOptimizer) and not self.optimizer.clip_norm)

    def _downpour(self) -> Dict[str, Any]:
        push, fetch = _FORMATS[self.push_format], _FORMATS[self.fetch_format]
        fields: Dict[str, Any] = {
            "n_fetch": self.n_fetch, "n_push": self.n_push,
            "overlap": None if self.overlap else _text.Token("NONE"),
            "push_format": None if push is None else _text.Token(push),
            "fetch_format": None if fetch is None else _text.Token(fetch),
            "top_k_share": self.top_k_share,
            "residual_decay": self.residual_decay,
            "staleness_bound": self.staleness_bound,
            "staleness_policy": _text.Token("DROP_OLDER") if self.drop_older else None,
            "programs": self.programs,
        }
        if isinstance(self.optimizer, Local):
            fields.update(self.optimizer.text())
        else:
            fields["optimizer"] = self.optimizer.text()
        if self.plateau is not None:
            schedule = fields["optimizer"]["schedule"] or {}
            fields["optimizer"]["schedule"] = {"plateau": self.plateau.text(), **schedule}
        return fields

    def job(self, examples: Optional[int], batch: int) -> str:
        """The job file. `examples` None: samples without numbers, of unknown length. Raises
        InvalidArgument for a job without an end."""
        ends = (self.epochs, self.max_steps, self.max_seconds, self.target_accuracy,
                self.early_stop)
        if examples is None and self.epochs is not None:
            raise InvalidArgument("data of unknown length have no epochs: leave epochs out, and "
                                  "the job ends when its programs have no more")
        if examples is not None and all(end is None for end in ends):
            raise InvalidArgument("the job has no end: give epochs, max_steps, max_seconds, "
                                  "target_accuracy or early_stop to join()")
        joiners: Dict[str, Any] = {"unnumbered": True} if examples is None else {
            "examples": int(examples)}
        every = None if self.evaluate_every is None else {
            "every_epochs": float(self.evaluate_every)}
        stop = {"epochs": None if self.epochs is None else float(self.epochs),
                "steps": self.max_steps,
                "seconds": None if self.max_seconds is None else float(self.max_seconds),
                "target_accuracy": self.target_accuracy,
                "early": None if self.early_stop is None else self.early_stop.text()}
        return _text.write({
            "name": self.name,
            "train": {"joiners": joiners},
            "test": {"joiners": {}} if self.evaluates else None,
            "seed": int(self.seed) or None,
            "batch_size": int(batch),
            "downpour": self._downpour(),
            "stop": stop if any(end is not None for end in stop.values()) else None,
            "evaluation": every,
            "block_examples": self.block_examples,
            "checkpoint": None if self.checkpoint is None else self.checkpoint.text(),
            "divergence": None if self.divergence is None else {
                "action": _text.Token(self.divergence.upper())},
        })
