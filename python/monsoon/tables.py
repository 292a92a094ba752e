"""Tables whose rows live on the shards, and the rows that a loop fetches and pushes.

A step of a model with a large table needs a few rows of it. They are fetched by number when the
model asks for them, and their gradients are pushed with the step's; nothing else of the table
ever comes here.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Dict, List, Optional, Sequence

import numpy

from . import _text
from .errors import InvalidArgument, NotNow
from .replica import GO, Event, EventKind, Replica


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of `rows` x `columns` float32 on the shards, moved by row-wise Adagrad:
    with g a row's gradient of n values, s <- s + |g|^2 / n, row <- row - lr g / (sqrt(s) + eps).

    initial_sum: what s begins with. normal, uniform, constant: a row begins with N(0, normal^2),
    U(-uniform, uniform), or one value; unset: U(-1/sqrt(columns), 1/sqrt(columns)). The values
    follow from the job's seed and take no memory before the row, or one near it, is pushed.

    >>> Table("words", 1_000_000, 16).text()["rows"]
    1000000
    """

    name: str
    rows: int
    columns: int
    lr: float = 0.01
    eps: float = 1e-8
    initial_sum: float = 0.0
    normal: Optional[float] = None
    uniform: Optional[float] = None
    constant: Optional[float] = None

    def __post_init__(self) -> None:
        what = f"table {self.name!r}"
        if int(self.rows) < 1 or int(self.columns) < 1:
            raise InvalidArgument(f"{what}: {self.rows} rows and {self.columns} columns; it has "
                                  "at least one of each")
        begins = [name for name in ("normal", "uniform", "constant")
                  if getattr(self, name) is not None]
        if len(begins) > 1:
            raise InvalidArgument(f"{what}: its rows begin with {' and '.join(begins)}; give one")
        for name in ("lr", "eps", "initial_sum", *begins):
            value = float(getattr(self, name))
            if not math.isfinite(value) or (value < 0 and name != "constant"):
                raise InvalidArgument(f"{what}: {name} is {value!r}; it must be finite and not "
                                      "below 0")
        if self.lr == 0 or self.eps == 0:
            raise InvalidArgument(f"{what}: lr is {self.lr!r} and eps {self.eps!r}; they must be "
                                  "above 0")

    def text(self) -> Dict[str, Any]:
        """Fields of proto/model.proto's Table."""
        begins = {name: float(getattr(self, name)) for name in ("normal", "uniform", "constant")
                  if getattr(self, name) is not None}
        return {"name": self.name, "rows": int(self.rows), "columns": int(self.columns),
                "initializer": begins or None,
                "optimizer": {"learning_rate": float(self.lr), "epsilon": float(self.eps),
                              "initial_sum": float(self.initial_sum)}}


def text_of(tables: Sequence[Table]) -> str:
    return _text.write({"table": [table.text() for table in tables]})


class Rows:
    """The rows of one job's tables, between a loop and its replica. Thread safety: none."""

    def __init__(self, replica: Any, tables: Sequence[Table], model: Any) -> None:
        self._replica: Optional[Replica] = replica
        self._tables = {table.name: (index, table) for index, table in enumerate(tables)}
        # What a fetch told: within a step nothing may change, so that it is told with the next.
        self._late: Event = GO
        modules = model.modules() if hasattr(model, "modules") else []
        self._embeddings: List[Any] = [m for m in modules if hasattr(m, "monsoon_table")]
        for embedding in self._embeddings:
            embedding.attach(self)

    def fetch(self, name: str, rows: Any) -> numpy.ndarray:
        """float32 of shape (len(rows), columns), in the order of `rows`, as they are now."""
        index, table, numbers = self._checked(name, rows)
        values = numpy.empty((numbers.size, int(table.columns)), numpy.float32)
        told = self._ready().fetch_rows(index, numbers, values)
        if told is not GO:
            kind = told.kind if told.kind is not EventKind.GO else self._late.kind
            self._late = Event(kind, told.parameters_changed or self._late.parameters_changed,
                               told.discarded or self._late.discarded)
        return values

    def push(self, name: str, rows: Any, gradients: Any) -> None:
        """Gradients of rows, of shape (len(rows), columns), for the next step; a row named twice
        gets the sum."""
        index, table, numbers = self._checked(name, rows)
        values = numpy.ascontiguousarray(gradients, numpy.float32)
        if values.shape != (numbers.size, int(table.columns)):
            raise InvalidArgument(f"table {name!r}: gradients of shape {values.shape} for "
                                  f"{numbers.size} rows of {table.columns} columns")
        self._ready().push_rows(index, numbers, values)

    def collect(self) -> None:
        """Before a step that counts: the gradients of rows that the model has used."""
        for embedding in self._embeddings:
            for rows, gradient in embedding.take():
                self.push(embedding.monsoon_table.name, rows, gradient)

    def forget(self) -> None:
        """The step counts nothing: what the model has used since the last one is of no use."""
        for embedding in self._embeddings:
            embedding.take()

    def take_late(self) -> Event:
        late, self._late = self._late, GO
        return late

    def detach(self) -> None:
        """The job was left."""
        self._replica = None

    def _ready(self) -> Replica:
        if self._replica is None:
            raise NotNow("the job was left, and the tables' rows are on its shards; export the "
                         "job's model to go on without it")
        return self._replica

    def _checked(self, name: str, rows: Any) -> Any:
        if name not in self._tables:
            raise InvalidArgument(f"no table {name!r}; the model has "
                                  f"{', '.join(map(repr, self._tables)) or 'none'}")
        index, table = self._tables[name]
        numbers = numpy.asarray(rows)
        if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
            raise InvalidArgument(f"table {name!r}: rows are a list of numbers, not an array of "
                                  f"{numbers.dtype} of shape {numbers.shape}")
        if numbers.size and (numbers.min() < 0 or numbers.max() >= table.rows):
            wrong = numbers.min() if numbers.min() < 0 else numbers.max()
            raise InvalidArgument(f"table {name!r}: row {int(wrong)} of {table.rows}")
        return index, table, numpy.ascontiguousarray(numbers, numpy.uint64)
