"""Local steps: an optimizer of this process, whose differences travel."""

from __future__ import annotations

from typing import Any, Dict, Optional, Union

from .errors import InvalidArgument
from .optimizers import ShardOptimizer


class Local:
    """Steps here, differences travel: an optimizer of this process takes `every` steps, then
    what they moved is pushed, and training goes on from the job's parameters.

    optimizer: of torch.optim or like it (step, zero_grad, state_dict); None for loops that
    move NumPy arrays themselves. job.step() calls optimizer.step() and zero_grad(), unless it
    is told optimizer_stepped=True. All that works on the optimizer works on: schedulers,
    clip_grad_norm_ after backward, accumulation over several batches.
    every: steps between two pushes, 1 to 1048576.
    scaler: a GradScaler; then scaler.step(optimizer) and scaler.update() are called.
    scheduler: its step() is called after each step of the optimizer.
    outer: an optimizer of the shards, for which a difference is a gradient: with N programs
    DelayedNesterov(period=N) or SGD(1 / N), with one Nesterov() for example. None: SGD(1), which
    subtracts each difference, so that those of N programs add up. It takes no weight_decay,
    clip_value or clip_norm.
    dynamic: only the fastest program takes `every` steps, slower ones fewer in proportion to
    their measured speed, so that all push about equally often; job.stats.local_steps tells.

    >>> from monsoon import Local
    >>> Local(None, every=10).text()
    {'local_steps': 10}
    """

    def __init__(self, optimizer: Any, every: int = 100, *, scaler: Any = None,
                 scheduler: Any = None, outer: Optional[ShardOptimizer] = None,
                 dynamic: bool = False) -> None:
        if isinstance(optimizer, ShardOptimizer):
            raise InvalidArgument("Local() takes an optimizer of this process, as of "
                                  f"torch.optim; give {optimizer!r} as it is to run it on shards")
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

    def text(self) -> Dict[str, Any]:
        """What it adds to the `downpour` of the job file."""
        dynamic = {"dynamic_local_steps": True} if self.dynamic else {}
        outer = {} if self.outer is None else {"optimizer": self.outer.text()}
        return {"local_steps": self.every, **dynamic, **outer}

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
        return f"Local({type(self.optimizer).__name__}, every={self.every}{outer}{dynamic})"


Optimizer = Union[ShardOptimizer, Local]
