"""Several optimizers or schedulers of one model as one, for Local([muon, adam_w])."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

from .errors import InvalidArgument


class Several:
    """Has what Local, a GradScaler and checkpoints ask of an optimizer; each call goes to all, in
    their order."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts = tuple(parts)

    @property
    def param_groups(self) -> List[Dict[str, Any]]:
        return [group for part in self.parts for group in getattr(part, "param_groups", ())]

    @property
    def state(self) -> Dict[Any, Any]:
        return {key: kept for part in self.parts
                for key, kept in (getattr(part, "state", None) or {}).items()}

    def step(self) -> None:
        for part in self.parts:
            part.step()

    def zero_grad(self, set_to_none: bool = True) -> None:
        for part in self.parts:
            if hasattr(part, "zero_grad"):
                part.zero_grad(set_to_none=set_to_none)

    def state_dict(self) -> Dict[str, Any]:
        return {"several": [part.state_dict() for part in self.parts]}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        states = state.get("several", [])
        if len(states) != len(self.parts):
            raise InvalidArgument(f"the state is of {len(states) or 1} optimizers, and there are "
                                  f"{len(self.parts)}")
        for part, own in zip(self.parts, states):
            part.load_state_dict(own)

    def __repr__(self) -> str:
        return "+".join(type(part).__name__ for part in self.parts)


def one_of(what: str, given: Any) -> Optional[Any]:
    """`given` itself, or as one where it is a list. Raises InvalidArgument for a list that holds
    one twice, or what has no step()."""
    if not isinstance(given, (list, tuple)):
        return given
    for part in given:
        if not callable(getattr(part, "step", None)):
            raise InvalidArgument(f"{what} has a {type(part).__name__}; each needs a step()")
    tensors = [id(p) for part in given for group in getattr(part, "param_groups", ())
               for p in group["params"]]
    if len(set(tensors)) < len(tensors):
        raise InvalidArgument(f"{what}: two of them step one parameter")
    if not given:
        raise InvalidArgument(f"{what} is an empty list")
    return given[0] if len(given) == 1 else Several(given)


def name_of(optimizer: Any) -> str:
    return repr(optimizer) if isinstance(optimizer, Several) else type(optimizer).__name__
