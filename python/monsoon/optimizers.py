"""Optimizers of the shards (local.py has those of this process).

Names and formulas are those of proto/optimizer.proto, keywords those of torch.optim. An optimizer
of the shards sees each pushed gradient once, in the order in which pushes arrive.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from .errors import InvalidArgument
from .groups import Groups, checked, texts
from .layout import Layout
from .schedules import Schedule

__all__ = ["SGD", "Momentum", "Nesterov", "DelayedNesterov", "Adagrad", "Adam", "AdamW", "Lion",
           "RMSProp", "Average"]


def _within(name: str, value: float, least: float, below: Optional[float] = None,
            above: bool = False) -> float:
    value = float(value)
    right = value > least if above else value >= least
    if not right or (below is not None and value >= below):
        bounds = f"{'above' if above else 'at least'} {least:g}"
        bounds += "" if below is None else f" and below {below:g}"
        raise InvalidArgument(f"{name} is {value!r}; it must be {bounds}")
    return value


class Average:
    """The optimizer moves a point of its own; the parameters that all fetch, test and export lie
    between it and the average of its path (Defazio et al. 2024), so that a stale gradient or a
    noisy one matters less. Bears about twice the rate. One slot more on the shards.

    share: of the average, in (0, 1]. power: the higher, the sooner old points are forgotten.

    >>> from monsoon import Adagrad, Average
    >>> Adagrad(0.1, average=Average())
    Adagrad(lr=0.1, average=Average(share=0.9, power=2.0), eps=1e-08)
    """

    def __init__(self, share: float = 0.9, power: float = 2.0) -> None:
        self.share, self.power = _within("share", share, 0, above=True), _within("power", power, 0)
        if self.share > 1:
            raise InvalidArgument(f"share is {share!r}; it must be at most 1")

    def text(self) -> Dict[str, Any]:
        return {"share": self.share, "power": self.power}

    def __repr__(self) -> str:
        return f"Average(share={self.share!r}, power={self.power!r})"


class ShardOptimizer:
    """What the optimizers of the shards have in common; use one of those below.

    lr: the rate.
    weight_decay: g += weight_decay * w before anything else (AdamW has its own).
    weight_decay_weights_only: leaves biases out.
    clip_value: g is clipped to [-clip_value, clip_value], value by value, on the shard.
    clip_norm: the whole pushed gradient is scaled to at most this Euclidean norm.
    schedule: multiplies the rate.
    average: an Average of what the optimizer does; None: none.
    damping: a push that others overtook s times counts (1 + s)^-damping times; 0 to 4.
    groups: Group(...)s, or a list of parameter groups as torch.optim takes it; a tensor is of the
    first that names it. Where all are torch's, tensors of none are frozen, as there.

    Raises InvalidArgument for a number that cannot be right.

    >>> from monsoon import Adagrad, CosineSchedule
    >>> Adagrad(0.03, clip_norm=1.0, schedule=CosineSchedule(pushes=10000))
    Adagrad(lr=0.03, clip_norm=1.0, schedule=CosineSchedule(pushes=10000), eps=1e-08)
    """

    kind = ""

    def __init__(self, lr: float, *, weight_decay: float = 0.0,
                 weight_decay_weights_only: bool = False, clip_value: Optional[float] = None,
                 clip_norm: Optional[float] = None, schedule: Optional[Schedule] = None,
                 average: Optional[Average] = None, damping: float = 0.0,
                 groups: Optional[Groups] = None) -> None:
        self.lr = _within("lr", lr, 0, above=True)
        self.weight_decay = _within("weight_decay", weight_decay, 0)
        self.weight_decay_weights_only = bool(weight_decay_weights_only)
        self.clip_value = None if clip_value is None else _within("clip_value", clip_value, 0,
                                                                  above=True)
        self.clip_norm = None if clip_norm is None else _within("clip_norm", clip_norm, 0,
                                                                above=True)
        self.schedule = schedule
        if average is not None and not isinstance(average, Average):
            raise InvalidArgument(f"average is a {type(average).__name__}; give monsoon.Average()")
        self.average = average
        self.damping = _within("damping", damping, 0)
        if self.damping > 4:
            raise InvalidArgument(f"damping is {damping!r}; it must be at most 4")
        self.groups = checked(groups)
        self._group_texts: Optional[List[Dict[str, Any]]] = None

    def bind(self, layout: Layout) -> None:
        """Gives the groups the names that the model's tensors have. Raises InvalidArgument for
        tensors that it does not have."""
        self._group_texts = texts(self.groups, vars(self), layout)

    def _rule(self) -> Dict[str, Any]:
        return {"rate": self.lr}

    def text(self) -> Dict[str, Any]:
        """The `optimizer` of the job file."""
        return {
            self.kind: self._rule(),
            "weight_decay": self.weight_decay or None,
            "weight_decay_weights_only": self.weight_decay_weights_only or None,
            "schedule": None if self.schedule is None else self.schedule.text(),
            "clip_value": self.clip_value,
            "clip_norm": self.clip_norm,
            "average": None if self.average is None else self.average.text(),
            "damping": self.damping or None,
            "group": self._bound_groups(),
        }

    def _bound_groups(self) -> List[Dict[str, Any]]:
        if self.groups and self._group_texts is None:
            raise InvalidArgument("groups are of a model: bind() comes before text()")
        return self._group_texts or []

    def __repr__(self) -> str:
        unset = (None, False, 0.0, [])
        settings = [f"{name}={value!r}" for name, value in vars(self).items()
                    if name == "lr" or not (name[0] == "_" or any(
                        value is x or value == x for x in unset))]
        return f"{type(self).__name__}({', '.join(settings)})"


class SGD(ShardOptimizer):
    """w -= lr * g."""

    kind = "sgd"


class Momentum(ShardOptimizer):
    """v = momentum * v + g; w -= lr * v. As torch.optim.SGD with momentum."""

    kind = "momentum"

    def __init__(self, lr: float, momentum: float = 0.9, **common: Any) -> None:
        super().__init__(lr, **common)
        self.momentum = _within("momentum", momentum, 0, 1)

    def _rule(self) -> Dict[str, Any]:
        return {"rate": self.lr, "momentum": self.momentum}


class Adagrad(ShardOptimizer):
    """h += g*g; w -= lr * g / (sqrt(h) + eps). h starts at initial_accumulator_value."""

    kind = "adagrad"

    def __init__(self, lr: float, eps: float = 1e-8, initial_accumulator_value: float = 0.0,
                 **common: Any) -> None:
        super().__init__(lr, **common)
        self.eps = _within("eps", eps, 0, above=True)
        self.initial_accumulator_value = _within(
            "initial_accumulator_value", initial_accumulator_value, 0)

    def _rule(self) -> Dict[str, Any]:
        return {"rate": self.lr, "epsilon": self.eps,
                "initial_accumulator": self.initial_accumulator_value or None}


class Adam(ShardOptimizer):
    """As torch.optim.Adam (Kingma and Ba 2015), with the pushes that a stripe of a shard has
    applied as its count of steps."""

    kind = "adam"

    def __init__(self, lr: float = 1e-3, betas: Tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, **common: Any) -> None:
        super().__init__(lr, **common)
        self.betas = (_within("betas[0]", betas[0], 0, 1), _within("betas[1]", betas[1], 0, 1))
        self.eps = _within("eps", eps, 0, above=True)

    def _rule(self) -> Dict[str, Any]:
        return {"rate": self.lr, "beta1": self.betas[0], "beta2": self.betas[1],
                "epsilon": self.eps}


class AdamW(Adam):
    """Adam on the gradient without decay, after w -= lr * weight_decay * w (Loshchilov and
    Hutter 2019)."""

    kind = "adam_w"

    def __init__(self, lr: float = 1e-3, betas: Tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0.01, **common: Any) -> None:
        super().__init__(lr, betas, eps, weight_decay=weight_decay, **common)

    def text(self) -> Dict[str, Any]:
        fields = super().text()
        fields["weight_decay"] = None
        fields[self.kind] = {**fields[self.kind], "weight_decay": self.weight_decay}
        return fields


class Lion(ShardOptimizer):
    """w -= lr * (sign(beta1 * m + (1 - beta1) * g) + weight_decay * w), then
    m = beta2 * m + (1 - beta2) * g (Chen et al. 2023, arXiv 2302.06675). One slot, where Adam has
    two. Wants a third to a tenth of AdamW's rate, and as many times its decay."""

    kind = "lion"

    def __init__(self, lr: float = 1e-4, betas: Tuple[float, float] = (0.9, 0.99),
                 weight_decay: float = 0.0, **common: Any) -> None:
        super().__init__(lr, weight_decay=weight_decay, **common)
        self.betas = (_within("betas[0]", betas[0], 0, 1), _within("betas[1]", betas[1], 0, 1))

    def _rule(self) -> Dict[str, Any]:
        return {"rate": self.lr, "beta1": self.betas[0], "beta2": self.betas[1],
                "weight_decay": self.weight_decay or None}

    def text(self) -> Dict[str, Any]:
        return {**super().text(), "weight_decay": None}


