"""The tensors of a layout: where each lies in the vectors, and what the program was lent."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

import numpy
import torch

from .errors import ModelChanged
from .layout import Entry


# Values of a tensor that are compared where not all are.
_SOME = 1 << 16


class Slot:
    """One tensor of the layout.

    `value` and `gradient` are our own handles on its places in the vectors. Nobody else has
    them, and each has a storage of its own: whatever the program does to its tensors (casts,
    `.data =`, storages that move) reaches only what it was lent. Libraries that save tensors
    look at storages, too.
    """

    def __init__(self, number: int, entry: Entry, parameters: numpy.ndarray,
                 gradient: numpy.ndarray) -> None:
        self.number, self.name, self.kind, self.shape = (
            number, entry.name, entry.kind, tuple(entry.shape))
        self.tensor = entry.source
        self._place = entry.place
        self._parameters, self._gradient = parameters, gradient
        self.value, self.gradient = self._over(parameters), self._over(gradient)
        self.bytes = self.value.numel() * self.value.element_size()
        self._address, self._dtype = self.value.data_ptr(), self.value.dtype
        self.gradient_address = self.gradient.data_ptr()
        self.lent: Any = None            # the gradient that the tensor was given
        self.version = 0                 # of `lent` when it was read last
        self.was_copied = False          # at the last landing: the tensor is no view
        self.anchor: Optional[Any] = None
        # In-place work on any view counts for the tensor, on no value and after casts too.
        self.bump = self.tensor.detach().as_strided((0,), (1,))

    def _over(self, memory: numpy.ndarray) -> Any:
        tensor = torch.from_numpy(memory)
        return (tensor.view(torch.bfloat16) if tensor.dtype == torch.int16 else tensor).view(
            self.shape)

    # ---- the value -----------------------------------------------------------------------

    def _follow(self, place: Tuple[Dict[str, Any], str]) -> None:
        found = place[0][place[1]] if place[1] in place[0] else None
        if found is None:
            raise ModelChanged(f"the buffer {self.name} is gone; the job has had it since it was "
                               "joined")
        if found is not self.tensor:
            self.tensor = found
            self.bump = found.detach().as_strided((0,), (1,))

    @property
    def in_place(self) -> bool:
        """Whether the tensor's memory is the vector, all of it in its order. Modules may put
        another tensor in the place of a buffer; raises ModelChanged where there is none."""
        if self._place is not None:
            self._follow(self._place)
        tensor = self.tensor
        return bool(tensor.data_ptr() == self._address and tensor.dtype is self._dtype
                    and tensor.is_contiguous() and tensor.shape == self.shape)

    @property
    def can_be_view(self) -> bool:
        # Memory that other processes have mapped stays where it is.
        return self.takes_gradient and not self.tensor.is_shared()

    def lend_value(self) -> None:
        """Makes the tensor's memory the vector."""
        self.tensor.data = self._over(self._parameters)

    def leave(self, vector: numpy.ndarray) -> None:
        """A tensor that lies in the vector, but not as it was lent (turned, or in the place of
        another one), gets memory of its own."""
        begin = vector.ctypes.data
        if begin <= self.tensor.data_ptr() < begin + vector.nbytes:
            self.tensor.data = self.tensor.data.clone()

    def check_shape(self) -> None:
        if tuple(self.tensor.shape) != self.shape:
            raise ModelChanged(f"{self.name} has shape {tuple(self.tensor.shape)} now, and the job "
                               f"was joined with {self.shape}; join another job with the new model")

    def path(self) -> str:
        """Why the tensor is no view."""
        if self.tensor.device.type != "cpu":
            return str(self.tensor.device)
        if self.tensor.dtype != self.value.dtype:
            return str(self.tensor.dtype).replace("torch.", "")
        if not self.tensor.is_contiguous():
            return "transposed"
        return "shared" if self.tensor.is_shared() else "replaced"

    def holds_the_value(self, whole: bool) -> bool:
        """Whether a tensor that is no view still has the vector's values (`whole`: all, else
        some 65,536), as far as its type has them; also after a way through a type of 16 bits
        and back."""
        found, value = self.tensor.detach(), self.value
        if not whole and found.numel() > _SOME:
            stride = found.numel() // _SOME
            found, value = (part.flatten()[::stride] for part in (found, value))
        found = found.cpu()
        if _same(found, value.to(found.dtype)):
            return True
        return any(_same(found, value.to(kind).to(found.dtype))
                   for kind in (torch.float16, torch.bfloat16))

    # ---- the gradient --------------------------------------------------------------------

    @property
    def takes_gradient(self) -> bool:
        """Whether the tensor's gradient can be a view."""
        tensor = self.tensor
        return bool(tensor.device.type == "cpu" and tensor.dtype == self.value.dtype
                    and tensor.is_contiguous())

    def is_gradient_view(self, gradient: Any) -> bool:
        """Whether another object than was lent has the vector's memory."""
        return bool(gradient.data_ptr() == self.gradient_address
                    and gradient.dtype == self.gradient.dtype and gradient.is_contiguous())

    def lend_gradient(self) -> None:
        """The tensor's gradient is a view, which has been zeroed."""
        lent = self.lent
        if lent is None or not self.is_gradient_view(lent) or tuple(lent.shape) != self.shape:
            lent = self.lent = self._over(self._gradient)
        if self.tensor.grad is not lent:
            self.tensor.grad = lent
        self.version = lent._version


def _same(a: Any, b: Any) -> bool:
    """Bit by bit but for the sign of zeros; NaN is like NaN."""
    return torch.equal(a, b) or bool(((a == b) | (a.isnan() & b.isnan())).all())
