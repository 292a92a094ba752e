"""A torch module whose table lives on the shards."""

from __future__ import annotations

import dataclasses
from typing import Any, List, Optional, Tuple

import numpy
import torch

from .errors import InvalidArgument, NotNow
from .tables import Rows, Table


class Embedding(torch.nn.Module):
    """As torch.nn.Embedding, with the rows on the shards: any number of them, since a step
    fetches those that its indices name and pushes their gradients. It has no parameters here.

    name: of the table; unset: the module's own, as "encoder.words". padding_idx: a row that is
    zero and gets no gradient. The others as for Table.

    forward(indices): int tensor of any shape -> float32 of shape (*indices.shape, columns), on
    the same device. Only within the block of the job that the model was joined to. Raises
    InvalidArgument for a row that the table has not.

    >>> words = Embedding(1_000_000, 16, lr=0.05)
    >>> words
    Embedding(1000000, 16)
    """

    def __init__(self, rows: int, columns: int, *, name: Optional[str] = None,
                 padding_idx: Optional[int] = None, **table: Any) -> None:
        super().__init__()
        self.monsoon_table = Table(name or "", rows, columns, **table)
        if padding_idx is not None and not 0 <= padding_idx < rows:
            raise InvalidArgument(f"padding_idx is {padding_idx}; the table has {rows} rows")
        self.padding_idx = padding_idx
        self._rows: Optional[Rows] = None
        self._used: List[Tuple[numpy.ndarray, torch.Tensor]] = []

    def name_table(self, name: str) -> Table:
        """The table, which has the module's name if it was given none."""
        if not self.monsoon_table.name:
            self.monsoon_table = dataclasses.replace(self.monsoon_table, name=name)
        return self.monsoon_table

    def attach(self, rows: Rows) -> None:
        self._rows = rows
        self._used = []

    def take(self) -> List[Tuple[numpy.ndarray, numpy.ndarray]]:
        """Rows that were used since the last call, with their gradients."""
        used, self._used = self._used, []
        return [(rows, values.grad.detach().float().cpu().numpy()) for rows, values in used
                if values.grad is not None]

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        if self._rows is None:
            raise NotNow(f"the rows of table {self.monsoon_table.name!r} are on the shards of a "
                         "job: call the model within `with job:`, once the job is entered")
        if indices.dtype.is_floating_point or indices.dtype == torch.bool:
            raise InvalidArgument(f"indices are of {indices.dtype}; rows have whole numbers")
        unique, places = torch.unique(indices, return_inverse=True)
        rows = unique.cpu().numpy()
        values = torch.from_numpy(self._rows.fetch(self.monsoon_table.name, rows))
        values = values.to(indices.device)
        if self.padding_idx is not None:
            values[unique == self.padding_idx] = 0
        if torch.is_grad_enabled():
            values.requires_grad_()
            self._used.append((rows, values))
        return torch.nn.functional.embedding(places, values, self._place_of_padding(unique))

    def _place_of_padding(self, unique: torch.Tensor) -> Optional[int]:
        if self.padding_idx is None:
            return None
        found = (unique == self.padding_idx).nonzero()
        return int(found[0]) if len(found) else None

    def extra_repr(self) -> str:
        table = self.monsoon_table
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{table.rows}, {table.columns}{padding}"

    def __getstate__(self) -> Any:
        # A copy, or one in another process, is of no job yet.
        state = dict(self.__dict__)
        state["_rows"], state["_used"] = None, []
        return state
