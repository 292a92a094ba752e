"""Group: tensors that an optimizer of the shards treats otherwise (OptimizerGroup in
proto/optimizer.proto), and torch's own lists of parameter groups."""

from __future__ import annotations

import fnmatch
import glob
import warnings
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from .errors import InvalidArgument
from .layout import Kind, Layout

__all__ = ["Group"]

# What a group of torch.optim may hold beside what a Group has: no part of the rule, or of how it
# is computed.
_NO_RULE = ("params", "param_names", "name", "initial_lr", "foreach", "fused", "capturable",
            "differentiable", "decoupled_weight_decay")
_NUMBERS = ("lr", "weight_decay", "betas", "momentum", "alpha", "eps")


class Group:
    """Tensors with numbers of their own, in groups= of an optimizer of the shards.

    tensors: names as in model.state_dict(), with * for any characters and ? for one; parameters,
    or modules: those of their parameters that no earlier group has. A tensor is of the first group
    that names it.
    lr (or rate): in place of the optimizer's; its schedule scales each alike. factor: of the
    optimizer's, in place of lr.
    weight_decay, betas, momentum, alpha, eps: as the optimizer has them.
    frozen: pushes leave these tensors as they are.

    >>> from monsoon import AdamW, Group
    >>> AdamW(3e-4, groups=[Group("*.bias", weight_decay=0), Group("embed.*", rate=1e-4)])
    AdamW(lr=0.0003, weight_decay=0.01, groups=[Group('*.bias', weight_decay=0.0), \
Group('embed.*', lr=0.0001)], betas=(0.9, 0.999), eps=1e-08)
    """

    def __init__(self, *tensors: Any, lr: Optional[float] = None, rate: Optional[float] = None,
                 factor: Optional[float] = None, weight_decay: Optional[float] = None,
                 betas: Optional[Tuple[float, float]] = None, momentum: Optional[float] = None,
                 alpha: Optional[float] = None, eps: Optional[float] = None,
                 frozen: bool = False) -> None:
        if lr is not None and rate is not None:
            raise InvalidArgument("lr and rate are one number; give one")
        lr = rate if lr is None else lr
        if lr is not None and factor is not None:
            raise InvalidArgument("factor stands in place of lr; give one")
        self.tensors = tensors
        self.numbers: Dict[str, Any] = {
            name: float(value) for name, value in (
                ("lr", lr), ("factor", factor), ("weight_decay", weight_decay),
                ("momentum", momentum), ("alpha", alpha), ("eps", eps)) if value is not None}
        if betas is not None:
            self.numbers["betas"] = (float(betas[0]), float(betas[1]))
        self.frozen = bool(frozen)
        if not tensors:
            raise InvalidArgument("a Group has no tensors: give names, parameters or modules")
        if self.frozen == bool(self.numbers):
            raise InvalidArgument(f"{self!r} " + ("is frozen: it has no numbers" if self.frozen else
                                                  "has nothing of its own; as in weight_decay=0"))

    def text(self, layout: Layout, before: Sequence[str] = ()) -> Dict[str, Any]:
        """The `group` of the job file, with the names that the layout has. `before`: the patterns
        of earlier groups, whose tensors a module's do not count."""
        names = _names_of(self.tensors, layout, repr(self), before)
        return _text(_patterns(names, layout), self.numbers, self.frozen)

    def __repr__(self) -> str:
        shown = [repr(tensor) if isinstance(tensor, str) else f"<{type(tensor).__name__}>"
                 for tensor in self.tensors[:3]] + (["..."] if len(self.tensors) > 3 else [])
        shown += [f"{name}={value!r}" for name, value in self.numbers.items()]
        shown += ["frozen=True"] if self.frozen else []
        return f"Group({', '.join(shown)})"


Groups = Sequence[Union[Group, Mapping[str, Any]]]


def checked(groups: Optional[Groups]) -> List[Any]:
    """groups= of an optimizer. Raises InvalidArgument for what is neither a Group nor torch's."""
    if isinstance(groups, (Group, Mapping, str)):
        raise InvalidArgument("groups is a list, as in groups=[monsoon.Group(\"*.bias\", "
                              "weight_decay=0)]")
    listed = list(groups or [])
    for group in listed:
        if not isinstance(group, Group) and not (isinstance(group, Mapping) and "params" in group):
            raise InvalidArgument(f"groups has a {type(group).__name__}; give monsoon.Group(...) "
                                  "or torch's {\"params\": [...], ...}")
    # A generator of parameters is read once.
    return [group if isinstance(group, Group) else {**group, "params": _parameters(group["params"])}
            for group in listed]


