"""A torch module as the model: its tensors as views of a replica's vectors.

What is float32, contiguous and on the CPU becomes a view: the Parameter object stays the
same, its memory is the vector. Everything else is copied by a path with a name, and counted
by it: "parameter:float16", "parameter:transposed", "gradient:gathered", "parameter:cuda:0".
Parameters change under no_grad, and the version counter of each is bumped, so that going
backward through a graph from before fails in place of being wrong.
"""

from __future__ import annotations

import collections
from typing import Any, Counter, List, Optional, Tuple

import numpy
import torch

from .errors import InvalidArgument, UnsupportedTensor
from .layout import Entry, Kind, Layout
from .replica import Replica
from .staging import Staging

_LOSSY = (torch.float16, torch.bfloat16)


class _Slot:
    """One tensor of the layout and its two views, `value` and `gradient`."""

    def __init__(self, number: int, entry: Entry, parameters: numpy.ndarray,
                 gradient: numpy.ndarray) -> None:
        self.number, self.name, self.kind = number, entry.name, entry.kind
        self.tensor = entry.source
        self.place = entry.place
        # A storage of its own for each: libraries that save tensors look at storages.
        self.value = torch.from_numpy(parameters).view(entry.shape)
        self.gradient = torch.from_numpy(gradient).view(entry.shape)
        self.address = self.value.data_ptr()
        self.gradient_address = self.gradient.data_ptr()
        self.version = 0               # of `gradient` when it was read last
        self.bump: Optional[Any] = None  # an empty view of the tensor; None: it is copied
        self.anchor: Optional[Any] = None

    def try_view(self) -> None:
        """Makes the tensor's memory the vector, if it can be; else it is copied."""
        tensor = self.tensor
        self.bump = None
        if tensor.device.type == "cpu" and tensor.dtype == torch.float32 and tensor.is_contiguous():
            tensor.data = self.value
            # In-place work on any view counts for the tensor, on no value too.
            self.bump = tensor.detach().view(-1)[:0]

    @property
    def in_place(self) -> bool:
        if self.place is not None:
            # Modules may put another tensor in the place of a buffer.
            self.tensor = self.place[0][self.place[1]]
        return self.bump is not None and self.tensor.data_ptr() == self.address

    @property
    def takes_gradient(self) -> bool:
        """Whether the tensor's gradient can be a view."""
        return (self.tensor.device.type == "cpu" and self.tensor.dtype == torch.float32
                and self.tensor.is_contiguous())

    def path(self) -> str:
        """Why the tensor is no view."""
        if self.bump is not None:
            return "replaced"
        if self.tensor.device.type != "cpu":
            return str(self.tensor.device)
        if self.tensor.dtype != torch.float32:
            return str(self.tensor.dtype).replace("torch.", "")
        return "transposed"


