"""Runs the program's evaluate() on parameters that are not its own, and leaves no trace."""

from __future__ import annotations

import contextlib
import random
import sys
from typing import Any, Callable, Dict, Iterator, Mapping, Optional, Union

import numpy

from ._figures import Wanted, number
from .errors import InvalidArgument

Evaluate = Callable[[Any], Union[float, Mapping[str, Any], None]]
# Values swapped at a time: fits a core's cache.
_CHUNK = 1 << 16


def swap(a: numpy.ndarray, b: numpy.ndarray) -> None:
    """Exchanges two vectors' values without a third vector."""
    for begin in range(0, a.size, _CHUNK):
        here = slice(begin, begin + _CHUNK)
        kept = a[here].copy()
        a[here] = b[here]
        b[here] = kept


def metrics(result: Any) -> Dict[str, float]:
    """What evaluate() returned, as numbers by name; a number alone is the loss."""
    if result is None:
        return {}
    if not isinstance(result, Mapping):
        result = {"loss": result}
    numbers = {}
    for name, value in result.items():
        if not isinstance(name, str) or not 1 <= len(name) <= 64 or not name.isprintable():
            raise InvalidArgument(f"evaluate() named a figure {name!r}; a name has 1 to 64 "
                                  "printable characters")
        numbers[name] = number(f"evaluate()'s {name}", value)
    return numbers


@contextlib.contextmanager
def _random_states() -> Iterator[None]:
    # torch is there if the model, or the program, is of it.
    torch = sys.modules.get("torch")
    python, of_numpy = random.getstate(), numpy.random.get_state()
    on_cpu = torch.get_rng_state() if torch is not None else None
    has_gpu = torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized()
    on_gpu = torch.cuda.get_rng_state_all() if has_gpu else None
    try:
        yield
    finally:
        random.setstate(python)
        numpy.random.set_state(of_numpy)
        if on_cpu is not None:
            torch.set_rng_state(on_cpu)
        if on_gpu is not None:
            torch.cuda.set_rng_state_all(on_gpu)


@contextlib.contextmanager
def _eval_mode(model: Any) -> Iterator[None]:
    if not hasattr(model, "modules"):
        yield
        return
    import torch
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, training in modes:
            part.training = training


def checked(evaluate: Optional[Evaluate], settings: Any) -> Optional[Evaluate]:
    """The same, with what the job's settings need of its figures."""
    if evaluate is None:
        return None
    given, wanted = evaluate, Wanted(settings)

    def figures(model: Any) -> Mapping[str, Any]:
        numbers = metrics(given(model))
        wanted.check(numbers)
        return numbers

    return figures


def run(evaluate: Evaluate, model: Any, binding: Any, replica: Any) -> Dict[str, float]:
    """The figures of evaluate(model) with the vector that is to be evaluated in the place of
    the parameters. Those, each module's mode and the states of the random generators of
    Python, NumPy and torch are as before when it returns or raises."""
    swap(replica.parameters, replica.evaluated)
    kept = binding.evaluating()
    try:
        with _random_states(), _eval_mode(model):
            return metrics(evaluate(model))
    finally:
        swap(replica.parameters, replica.evaluated)
        binding.put_back(kept)
