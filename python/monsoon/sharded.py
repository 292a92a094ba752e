"""A module whose parameters are cut over the ranks of a process group (FSDP2): each rank has its rows,
and rank 0 the job's vectors, to which they are gathered and from which they are scattered.

fully_shard() cuts each parameter by rows (dimension 0), so that what a rank has of one is in one piece
in the vector: it is sent from there, and to there, without a copy in between.
"""

from __future__ import annotations

import collections
from typing import Any, Callable, Counter, List, Optional, Tuple

import torch
import torch.distributed as dist

from .errors import InvalidArgument, UnsupportedTensor
from .group import global_rank
from .layout import Layout, is_cut
from .watch import ModelWatch


class Part:
    """One parameter: `rows` are the parts of its values by rank, in the vector of all."""

    def __init__(self, number: int, name: str, tensor: Any, offset: int, world: int) -> None:
        self.number, self.name, self.tensor = number, name, tensor
        self.rows = _rows(name, tensor, offset, world)

    @property
    def own(self) -> Any:
        """This rank's values, flat; a view of the parameter's memory."""
        return self.tensor._local_tensor.detach().view(-1)

    def own_gradient(self) -> Optional[Any]:
        gradient = self.tensor.grad
        if gradient is None:
            return None
        return (gradient._local_tensor if is_cut(gradient) else gradient).reshape(-1)


def _rows(name: str, tensor: Any, offset: int, world: int) -> List[Tuple[int, int]]:
    placements = tensor.placements
    if len(placements) != 1 or not placements[0].is_shard(0) or (
            tensor.device_mesh.size() != world):
        raise UnsupportedTensor(f"{name} is placed as {placements} on {tensor.device_mesh}; what is "
                                "cut by rows over all ranks of group= can be trained, as "
                                "fully_shard(model) on a mesh of one dimension makes it")
    rows = int(tensor.shape[0])
    values = tensor.numel() // max(1, rows)
    each = -(-rows // world)  # as torch.chunk
    ends = [min(rows, each * (rank + 1)) for rank in range(world)]
    begins = [0, *ends[:-1]]
    return [(offset + begin * values, offset + end * values) for begin, end in zip(begins, ends)]


class ShardedBinding:
    """As TorchBinding, for a module of which all parameters that are trained are cut (fully_shard of
    torch.distributed.fsdp). Ranks other than 0 hold no vector. Every rank makes the same calls."""

    def __init__(self, module: Any, layout: Layout, group: Any) -> None:
        self._module, self._layout = module, layout
        self._group, self._rank = group, dist.get_rank(group)
        self._ranks = [global_rank(group, rank) for rank in range(dist.get_world_size(group))]
        self.copied: Counter[str] = collections.Counter()
        self.missing = 0
        self._watch = ModelWatch(module, layout)
        whole = [entry.name for entry in layout.entries if not is_cut(entry.source)]
        if whole:
            raise UnsupportedTensor(f"{', '.join(whole[:5])}: not cut over the ranks, and others of "
                                    "the model are; call fully_shard(model) on the whole model, and "
                                    "keep buffers of floating point out of its state")

    def attach(self, replica: Any) -> None:
        """Gathers the initial values."""
        self._watch.look()
        self._parameters, self._gradient = (
            torch.from_numpy(vector) for vector in (replica.parameters, replica.gradient))
        self._parts = [Part(number, entry.name, entry.source, offset, len(self._ranks))
                       for number, (entry, offset)
                       in enumerate(zip(self._layout.entries, replica.offsets))]
        self._gather(self._parameters, lambda part: part.own)

    def look_at_optimizer(self, optimizer: Any) -> None:
        """Local's optimizer steps the parts that are here."""

    def look(self, whole: bool = False) -> None:
        """As TorchBinding's; values are not compared."""
        self._reshard()
        self._watch.look()

    def _reshard(self) -> None:
        """After a forward without backward whole parameters are in the place of the cut ones."""
        for part in self._module.modules():
            if callable(getattr(part, "reshard", None)):
                part.reshard()

    # ---- between the ranks ---------------------------------------------------------------

    def _gather(self, vector: Any, values: Callable[[Part], Any]) -> None:
        """Rows of each part to their places in rank 0's vector; where values() is None, none of
        any rank."""
        waits, kept = [], []
        with torch.no_grad():
            for part in self._parts:
                found = values(part)
                if found is None:
                    continue
                begin, end = part.rows[self._rank]
                self.copied["gathered:" + str(found.device)] += (end - begin) * 4
                if self._rank == 0:
                    vector[begin:end].copy_(found)
                    waits += [dist.irecv(vector[first:last], self._ranks[rank], group=self._group)
                              for rank, (first, last) in enumerate(part.rows)
                              if rank > 0 and last > first]
                elif end > begin:
                    kept.append(found.detach().to("cpu", torch.float32).contiguous())
                    waits.append(dist.isend(kept[-1], self._ranks[0], group=self._group))
            for wait in waits:
                wait.wait()

    def _scatter(self) -> None:
        """Rank 0's vector of parameters to the ranks' rows."""
        waits, landing = [], []
        with torch.no_grad():
            for part in self._parts:
                begin, end = part.rows[self._rank]
                own = part.own
                if self._rank == 0:
                    own.copy_(self._parameters[begin:end])
                    waits += [dist.isend(self._parameters[first:last], self._ranks[rank],
                                         group=self._group)
                              for rank, (first, last) in enumerate(part.rows)
                              if rank > 0 and last > first]
                elif end > begin:
                    as_it_is = own.dtype == torch.float32 and own.device.type == "cpu"
                    place = own if as_it_is else torch.empty(end - begin)
                    if not as_it_is:
                        landing.append((own, place))
                    waits.append(dist.irecv(place, self._ranks[0], group=self._group))
            for wait in waits:
                wait.wait()
            for own, place in landing:
                own.copy_(place)

    # ---- to the vectors ------------------------------------------------------------------

    def collect_parameters(self) -> None:
        """With local steps, before a due step."""
        self._reshard()
        self._gather(self._parameters, lambda part: part.own)

    def collect_statistics(self) -> None:
        """There are none."""

    def give(self, gradients: Any) -> None:
        if gradients is not None:
            raise InvalidArgument("gradients= is for models that are a dict of arrays; a module's "
                                  "are taken from its parameters after backward()")

    def collect_gradients(self) -> List[int]:
        """With optimizers of the shards, before a due step; the same parameters have gradients on all
        ranks, as FSDP makes them."""
        absent = [part.number for part in self._parts if part.tensor.grad is None]
        self.missing += sum(self._parts[number].tensor.requires_grad for number in absent)
        self._gather(self._gradient, Part.own_gradient)
        return absent

    def zero_gradients(self, zeroed: bool = False) -> None:
        if not zeroed and self._gradient.numel():
            self._gradient.zero_()
        for part in self._parts:
            part.tensor.grad = None

    # ---- from the vectors ----------------------------------------------------------------

    def landed(self) -> None:
        self._scatter()

    def evaluating(self) -> Any:
        """All ranks evaluate: a forward needs each."""
        kept = [part.own.clone() for part in self._parts]
        self._scatter()
        return kept

    def put_back(self, kept: Any) -> None:
        self._reshard()
        with torch.no_grad():
            for part, values in zip(self._parts, kept):
                part.own.copy_(values)