class TorchBinding:
    """Between a module and a replica's vectors. `local_steps`: the program moves the
    parameters itself, and gradients stay its own."""

    def __init__(self, module: Any, layout: Layout, local_steps: bool) -> None:
        self._module, self._layout, self._local = module, layout, local_steps
        self.copied: Counter[str] = collections.Counter()
        self.missing = 0
        self._slots: List[_Slot] = []
        self._are_views = False  # all gradients, when they were read last
        self._staging = Staging()

    def attach(self, replica: Replica) -> None:
        """Writes the initial values to the vector and makes views of what can be."""
        with torch.no_grad():
            for number, (entry, offset) in enumerate(zip(self._layout.entries, replica.offsets)):
                here = slice(offset, offset + entry.size)
                slot = _Slot(number, entry, replica.parameters[here], replica.gradient[here])
                slot.value.copy_(slot.tensor)
                slot.try_view()
                self._slots.append(slot)
        self._trained = [slot for slot in self._slots if slot.kind is Kind.TRAINED]
        self._statistics = [slot for slot in self._slots if slot.kind is Kind.STATISTIC]
        # A landing has nothing to copy where all slots are views and still are. Modules may
        # put other tensors in the places of buffers.
        self._tensors = [slot.tensor for slot in self._slots]
        self._addresses = [slot.address for slot in self._slots]
        self._bumps = [slot.bump for slot in self._slots]
        self._stay = all(slot.bump is not None and slot.place is None for slot in self._slots)
        self._gradient = replica.gradient
        if not self._local:
            self.zero_gradients()

    # ---- to the vectors ------------------------------------------------------------------

    def collect_parameters(self) -> None:
        """With local steps, before a due step."""
        self._collect(self._slots)

    def collect_statistics(self) -> None:
        """With optimizers of the shards, before a due step."""
        self._collect(self._statistics)

    def _collect(self, slots: List[_Slot]) -> None:
        moved = [slot for slot in slots if not slot.in_place]
        if not moved:
            return
        with torch.no_grad():
            values = self._staging.to_host([slot.tensor for slot in moved])
            for slot, value in zip(moved, values):
                self.copied["parameter:" + slot.path()] += slot.value.numel() * 4
                if slot.tensor.dtype in _LOSSY and slot.anchor is not None:
                    # What rounding to it left of the vector's value is nobody's progress.
                    slot.value += value.float() - slot.anchor.float()
                    slot.anchor = value.clone()
                else:
                    slot.value.copy_(value)
                if slot.bump is not None:
                    slot.try_view()

    def give(self, gradients: Any) -> None:
        """A module's gradients are those of its parameters."""
        if gradients is not None:
            raise InvalidArgument("gradients= is for models that are a dict of arrays; a module's "
                                  "are taken from its parameters after backward()")

    def collect_gradients(self) -> List[int]:
        """With optimizers of the shards, before a due step. Returns the layout's entries without a
        gradient. Raises UnsupportedTensor for a sparse one."""
        absent, elsewhere, views = [], [], 0
        for slot in self._trained:
            gradient = slot.tensor.grad
            if gradient is slot.gradient and gradient.data_ptr() == slot.gradient_address:
                # The usual case. Backward adds in place, which the version tells.
                version = gradient._version
                if version == slot.version and self._is_zero(slot):
                    absent.append(slot.number)
                slot.version = version
                views += 1
            elif gradient is None:
                slot.gradient.zero_()
                absent.append(slot.number)
            elif gradient.layout is not torch.strided:
                raise UnsupportedTensor(f"the gradient of {slot.name} is sparse; only dense "
                                        "gradients travel (Embedding(sparse=False))")
            elif self._is_view(slot, gradient):
                if gradient._version == slot.version and self._is_zero(slot):
                    absent.append(slot.number)
            else:
                elsewhere.append((slot, gradient))
        self.missing += len(absent)
        self._are_views = views == len(self._trained)
        if elsewhere:
            self._gather(elsewhere)
        return absent

    def _gather(self, elsewhere: List[Tuple[_Slot, Any]]) -> None:
        with torch.no_grad():
            values = self._staging.to_host([gradient for _, gradient in elsewhere])
            for (slot, gradient), value in zip(elsewhere, values):
                slot.gradient.copy_(value)
                path = "gathered" if slot.takes_gradient else slot.path()
                self.copied["gradient:" + path] += slot.gradient.numel() * 4

    @staticmethod
    def _is_zero(slot: _Slot) -> bool:
        """Whoever writes through `.data` or from outside torch changes no version."""
        return not bool(slot.gradient.any())

    @staticmethod
    def _is_view(slot: _Slot, gradient: Any) -> bool:
        return (gradient.data_ptr() == slot.gradient.data_ptr()
                and gradient.dtype == torch.float32 and gradient.is_contiguous())

    def zero_gradients(self, zeroed: bool = False) -> None:
        """Zeros, padding included (`zeroed`: the vector is already); gradients are views again
        where they can be."""
        if not zeroed:
            self._gradient.fill(0)
        if self._are_views:
            self._are_views = False  # until that is seen again
            return
        for slot in self._trained:
            if (slot.tensor.grad is not slot.gradient
                    or slot.gradient.data_ptr() != slot.gradient_address):
                if not slot.takes_gradient:
                    slot.tensor.grad = None
                    continue
                slot.tensor.grad = slot.gradient
            slot.version = slot.gradient._version

    # ---- from the vectors ----------------------------------------------------------------

    def landed(self) -> None:
        """The vector has changed."""
        if self._stay and [t.data_ptr() for t in self._tensors] == self._addresses:
            torch._foreach_zero_(self._bumps)
        else:
            self._scatter(keep_anchors=self._local)

    def _scatter(self, keep_anchors: bool) -> None:
        bumps, moved = [], []
        with torch.no_grad():
            for slot in self._slots:
                if slot.bump is not None and not slot.in_place:
                    # The program gave it other memory since.
                    self.copied["parameter:replaced"] += slot.value.numel() * 4
                    slot.try_view()
                if slot.in_place:
                    bumps.append(slot.bump)
                else:
                    moved.append(slot)
            if bumps:
                torch._foreach_zero_(bumps)
            self._staging.to_device([(slot.tensor, slot.value) for slot in moved])
            for slot in moved:
                self.copied["parameter:" + slot.path()] += slot.value.numel() * 4
                if slot.tensor.dtype in _LOSSY and (keep_anchors
                                                    or slot.kind is Kind.STATISTIC):
                    slot.anchor = slot.tensor.detach().to("cpu", copy=True)

    # ---- evaluation ----------------------------------------------------------------------

    def evaluating(self) -> Any:
        """The vector holds other values for a while; what is no view gets them too. Returns
        what put_back() needs."""
        self._are_views = False  # evaluate() is the program's
        moved = [slot for slot in self._slots if not slot.in_place]
        with torch.no_grad():
            kept = [slot.tensor.detach().clone() for slot in moved]
            self._staging.to_device([(slot.tensor, slot.value) for slot in moved])
        return list(zip(moved, kept))

    def put_back(self, kept: Any) -> None:
        with torch.no_grad():
            for slot, value in kept:
                slot.tensor.copy_(value)
