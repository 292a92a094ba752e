"""Makes an exported file whole: with what stays in the process, and names of tied tensors."""

from __future__ import annotations

import json
import os
import shutil
import struct
import zipfile
from typing import Any, Dict, Tuple

import numpy

from .errors import DataError, UnsupportedTensor
from .layout import Layout, is_torch_module, named_tensors, saved_buffers

# safetensors' names of torch's types.
_TYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16",
          "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "uint8": "U8",
          "bool": "BOOL"}


def complete(path: str, layout: Layout, model: Any) -> None:
    """Adds to a file of the job's tensors, .npz or .safetensors, what the model's state_dict()
    has beside them: frozen parameters and integer buffers, as they are here. Further names of a
    tied tensor stand in the metadata of .safetensors, {name: the tensor's}, as safetensors'
    own save_model() has them; in .npz, which has none, as arrays. A file that has all already
    stays as it is. Raises UnsupportedTensor, with the name, and DataError."""
    tied = {alias: entry.name for entry in layout.entries for alias in entry.aliases}
    ours = {entry.name for entry in layout.entries}
    others: Dict[str, Any] = {}
    if is_torch_module(model):
        saved = saved_buffers(model)
        first: Dict[int, str] = {}
        for name, tensor, place in named_tensors(model):
            if name in ours or name in tied or (place is not None and name not in saved):
                continue
            other = first.setdefault(id(tensor), name)
            if other != name:
                tied[name] = other
            else:
                others[name] = tensor.detach().cpu().contiguous()
    if tied or others:
        (_add_to_npz if path.endswith(".npz") else _add_to_safetensors)(path, tied, others)


def _add_to_npz(path: str, tied: Dict[str, str], others: Dict[str, Any]) -> None:
    arrays = {name: (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()
              for name, tensor in others.items()}
    with numpy.load(path) as file:
        arrays.update({name: file[of] if of in file.files else arrays[of]
                       for name, of in tied.items()})
    with zipfile.ZipFile(path, "a", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                numpy.lib.format.write_array(member, array, allow_pickle=False)


def _add_to_safetensors(path: str, tied: Dict[str, str], others: Dict[str, Any]) -> None:
    temporary = path + ".part"
    try:
        with open(path, "rb") as source, open(temporary, "wb") as target:
            header, begin = _header(source)
            end = max((part["data_offsets"][1] for name, part in header.items()
                       if name != "__metadata__"), default=0)
            header["__metadata__"] = {**header.get("__metadata__", {}), **tied}
            for name, tensor in others.items():
                kind = _TYPES.get(str(tensor.dtype).replace("torch.", ""))
                if kind is None:
                    raise UnsupportedTensor(f"{name} is of {tensor.dtype}, which a .safetensors "
                                            "file cannot have; export(path, whole=False)")
                size = tensor.numel() * tensor.element_size()
                header[name] = {"dtype": kind, "shape": list(tensor.shape),
                                "data_offsets": [end, end + size]}
                end += size
            text = json.dumps(header, separators=(",", ":")).encode()
            text += b" " * (-len(text) % 8)  # values are aligned
            target.write(struct.pack("<Q", len(text)) + text)
            source.seek(begin)
            shutil.copyfileobj(source, target, 1 << 20)
            for tensor in others.values():
                target.write(_bytes(tensor))
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.remove(temporary)
        raise


def _header(source: Any) -> Tuple[Dict[str, Any], int]:
    size, = struct.unpack("<Q", source.read(8))
    try:
        header: Dict[str, Any] = json.loads(source.read(size))
    except ValueError as error:
        raise DataError(f"{source.name} is no file of safetensors: {error}") from error
    return header, 8 + size


def _bytes(tensor: Any) -> bytes:
    import torch
    return bytes(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
