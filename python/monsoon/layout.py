"""Which tensors of a model travel, in which order, under which names."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, Dict, List, Mapping, Optional, Tuple

from .errors import InvalidArgument, UnsupportedTensor


class Kind(enum.IntEnum):
    """TRAINED tensors are moved by the optimizer. STATISTIC ones the program keeps by itself,
    as running means: they travel as differences, without optimizer, decay or clip."""

    TRAINED = 0
    STATISTIC = 1


@dataclasses.dataclass
class Entry:
    """One tensor of the layout: `source` is the torch tensor, or the NumPy array; `place` is
    where a module keeps a buffer (its _buffers and the key), which it may replace."""

    name: str
    shape: Tuple[int, ...]
    kind: Kind
    source: Any
    aliases: List[str] = dataclasses.field(default_factory=list)
    place: Optional[Tuple[Dict[str, Any], str]] = None

    @property
    def size(self) -> int:
        """Values, padding left aside."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count


@dataclasses.dataclass
class Layout:
    """Entries in the order in which they lie in the vectors. `local` are names of tensors
    that stay in this process: integer buffers, what is not saved with the model, and
    parameters that need no gradient."""

    entries: List[Entry]
    local: List[str] = dataclasses.field(default_factory=list)
    # monsoon.Table each; and all of them as protobuf text.
    tables: List[Any] = dataclasses.field(default_factory=list)
    tables_text: str = ""

    @property
    def is_cut(self) -> bool:
        """Whether a parameter is a DTensor, of which this process has a part."""
        return any(is_cut(entry.source) for entry in self.entries)

    def is_all(self, kind: str) -> bool:
        """Whether all entries are parameters of this type of torch's."""
        return all(entry.kind is Kind.TRAINED and str(entry.source.dtype) == "torch." + kind
                   for entry in self.entries)


def is_cut(tensor: Any) -> bool:
    """Whether it is a DTensor, of which this process has a part."""
    return hasattr(tensor, "_local_tensor") and hasattr(tensor, "placements")


def is_torch_module(model: Any) -> bool:
    """Without importing torch: the class says where it comes from."""
    return any(c.__module__.startswith("torch.") and c.__name__ == "Module"
               for c in type(model).__mro__)


# What these put around a module, or into its names, is no part of the model.
_WRAPS = {"DistributedDataParallel": "module", "DataParallel": "module",
          "OptimizedModule": "_orig_mod"}
_WRAP_NAMES = ("_orig_mod", "_checkpoint_wrapped_module")


def unwrapped(model: Any) -> Any:
    """The model itself, without DDP, DataParallel and torch.compile() around it, so that
    programs with and without them meet under the same names."""
    while type(model).__name__ in _WRAPS:
        model = getattr(model, _WRAPS[type(model).__name__])
    return model


def _path(prefix: str, name: str) -> str:
    parts = [*prefix.split("."), name] if prefix else [name]
    return ".".join(part for part in parts if part not in _WRAP_NAMES)


def _checked(layout: Layout) -> Layout:
    for entry in layout.entries:
        for name in [entry.name, *entry.aliases]:
            if not 1 <= len(name) <= 512 or not name.isprintable() or " " in name:
                raise InvalidArgument(f"tensor {name!r}: a name has 1 to 512 printable "
                                      "characters and no blank")
    if not any(entry.kind is Kind.TRAINED for entry in layout.entries):
        raise InvalidArgument("the model has no parameter to train"
                              + (f"; it has {', '.join(layout.local[:5])}, which need no gradient "
                                 "or stay local" if layout.local else ""))
    return layout


def of_arrays(arrays: Mapping[str, Any]) -> Layout:
    """The layout of a dict of arrays, by name. One array under two names is one tensor with
    an alias. Raises UnsupportedTensor for what is not of floating point."""
    import numpy
    entries: Dict[int, Entry] = {}
    for name, value in arrays.items():
        if not isinstance(name, str) or isinstance(value, Mapping):
            raise InvalidArgument(f"model[{name!r}]: a model is a flat dict of names to arrays; "
                                  "join nested names by dots")
        array = value if isinstance(value, numpy.ndarray) else numpy.asarray(value)
        if array.dtype.kind != "f" and array.dtype.name != "bfloat16":
            raise UnsupportedTensor(f"model[{name!r}] is of {array.dtype}; parameters are of "
                                    "floating point")
        known = entries.get(id(value))
        if known is not None:
            known.aliases.append(name)
        else:
            entries[id(value)] = Entry(name, tuple(array.shape), Kind.TRAINED, value)
    return _checked(Layout(list(entries.values())))


