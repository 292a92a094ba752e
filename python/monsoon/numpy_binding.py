"""A dict of arrays as the model: NumPy loops, and JAX's by copies."""

from __future__ import annotations

import collections
from typing import Any, Counter, Dict, List, Mapping, MutableMapping, Optional

import numpy

from .errors import InvalidArgument, ModelChanged
from .layout import Layout
from .replica import Replica
from .witness import Witness, refusal

_LOCAL_WAY = ("Take optimizer=ms.Local(None, every=...), with which the loop moves the arrays "
              "itself;")


class NumpyBinding:
    """Between a dict of arrays and a replica's vectors.

    A float32 array's place in the dict gets a view of the vector: the loop reads parameters
    from the dict, and sees each landing there. An array of another type stays and is
    written to (path "parameter:float64"); a read-only one of another type is refused.
    `gradients` are views of the gradient, by name. `local_steps`: the program moves the
    parameters; `ignore`: what else writes to them is not looked for.
    """

    def __init__(self, model: MutableMapping[str, Any], layout: Layout, local_steps: bool = False,
                 ignore: bool = False) -> None:
        self._model, self._layout = model, layout
        self._looks = not local_steps and not ignore
        self._witness: Optional[Witness] = None  # None: the program may write
        self.copied: Counter[str] = collections.Counter()
        self.missing = 0
        self.gradients: Dict[str, numpy.ndarray] = {}
        self._views: Dict[str, numpy.ndarray] = {}
        self._others: List[str] = []
        self._aliases_of_others: List[str] = []
        self._absent: List[int] = []  # entries without a gradient, of those that were given

    def attach(self, replica: Replica) -> None:
        """Writes the initial values to the vector and puts views into the dict."""
        for entry, offset in zip(self._layout.entries, replica.offsets):
            here = slice(offset, offset + entry.size)
            view = replica.parameters[here].reshape(entry.shape)
            gradient = replica.gradient[here].reshape(entry.shape)
            array = numpy.asarray(entry.source)
            view[...] = array
            other = array.dtype != numpy.float32
            if other and not array.flags.writeable:
                raise InvalidArgument(f"model[{entry.name!r}] is a read-only array of "
                                      f"{array.dtype}; give float32, or one that can be written")
            for name in [entry.name, *entry.aliases]:
                self._views[name], self.gradients[name] = view, gradient
                if not other:
                    self._model[name] = view
            if other:
                self._others.append(entry.name)
                self._aliases_of_others += entry.aliases
        self._gradient = replica.gradient
        if self._looks:
            bounds = [(entry.name, offset, offset + entry.size)
                      for entry, offset in zip(self._layout.entries, replica.offsets)]
            self._witness = Witness(replica.parameters[:bounds[-1][2]], bounds)
            self._witness.keep()

    def look_at_optimizer(self, optimizer: Any) -> None:
        """The loop moves arrays itself, or by whatever has a step()."""

    def look(self, whole: bool = False) -> None:
        """Before a step counts, and before anything may land. Raises ModelChanged where the
        next landing would throw values away."""
        gone = [name for name in self._views if self._model.get(name) is None]
        if gone:
            raise ModelChanged(f"model[{gone[0]!r}] is gone; the job has it since it was joined")
        if self._witness is None:
            return
        names = self._witness.changed()
        for name, view in self._views.items():
            array = self._model[name]
            if array is not view and name not in self._aliases_of_others and name not in names:
                if not _same(array, view):
                    names.append(name)
        if names:
            raise ModelChanged(refusal(names, _LOCAL_WAY))

    def _keep(self) -> None:
        if self._witness is not None:
            self._witness.keep()

    def collect_parameters(self) -> None:
        """Before a due step with local steps: what lies elsewhere goes to the vector."""
        for name, view in self._views.items():
            array = self._model[name]
            if array is not view and name not in self._aliases_of_others:
                view[...] = array
                self._count("parameter", array, view)

    def collect_statistics(self) -> None:
        """A dict has none."""

    def give(self, gradients: Optional[Mapping[str, Any]]) -> None:
        """Copies gradients that were computed elsewhere into the vector. Tensors whose names are
        missing, or have None, have no gradient, and are counted."""
        self._absent = []
        if gradients is None:
            return
        for name in gradients:
            if name not in self.gradients:
                raise InvalidArgument(f"gradients[{name!r}]: the model has no such tensor")
        for number, entry in enumerate(self._layout.entries):
            names = [name for name in [entry.name, *entry.aliases]
                     if gradients.get(name) is not None]
            view = self.gradients[entry.name]
            if not names:
                view[...] = 0
                self.missing += 1
                self._absent.append(number)
                continue
            for position, name in enumerate(names):
                value = numpy.asarray(gradients[name])
                if value.shape != entry.shape:
                    raise InvalidArgument(f"gradients[{name!r}] has shape {value.shape}, its "
                                          f"tensor has {entry.shape}")
                if value is view or numpy.shares_memory(value, view):
                    continue
                # One tensor under two names has the sum of both gradients.
                view[...] = value if position == 0 else view + value
                self.copied["gradient:given"] += view.nbytes

    def collect_gradients(self) -> List[int]:
        """They are in the vector already: written to `gradients`, which are then of all tensors,
        or by give(). Returns the entries without one."""
        return self._absent

    def zero_gradients(self, zeroed: bool = False) -> None:
        if not zeroed:
            self._gradient.fill(0)

    def landed(self) -> None:
        """The vector has changed: arrays that are no views of it get its values, and places
        in the dict that the loop has replaced get their views again."""
        for name, view in self._views.items():
            if name in self._others:
                self._model[name][...] = view
                self._count("parameter", self._model[name], view)
            elif name not in self._aliases_of_others:
                self._model[name] = view
        self._keep()

    def _count(self, what: str, array: Any, view: numpy.ndarray) -> None:
        dtype = getattr(array, "dtype", "replaced")
        path = "replaced" if dtype == numpy.float32 else str(dtype)
        self.copied[f"{what}:{path}"] += view.nbytes

    def evaluating(self) -> Any:
        """The vector holds other values for a while; what is no view gets them too. Returns
        what put_back() needs."""
        kept = {name: (self._model[name], None) for name in self._views}
        for name, view in self._views.items():
            if name in self._others:
                kept[name] = (self._model[name], numpy.array(self._model[name]))
                self._model[name][...] = view
            elif name not in self._aliases_of_others:
                self._model[name] = view
        return kept

    def put_back(self, kept: Any) -> None:
        for name, (place, values) in kept.items():
            self._model[name] = place
            if values is not None:
                place[...] = values


def _same(array: Any, view: numpy.ndarray) -> bool:
    """Whether an array that is no view has the view's values, as far as its type has them."""
    found = numpy.asarray(array)
    return found.shape == view.shape and bool(
        numpy.array_equal(found, view.astype(found.dtype), equal_nan=True))