def texts(groups: Sequence[Any], own: Mapping[str, Any], layout: Layout) -> List[Dict[str, Any]]:
    """Each `group` of the job file. `own`: the optimizer's lr, weight_decay and so on.

    Where all are torch's, whose optimizers move what they are given alone, the tensors of none are
    frozen, with a warning that names them.
    """
    made: List[Dict[str, Any]] = []
    listed = set()
    for group in groups:
        if isinstance(group, Group):
            before = [pattern for each in made for pattern in each["tensors"]]
            made.append(group.text(layout, before))
            continue
        names = _names_of(group["params"], layout, "a group of parameters")
        listed.update(names)
        if not names:
            continue  # they stay in this process
        numbers = _of_torch(group, own)
        if numbers is not None:
            made.append(_text(_patterns(names, layout), numbers, frozen=numbers.get("lr") == 0))
    if groups and not any(isinstance(group, Group) for group in groups):
        rest = [entry.name for entry in layout.entries
                if entry.kind is Kind.TRAINED and entry.name not in listed]
        if rest:
            warnings.warn(f"{_some(rest)} of the model are in no group of parameters: they are "
                          "frozen, as torch leaves them", UserWarning, stacklevel=4)
            made.append({"tensors": _patterns(rest, layout), "frozen": True})
    return made


def _patterns(names: List[str], layout: Layout) -> List[str]:
    """A whole name stands for itself, whatever characters it has."""
    whole = {entry.name for entry in layout.entries}
    return [glob.escape(name) if name in whole else name for name in names]


def _text(names: List[str], numbers: Mapping[str, Any], frozen: bool) -> Dict[str, Any]:
    if frozen:
        return {"tensors": names, "frozen": True}
    beta1, beta2 = numbers.get("betas", (None, None))
    return {"tensors": names, "rate": numbers.get("lr"), "rate_factor": numbers.get("factor"),
            "weight_decay": numbers.get("weight_decay"), "beta1": beta1, "beta2": beta2,
            "momentum": numbers.get("momentum"), "epsilon": numbers.get("eps"),
            "alpha": numbers.get("alpha")}


def _of_torch(group: Mapping[str, Any], own: Mapping[str, Any]) -> Optional[Dict[str, Any]]:
    """The numbers that a group of torch's has otherwise than the optimizer; None: none."""
    numbers: Dict[str, Any] = {}
    for key, value in group.items():
        if key in _NO_RULE or value is None or value is False:
            continue
        if key not in _NUMBERS:
            if value == 0:
                continue
            raise InvalidArgument(f"a group of parameters has {key}={value!r}, which optimizers of "
                                  "the shards do not have per group; leave it out")
        given = tuple(float(each) for each in value) if key == "betas" else float(value)
        if key not in own:
            if given == 0:
                continue
            raise InvalidArgument(f"a group of parameters has {key}={value!r}, which the optimizer "
                                  "does not have")
        if given != own[key]:
            numbers[key] = given
    return numbers or None


def _parameters(given: Any) -> List[Any]:
    """A tensor, or several, each alone or with its name before it."""
    if hasattr(given, "data_ptr") or isinstance(given, str):
        return [given]
    return [each[1] if isinstance(each, tuple) and len(each) == 2 else each for each in given]


def _names_of(tensors: Iterable[Any], layout: Layout, whose: str,
              before: Sequence[str] = ()) -> List[str]:
    """The patterns as they are, and the names of tensors and modules, of these without what
    `before` names. A pattern of an alias stands for the tensor's name. Raises InvalidArgument for
    what the model does not have."""
    known = {id(entry.source): entry.name for entry in layout.entries}
    names: List[str] = []
    for tensor in tensors:
        if isinstance(tensor, str):
            names += _of_pattern(tensor, layout, whose)
        elif hasattr(tensor, "parameters"):
            own = _names_of(list(tensor.parameters()), layout, whose)
            left = [name for name in own
                    if not any(_names(pattern, name) for pattern in before)]
            if own and not left:
                raise InvalidArgument(f"{whose}: earlier groups have all tensors of the "
                                      f"{type(tensor).__name__}, {_some(own)}")
            names += left
        elif id(tensor) in known:
            names.append(known[id(tensor)])
        elif not hasattr(tensor, "shape"):
            raise InvalidArgument(f"{whose} has a {type(tensor).__name__}; give names, parameters "
                                  "or modules")
        elif getattr(tensor, "requires_grad", True):
            raise InvalidArgument(f"{whose} has a {type(tensor).__name__} of shape "
                                  f"{tuple(tensor.shape)} that is none of the model's parameters")
    return list(dict.fromkeys(names))


def _of_pattern(pattern: str, layout: Layout, whose: str) -> List[str]:
    if any(_names(pattern, entry.name) for entry in layout.entries):
        return [pattern]
    aliased = [entry.name for entry in layout.entries
               if any(_names(pattern, alias) for alias in entry.aliases)]
    if not aliased:
        raise InvalidArgument(f"{whose}: {pattern!r} names no tensor of the model, which has "
                              f"{_some([entry.name for entry in layout.entries])}")
    return aliased


def _names(pattern: str, name: str) -> bool:
    """A whole name stands for itself, whatever brackets are in it."""
    return pattern == name or fnmatch.fnmatchcase(name, pattern)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