class RMSProp(ShardOptimizer):
    """v = alpha * v + (1 - alpha) * g*g; w -= lr * g / (sqrt(v) + eps), with momentum as
    torch.optim.RMSprop has it."""

    kind = "rms_prop"

    def __init__(self, lr: float = 1e-2, alpha: float = 0.99, eps: float = 1e-8,
                 momentum: float = 0.0, **common: Any) -> None:
        super().__init__(lr, **common)
        self.alpha = _within("alpha", alpha, 0, 1)
        self.eps = _within("eps", eps, 0, above=True)
        self.momentum = _within("momentum", momentum, 0, 1)

    def _rule(self) -> Dict[str, Any]:
        return {"rate": self.lr, "alpha": self.alpha, "epsilon": self.eps,
                "momentum": self.momentum or None}


class Nesterov(ShardOptimizer):
    """b = momentum * b + g; w -= lr * (g + momentum * b). As torch.optim.SGD with nesterov, and
    the outer optimizer of DiLoCo (0.7, 0.9). For pushes of several programs, which come one by
    one, take DelayedNesterov."""

    kind = "nesterov"

    def __init__(self, lr: float = 0.7, momentum: float = 0.9, **common: Any) -> None:
        super().__init__(lr, **common)
        self.momentum = _within("momentum", momentum, 0, 1)

    def _rule(self) -> Dict[str, Any]:
        return {"rate": self.lr, "momentum": self.momentum}


class DelayedNesterov(Nesterov):
    """Nesterov whose momentum moves once in `period` pushes, by their mean; each push moves the
    parameters by a part of itself (Liu et al. 2024, arXiv 2401.09135).

    period: N, as many as there are programs.
    share: c in [0, 1 / N]: of the momentum, what the pushes in between take.

    >>> from monsoon import DelayedNesterov
    >>> DelayedNesterov(period=4)
    DelayedNesterov(lr=0.7, momentum=0.9, period=4)
    """

    def __init__(self, lr: float = 0.7, momentum: float = 0.9, *, period: int, share: float = 0.0,
                 **common: Any) -> None:
        super().__init__(lr, momentum, **common)
        if not 1 <= int(period) <= 65536:
            raise InvalidArgument(f"period is {period}; it must be 1 to 65536")
        self.period = int(period)
        self.share = _within("share", share, 0)
        if self.share * self.period > 1:
            raise InvalidArgument(f"share is {share!r}; it must be at most 1 / period, "
                                  f"{1 / self.period:g}")

    def _rule(self) -> Dict[str, Any]:
        return {**super()._rule(), "period": self.period, "share": self.share or None}