def of_module(module: Any, with_frozen: bool = False) -> Layout:
    """The layout of a torch module: parameters that need a gradient (with_frozen: all), then
    the buffers of floating point that are saved with it, by the names of its state_dict.

    Tied weights (one Parameter under several names) are one tensor with aliases. Raises
    UnsupportedTensor, with the name, for sparse, complex, quantised and unmade ones, and for
    two Parameters over one memory.
    """
    entries: Dict[int, Entry] = {}
    memory: Dict[int, str] = {}
    local: List[str] = []
    saved = saved_buffers(module)
    # Backward adds sparse gradients to dense ones without a word.
    sparse = {_path(prefix, "weight") for prefix, part in module.named_modules()
              if getattr(part, "sparse", False) is True}
    for name, tensor, place in named_tensors(module):
        is_buffer = place is not None
        if not is_buffer and not (tensor.requires_grad or (
                with_frozen and tensor.dtype.is_floating_point)):
            local.append(name)
            continue
        if is_buffer and (name not in saved or not tensor.dtype.is_floating_point):
            local.append(name)
            continue
        if id(tensor) in entries:
            entries[id(tensor)].aliases.append(name)
            continue
        if name in sparse:
            raise UnsupportedTensor(f"{name} would have sparse gradients, and only dense ones "
                                    "travel; make its Embedding with sparse=False")
        _refuse(name, tensor)
        if tensor.numel() == 0:
            local.append(name)
            continue
        # What is cut over processes has no memory of its own, and perhaps no part here.
        address = (tensor._local_tensor if is_cut(tensor) else tensor).data_ptr()
        other = memory.setdefault(address or id(tensor), name)
        if other != name:
            raise UnsupportedTensor(f"{other} and {name} lie in one memory but are two tensors; "
                                    "tie weights by assigning the Parameter itself")
        kind = Kind.STATISTIC if is_buffer else Kind.TRAINED
        entries[id(tensor)] = Entry(name, tuple(tensor.shape), kind, tensor, place=place)
    return _checked(Layout(list(entries.values()), local, tables_of(module)))


def tables_of(module: Any) -> List[Any]:
    """Of the module's Embeddings (embedding.py), each once, by the names of the modules."""
    return [part.name_table(_path("", name) or "rows") for name, part in module.named_modules()
            if hasattr(part, "monsoon_table")]


def named_tensors(module: Any) -> Any:
    """(name, tensor, place of a buffer) in the order of the modules, parameters first; each
    name of a tied one."""
    for wanted in ("_parameters", "_buffers"):
        for prefix, part in module.named_modules(remove_duplicate=False):
            for name, tensor in getattr(part, wanted).items():
                if tensor is not None:
                    place = (part._buffers, name) if wanted == "_buffers" else None
                    yield _path(prefix, name), tensor, place


def saved_buffers(module: Any) -> frozenset:
    """The names of buffers that state_dict() has."""
    names = []
    for prefix, part in module.named_modules(remove_duplicate=False):
        for name in part._buffers.keys():  # TorchScript has a dict of its own
            if name not in part._non_persistent_buffers_set:
                names.append(_path(prefix, name))
    return frozenset(names)


def _refuse(name: str, tensor: Any) -> None:
    import torch
    if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
        raise UnsupportedTensor(f"{name} has no shape yet; run one batch through the model "
                                "before joining")
    if tensor.layout is not torch.strided:
        raise UnsupportedTensor(f"{name} is sparse ({tensor.layout}); only dense tensors travel")
    if tensor.is_quantized or not tensor.dtype.is_floating_point:
        raise UnsupportedTensor(f"{name} is of {tensor.dtype}; parameters are of real floating "
                                "point")
    if tensor.device.type == "meta":
        raise UnsupportedTensor(f"{name} is on the meta device and has no values")
