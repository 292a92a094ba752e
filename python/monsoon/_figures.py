"""Checks of the figures that a program tells of its steps and evaluations."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Mapping, Optional, Tuple

from .errors import InvalidArgument

_MOST = 1 << 63  # of a count


def number(what: str, value: Any) -> float:
    """One number of any kind, a tensor or an array of one value, too. What is not finite passes: a
    loss of that kind is divergence, which the job's settings say what to do with."""
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        return float(value.detach() if hasattr(value, "detach") else value)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise InvalidArgument(f"{what} is {value!r}; it must be one number") from error


def count(what: str, value: Any) -> int:
    """A number of samples: whole, and not below 0."""
    told = number(what, value)
    if not math.isfinite(told) or told != int(told) or not 0 <= told < _MOST:
        raise InvalidArgument(f"{what} is {value!r}; it must be a whole number of samples, not "
                              "below 0")
    return int(told)


def of_step(examples: Any, correct: Any, samples: Optional[int]) -> Tuple[int, Optional[int]]:
    """`examples` and `correct` of a step on batches of `samples`; None: how many is not known."""
    examples = count("step(examples=)", examples)
    if correct is None:
        return examples, None
    correct = count("step(correct=)", correct)
    most = examples or samples
    if most is not None and correct > most:
        raise InvalidArgument(f"step(correct={correct}), but the step is on {most} samples"
                              + ("" if examples else "; say examples= where it is on others"))
    return examples, correct


class Wanted:
    """What a job's settings go by in each evaluation: figure to setting."""

    def __init__(self, settings: Any) -> None:
        self._share = settings.target_accuracy is not None
        self._names: Dict[str, List[str]] = {}
        best = settings.checkpoint.keep_best if settings.checkpoint is not None else None
        for figure, setting in (
                ("accuracy" if self._share else None, "target_accuracy"), (best, "keep_best"),
                (getattr(settings.early_stop, "figure", None), "early_stop"),
                (getattr(settings.plateau, "figure", None), "plateau")):
            if figure is not None:
                self._names.setdefault(figure, []).append(setting)

    def check(self, figures: Mapping[str, float]) -> None:
        """Raises InvalidArgument for a figure that is missing, or no share where one is wanted."""
        for figure, settings in self._names.items():
            if figure not in figures:
                raise InvalidArgument(
                    f"evaluate() gave {', '.join(figures) or 'nothing'}, and no {figure}, which "
                    f"{' and '.join(settings)} of this job need")
        accuracy = figures.get("accuracy", 0.0)
        # NaN reaches no target, and is not the best of anything.
        if self._share and (accuracy < 0 or accuracy > 1):
            raise InvalidArgument(f"evaluate() gave accuracy={accuracy:g}, and target_accuracy "
                                  "needs a share in [0, 1]: 0.875 for 87.5 per cent")
