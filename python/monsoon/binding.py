"""A torch module as the model: its tensors as views of a replica's vectors.

What is of the vectors' type (float32, or bfloat16 where all travels so), contiguous and on the
CPU becomes a view: the Parameter object stays the same, its memory is the vector. Everything
else is copied by a path with a name, and counted by it: "parameter:float16",
"parameter:transposed", "gradient:gathered", "parameter:cuda:0".
Parameters change under no_grad, and the version counter of each is bumped, so that going
backward through a graph from before fails in place of being wrong.
"""

from __future__ import annotations

import collections
import warnings
from typing import Any, Counter, List, Optional, Sequence, Set, Tuple

import torch

from .errors import InvalidArgument, ModelChanged, UnsupportedTensor
from .layout import Kind, Layout
from .replica import Replica
from .slots import Slot
from .staging import Staging
from .watch import ModelWatch
from .witness import Witness, refusal

_LOSSY = (torch.float16, torch.bfloat16)
# Whether the model is another one is looked at in each of the first turns, then in each so manieth,
# and where a parameter has no gradient, or one that lies elsewhere.
_LOOKS, _LOOK_EVERY = 64, 8
_LOCAL_WAY = ("Let a torch optimizer step here, optimizer=ms.Local(...): all changes are then part "
              "of its difference;")


