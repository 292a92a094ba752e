"""What monsoon_join takes, made of Python's values."""

from __future__ import annotations

import ctypes as c
from typing import Any, List, Optional, Tuple

from . import _library
from .layout import Layout


def make(coordinator: str, job: str, layout: Layout, create: bool, log_file: Optional[str],
         connect_timeout_s: float, halves: bool, replay_window: int
         ) -> Tuple[_library.JoinOptions, List[Any]]:
    """The structure, and what its pointers point at."""
    kept: List[Any] = []
    tensors = (_library.Tensor * len(layout.entries))()
    for tensor, entry in zip(tensors, layout.entries):
        shape = (c.c_uint64 * max(1, len(entry.shape)))(*entry.shape)
        aliases = (c.c_char_p * max(1, len(entry.aliases)))(*(a.encode() for a in entry.aliases))
        kept += [shape, aliases]
        tensor.name, tensor.dimensions = entry.name.encode(), len(entry.shape)
        tensor.shape = c.cast(shape, c.POINTER(c.c_uint64))
        tensor.kind, tensor.alias_count = int(entry.kind), len(entry.aliases)
        tensor.aliases = c.cast(aliases, c.POINTER(c.c_char_p))
    options = _library.JoinOptions(
        size=c.sizeof(_library.JoinOptions), coordinator=coordinator.encode(), job=job.encode(),
        tensors=tensors, tensor_count=len(layout.entries), only_enter=not create,
        sidecar=_library.sidecar(), log_file=None if log_file is None else log_file.encode(),
        connect_timeout_ms=max(1, int(connect_timeout_s * 1000)),
        tables=layout.tables_text.encode() or None, format=int(halves),
        replay_window_bytes=replay_window)
    return options, kept + [tensors]
