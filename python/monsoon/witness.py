"""Tells whether a program has written to parameters that an optimizer of the shards moves."""

from __future__ import annotations

from typing import List, Sequence, Tuple

import numpy

# Values that are compared at each step: 9 us for LeNet's 61,706, of which 4 are the copy.
_WINDOW = 1 << 16
# Of each tensor of a larger model, at each step.
_SAMPLES = 16


class Witness:
    """Compares the parameters with what landed: all of them at each step up to 65,536 values.
    Of more, so many in turn, and 16 of each tensor at every step.

    vector: of the tensors that the shards' optimizer moves. bounds: (name, begin, end) of each,
    rising. Nothing but the job may have written to the vector between keep() and changed().
    """

    def __init__(self, vector: numpy.ndarray, bounds: Sequence[Tuple[str, int, int]]) -> None:
        self._bounds = bounds
        self._each = vector.itemsize
        self._bits = vector.view(f"u{self._each}")
        size = min(_WINDOW, vector.size)
        self.sees_all = size == vector.size
        # memcmp of bytes is four times as fast as numpy.array_equal.
        self._kept = bytearray(self._each * size)
        self._kept_bits = numpy.frombuffer(self._kept, self._bits.dtype)
        self._begin = 0
        self._bytes = vector.data.cast("B")
        spread = [numpy.linspace(begin, end - 1, _SAMPLES).astype(numpy.int64)
                  for _, begin, end in bounds]
        self._spread = numpy.unique(numpy.concatenate(spread)) if not self.sees_all else None
        self._samples = numpy.zeros(0, self._bits.dtype)

    def keep(self) -> None:
        """The parameters have landed."""
        size = self._kept_bits.size
        if self._spread is not None:
            following = self._begin + size
            self._begin = min(following, self._bits.size - size) if (
                following < self._bits.size) else 0
            self._samples = self._bits.take(self._spread)
        numpy.copyto(self._kept_bits, self._bits[self._begin:self._begin + size])

    def changed(self) -> List[str]:
        """The names of tensors that are seen to have other values."""
        begin, size = self._begin, self._kept_bits.size
        found: List[int] = []
        if self._kept != self._bytes[self._each * begin:self._each * (begin + size)]:
            here = self._bits[begin:begin + size]
            found += (begin + numpy.flatnonzero(here != self._kept_bits)).tolist()
        if self._spread is not None:
            found += self._spread[self._bits.take(self._spread) != self._samples].tolist()
        if not found:
            return []
        at = numpy.unique(numpy.asarray(found))
        return [name for name, first, end in self._bounds
                if numpy.searchsorted(at, first) < numpy.searchsorted(at, end)]


def refusal(names: Sequence[str], way: str) -> str:
    """What a program is told whose changes would be thrown away."""
    some = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    was = "was" if len(names) == 1 else "were"
    return (f"{some} {was} changed by the program since the job's parameters landed; the next "
            f"landing would throw that away, as an optimizer of the shards moves them. {way} "
            "join(..., in_place=\"ignore\") throws such changes away without a word")
