"""Tells whether a module still is the one that a job was joined with."""

from __future__ import annotations

import itertools
import warnings
from typing import Any, Dict, List, Set

from .errors import ModelChanged
from .layout import Kind, Layout, named_tensors, saved_buffers


class ModelWatch:
    """Of one module and its layout. look() costs about 3 us for LeNet's 10 parameters: it
    compares the ids of all parameters and modules, how many buffers there are, and which
    parameters need a gradient. Names are made where one of them differs."""

    def __init__(self, module: Any, layout: Layout) -> None:
        self._module, self._layout = module, layout
        self._frozen = {name for name, tensor, place in named_tensors(module)
                        if place is None and not tensor.requires_grad}
        self._remember()

    def _remember(self) -> None:
        # All are kept, so that no other object gets the id of one.
        self._parts = list(self._module.modules())
        # Those of TorchScript are no dicts, and cannot be changed.
        self._places = [held for part in self._parts
                        for held in (part._parameters, part._modules) if isinstance(held, dict)]
        self._held = self._now()
        self._ids = list(map(id, self._held))
        self._buffers = [part._buffers for part in self._parts]
        self._counts = list(map(len, self._buffers))
        self._parameters = [tensor for part in self._parts for tensor in part._parameters.values()
                            if tensor is not None]
        self._flags = [tensor.requires_grad for tensor in self._parameters]

    def _now(self) -> List[Any]:
        return list(itertools.chain.from_iterable(map(dict.values, self._places)))

    def look(self) -> None:
        """Raises ModelChanged, with names, where the model is another one. What can be taken
        over is: parameters that are frozen (they have no gradient then) and thawed again,
        modules without parameters, frozen parameters and buffers that stay in the process."""
        now = map(id, itertools.chain.from_iterable(map(dict.values, self._places)))
        if (list(now) == self._ids
                and [tensor.requires_grad for tensor in self._parameters] == self._flags
                and list(map(len, self._buffers)) == self._counts):
            return
        self._compare()
        self._remember()

    def _compare(self) -> None:
        tensors = {name: tensor for name, tensor, place in named_tensors(self._module)
                   if place is None}
        known = set(self._layout.local)
        gone: List[str] = []
        replaced: List[str] = []
        untied: List[str] = []
        for entry in self._layout.entries:
            known.update([entry.name, *entry.aliases])
            if entry.kind is not Kind.TRAINED:
                continue
            for name in [entry.name, *entry.aliases]:
                if name not in tensors:
                    gone.append(name)
                elif tensors[name] is not entry.source:
                    (replaced if name == entry.name else untied).append(name)
        ours = {id(entry.source) for entry in self._layout.entries}
        others = {name: tensor for name, tensor in tensors.items() if id(tensor) not in ours}
        added = [name for name, tensor in others.items()
                 if name not in known and tensor.requires_grad]
        thawed = [name for name, tensor in others.items()
                  if name in self._frozen and tensor.requires_grad]
        self._raise(gone, replaced, untied, added, thawed)
        self._take_over(others, known)

    def _raise(self, gone: List[str], replaced: List[str], untied: List[str], added: List[str],
               thawed: List[str]) -> None:
        again = "Make the model whole before join(), or join another job with the new model."
        told = []
        if added:
            told.append(f"{_some(added)} came after join(), and the job does not have "
                        f"{_it(added)}. {again}")
        if gone:
            told.append(f"{_some(gone)} went after join(), and the job has {_it(gone)}. {again}")
        if replaced:
            told.append(f"{_some(replaced)}: another Parameter is in the place of the one that the "
                        "job was joined with. Copy values into that one (load_state_dict without "
                        "assign=True, before join() with an optimizer of the shards). "
                        f"{again}")
        if untied:
            told.append(f"{_some(untied)} no longer the Parameter that it was tied to. {again}")
        if thawed:
            told.append(f"{_some(thawed)} needed no gradient at join() and now does, and the job "
                        f"does not have {_it(thawed)}. Give join(..., frozen=\"shards\"), or "
                        "freeze within the block what is to be trained later")
        if told:
            raise ModelChanged("the model has changed: " + " ".join(told))

    def _take_over(self, others: Dict[str, Any], known: Set[str]) -> None:
        saved = saved_buffers(self._module)
        for name, tensor, place in named_tensors(self._module):
            if name in known or (place is None and name not in others):
                continue
            self._layout.local.append(name)
            if place is None:
                self._frozen.add(name)
            elif name in saved and tensor.dtype.is_floating_point:
                warnings.warn(f"the buffer {name} came after join(): it stays in this process, and "
                              "the job's exports do not have it", stacklevel=6)


def _some(names: List[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _it(names: List[str]) -> str:
    return "it" if len(names) == 1 else "them"