class TorchBinding:
    """Between a module and a replica's vectors. `local_steps`: the program moves the
    parameters itself, and gradients stay its own. `ignore`: what else writes to parameters
    that the shards move is not looked for."""

    def __init__(self, module: Any, layout: Layout, local_steps: bool,
                 ignore: bool = False) -> None:
        self._module, self._layout, self._local = module, layout, local_steps
        self.copied: Counter[str] = collections.Counter()
        self.missing = 0
        self._slots: List[Slot] = []
        self._are_views = False  # all gradients, when they were read last
        self._staging = Staging()
        self._watch = ModelWatch(module, layout)
        self._witness: Optional[Witness] = None  # None: the program may write
        self._looks = not local_steps and not ignore
        # All tensors are views, as look() has found; in a step that lands, still.
        self._none_moved = self._all_in_place = False
        self._versions: List[int] = []
        self._turn = self._turns = 0

    def attach(self, replica: Replica) -> None:
        """Writes the initial values to the vector and makes views of what can be."""
        self._watch.look()
        with torch.no_grad():
            for number, (entry, offset) in enumerate(zip(self._layout.entries, replica.offsets)):
                here = slice(offset, offset + entry.size)
                slot = Slot(number, entry, replica.parameters[here], replica.gradient[here])
                slot.value.copy_(slot.tensor)
                if slot.can_be_view:
                    slot.lend_value()
                self._slots.append(slot)
        self._trained = [slot for slot in self._slots if slot.kind is Kind.TRAINED]
        self._statistics = [slot for slot in self._slots if slot.kind is Kind.STATISTIC]
        self._parameters, self._gradient = replica.parameters, replica.gradient
        if self._looks:
            # Statistics, which the program writes, come behind what is trained.
            bounds = [(slot.name, offset, offset + slot.value.numel())
                      for slot, offset in zip(self._trained, replica.offsets)]
            self._witness = Witness(replica.parameters[:bounds[-1][2]], bounds)
            self._keep()
        if not self._local:
            self.zero_gradients()

    def look_at_optimizer(self, optimizer: Any) -> None:
        """Warns of parameters that Local's optimizer steps and the model does not have."""
        ours = set(map(id, self._module.parameters()))
        strange = [str(tuple(p.shape)) for group in getattr(optimizer, "param_groups", ())
                   for p in group["params"] if id(p) not in ours]
        if strange:
            warnings.warn(f"Local's optimizer steps {len(strange)} parameters that the model does "
                          f"not have, of shape {', '.join(strange[:3])}: they stay in this "
                          "process, and differ from those of other programs. Put them into the "
                          "module that is joined", stacklevel=5)

    # ---- what the program has done -------------------------------------------------------

    def look(self, whole: bool = False) -> None:
        """Before a step counts, and (`whole`) before batches are drawn, local steps are pushed or
        the job ends. Raises ModelChanged where the model is seen to be another one, or has values
        that the next landing would throw away."""
        self._turns += 1
        if whole or self._turns < _LOOKS or self._turns % _LOOK_EVERY == 0:
            self._watch.look()
        if self._witness is not None:
            self._look_at_values(self._witness)

    def _look_at_values(self, witness: Witness) -> None:
        versions = [slot.tensor._version for slot in self._trained]
        moved = self._moved(self._trained)
        self._none_moved = not moved and not self._statistics
        names = witness.changed()
        if not names and not moved and versions == self._versions:
            return
        elsewhere = {slot.number for slot in moved}
        self._turn += 1
        turn = moved[self._turn % len(moved)].number if moved else -1
        for slot, version, before in zip(self._trained, versions, self._versions):
            if slot.number in elsewhere:
                slot.check_shape()
                whole = version != before or not slot.was_copied
                if (whole or turn == slot.number) and not slot.holds_the_value(whole):
                    names.append(slot.name)
            elif version != before and not witness.sees_all and slot.name not in names:
                names.append(slot.name)
        if names:
            raise ModelChanged(refusal(names, _LOCAL_WAY))

    def _keep(self) -> None:
        if self._witness is not None:
            self._witness.keep()
            self._versions = [slot.tensor._version for slot in self._trained]

    @staticmethod
    def _moved(slots: Sequence[Slot]) -> List[Slot]:
        """Those whose tensors are no views."""
        return [slot for slot in slots if not slot.in_place]

    # ---- to the vectors ------------------------------------------------------------------

    def collect_parameters(self) -> None:
        """With local steps, before a due step."""
        self._collect(self._slots)

    def collect_statistics(self) -> None:
        """With optimizers of the shards, before a due step."""
        self._collect(self._statistics)

    def _collect(self, slots: List[Slot]) -> None:
        moved = self._moved(slots)
        if not moved:
            return
        with torch.no_grad():
            for slot in moved:
                slot.check_shape()
                slot.leave(self._parameters)
            values = self._staging.to_host([slot.tensor for slot in moved])
            for slot, value in zip(moved, values):
                self.copied["parameter:" + slot.path()] += slot.bytes
                if slot.tensor.dtype in _LOSSY and slot.anchor is not None:
                    # What rounding to it left of the vector's value is nobody's progress.
                    slot.value += value.float() - slot.anchor.float()
                    slot.anchor = value.clone()
                else:
                    slot.value.copy_(value)
                if slot.can_be_view:
                    slot.lend_value()

    def give(self, gradients: Any) -> None:
        """A module's gradients are those of its parameters."""
        if gradients is not None:
            raise InvalidArgument("gradients= is for models that are a dict of arrays; a module's "
                                  "are taken from its parameters after backward()")

    def collect_gradients(self) -> List[int]:
        """With optimizers of the shards, before a due step. Returns the layout's entries without a
        gradient. Raises UnsupportedTensor for a sparse one."""
        absent, elsewhere, views = [], [], 0
        self._all_in_place = self._none_moved
        for slot in self._trained:
            gradient = slot.tensor.grad
            if gradient is None:
                # Of others, too, there may be a gradient in this place.
                absent.append(slot.number)
                elsewhere.append((slot, None))
            elif (gradient is slot.lent and gradient.data_ptr() == slot.gradient_address
                  and gradient.is_contiguous()):
                # The usual case. Backward adds in place, which the version tells.
                version = gradient._version
                if version == slot.version and self._is_zero(slot):
                    absent.append(slot.number)
                slot.version = version
                views += 1
            elif gradient.layout is not torch.strided:
                raise UnsupportedTensor(f"the gradient of {slot.name} is sparse; only dense "
                                        "gradients travel (Embedding(sparse=False))")
            elif tuple(gradient.shape) != slot.shape:
                raise InvalidArgument(f"the gradient of {slot.name} has shape "
                                      f"{tuple(gradient.shape)}, its parameter {slot.shape}")
            elif slot.is_gradient_view(gradient):
                if gradient._version == slot.version and self._is_zero(slot):
                    absent.append(slot.number)
            else:
                elsewhere.append((slot, gradient))
        if absent or elsewhere:
            self._watch.look()
        # What is frozen is not missed.
        self.missing += sum(self._slots[number].tensor.requires_grad for number in absent)
        self._are_views = views == len(self._trained)
        if elsewhere:
            self._gather(elsewhere)
        return absent

    def _gather(self, elsewhere: List[Tuple[Slot, Any]]) -> None:
        found = [(slot, gradient) for slot, gradient in elsewhere if gradient is not None]
        with torch.no_grad():
            values = self._staging.to_host([gradient for _, gradient in found])
            # One that lies at another tensor's place is read before that is written to.
            begin = self._gradient.ctypes.data
            end = begin + self._gradient.nbytes
            values = [value.clone() if begin <= value.data_ptr() < end else value
                      for value in values]
            for slot, gradient in elsewhere:
                if gradient is None:
                    slot.gradient.zero_()
            for (slot, _), value in zip(found, values):
                slot.gradient.copy_(value)
                path = "gathered" if slot.takes_gradient else slot.path()
                self.copied["gradient:" + path] += slot.bytes

    @staticmethod
    def _is_zero(slot: Slot) -> bool:
        """Whoever writes through `.data` or from outside torch changes no version."""
        return not bool(slot.gradient.any())

    def zero_gradients(self, zeroed: bool = False) -> None:
        """Zeros, padding included (`zeroed`: the vector is already); gradients are views again
        where they can be."""
        self._none_moved = self._all_in_place = False  # the program's turn
        if not zeroed:
            self._gradient.fill(0)
        if self._are_views:
            self._are_views = False  # until that is seen again
            return
        for slot in self._trained:
            if slot.takes_gradient and slot.tensor.requires_grad:
                slot.lend_gradient()
            else:
                slot.tensor.grad = None

    # ---- from the vectors ----------------------------------------------------------------

    def landed(self) -> None:
        """The vector has changed."""
        moved = [] if self._all_in_place else self._moved(self._slots)
        self._all_in_place = False
        copied = self._scatter(moved) if moved else set()
        bumps = [slot.bump for slot in self._slots if slot.number not in copied]
        if bumps:
            torch._foreach_zero_(bumps)
        self._keep()

    def _scatter(self, moved: List[Slot]) -> Set[int]:
        """Gives the values to tensors that are no views; returns those that were copied to."""
        copied = []
        with torch.no_grad():
            for slot in moved:
                slot.check_shape()
                slot.leave(self._parameters)
                slot.was_copied = not slot.can_be_view
                self.copied["parameter:" + slot.path()] += slot.bytes
                if slot.was_copied:
                    copied.append(slot)
                else:
                    slot.lend_value()  # the program gave it other memory since
            self._staging.to_device([(slot.tensor, slot.value) for slot in copied])
            for slot in copied:
                if slot.tensor.dtype in _LOSSY and (self._local or slot.kind is Kind.STATISTIC):
                    slot.anchor = slot.tensor.detach().to("cpu", copy=True)
        return {slot.number for slot in copied}

    # ---- evaluation ----------------------------------------------------------------------

    def evaluating(self) -> Any:
        """The vector holds other values for a while; what is no view gets them too. Returns
        what put_back() needs."""
        self._are_views = self._all_in_place = False  # evaluate() is the program's
        moved = self._moved(self._slots)
        with torch.no_grad():
            kept = [slot.tensor.detach().clone() for slot in moved]
            self._staging.to_device([(slot.tensor, slot.value) for slot in moved])
        return list(zip(moved, kept))

    def put_back(self, kept: Any) -> None:
        with torch.no_grad():
            for slot, value in kept:
                slot.tensor.copy_(value)
            # evaluate() may have cast the model and back.
            before = {slot.number for slot, _ in kept}
            self._scatter([slot for slot in self._moved(self._slots)
                           if slot.number not in before])
        self._keep()
