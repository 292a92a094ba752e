"""Whether what a program keeps by itself is fit to train on."""

from __future__ import annotations

from typing import Any, Optional

# Of an optimizer with thousands of tensors that are all ill, so many are named.
_NAMED = 3


def not_finite(optimizer: Any, model: Any) -> Optional[str]:
    """What of the optimizer's state is not finite, as "exp_avg of 0.weight"; None: nothing that
    can be seen. torch.optim's `state` is known: of each parameter, tensors by name."""
    named = getattr(model, "named_parameters", None)
    names = {} if named is None else {id(p): name for name, p in named()}
    found = []
    for parameter, kept in dict(getattr(optimizer, "state", None) or {}).items():
        for what, value in kept.items() if hasattr(kept, "items") else ():
            if (getattr(value, "is_floating_point", bool)()
                    and not bool(value.detach().isfinite().all())):
                found.append(f"{what} of {names.get(id(parameter), tuple(parameter.shape))}")
    if not found:
        return None
    more = len(found) - _NAMED
    return ", ".join(found[:_NAMED]) + (f" and {more} more" if more > 0 else "")
