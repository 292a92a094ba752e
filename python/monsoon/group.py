"""A torch.distributed process group as one replica: rank 0 joins, all compute.

Batches, parameters after each landing, evaluations' ends and errors are broadcast from rank
0. Gradients are expected to be the same on all ranks, as DDP leaves them.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy
import torch
import torch.distributed as dist

from .errors import InvalidArgument
from .replica import Batch, Event, EventKind, Replica


def global_rank(group: Any, rank: int) -> int:
    """Of the group's rank, which messages are addressed to."""
    return dist.get_global_rank(group, rank) if group is not dist.group.WORLD else rank


class GroupReplica:
    """The methods of Replica for each rank of a group; every rank must make the same calls.

    A batch of the job is cut over the ranks in order; one with fewer samples than ranks is
    repeated until each has one. `join` makes rank 0's replica and is called there alone.
    `cut`: the model is cut over the ranks (sharded.py), whose binding brings each its part; the
    vectors are rank 0's alone, and all ranks evaluate.
    Raises on all ranks what the call raised on rank 0.
    """

    def __init__(self, group: Any, join: Callable[[], Replica], cut: bool = False) -> None:
        if dist.get_backend(group) == "nccl":
            raise InvalidArgument("group= is of NCCL; give one of gloo beside it, as ids and "
                                  "values are on the host: dist.new_group(backend='gloo')")
        self._group, self._cut = group, cut
        self.rank, self.world = dist.get_rank(group), dist.get_world_size(group)
        self._source = global_rank(group, 0)
        self._replica: Optional[Replica] = None

        def facts() -> Tuple[Any, ...]:
            self._replica = join()
            r = self._replica
            return r.job_id, r.size, r.offsets, r.local_steps

        self.job_id, self.size, self.offsets, self.local_steps = self._on_rank_0(facts)
        if self._replica is not None:
            self.parameters, self.gradient, self.evaluated = (
                self._replica.parameters, self._replica.gradient, self._replica.evaluated)
        else:
            self.parameters, self.gradient = (numpy.zeros(0 if cut else self.size, numpy.float32)
                                              for _ in range(2))
            self.evaluated = numpy.zeros(0, numpy.float32)

    def _on_rank_0(self, call: Callable[[], Any]) -> Any:
        """What `call` returns on rank 0, on all ranks; so with what it raises."""
        told: List[Any] = [None, None]
        if self.rank == 0:
            try:
                told[0] = call()
            except BaseException as error:  # Ctrl-C too: the others would wait for ever
                told[1] = error
                self._broadcast(told)
                raise
        self._broadcast(told)
        if told[1] is not None:
            raise told[1]
        return told[0]

    def _broadcast(self, told: List[Any]) -> None:
        dist.broadcast_object_list(told, src=self._source, group=self._group)

    def _landed(self, told: Tuple[Any, ...]) -> Event:
        """What rank 0 was told, after the parameters that came with it."""
        event = Event(EventKind(told[0]), *told[1:])
        if event.parameters_changed and not self._cut:
            dist.broadcast(torch.from_numpy(self.parameters), src=self._source,
                           group=self._group)
        return event

    def _event(self, call: Callable[[], Event]) -> Event:
        return self._landed(self._on_rank_0(lambda: tuple(call())))

    def _own(self) -> Replica:
        assert self._replica is not None
        return self._replica

    def begin(self) -> Event:
        return self._event(lambda: self._own().begin())

    def draw(self) -> Tuple[List[Batch], Event]:
        def call() -> Tuple[Any, ...]:
            batches, event = self._own().draw()
            return [tuple(batch) for batch in batches], tuple(event)

        drawn, told = self._on_rank_0(call)
        # A lost session brings the new one's parameters with a draw, too.
        event = self._landed(told)
        return [Batch(self._share(samples), epoch) for samples, epoch in drawn], event

    def _share(self, samples: numpy.ndarray) -> numpy.ndarray:
        if len(samples) < self.world:
            samples = numpy.resize(samples, self.world)
        return numpy.array_split(samples, self.world)[self.rank]

    def no_more_samples(self) -> Event:
        return self._event(lambda: self._own().no_more_samples())

    def finish(self) -> Event:
        return self._event(lambda: self._own().finish())

    def step(self, batches: int, *, examples: int = 0, loss: Optional[float] = None,
             correct: Optional[int] = None, unless_due: bool = False,
             absent: Sequence[int] = ()) -> Event:
        """The figures of rank 0 are told."""
        event = self._event(lambda: self._own().step(
            batches, examples=examples, loss=loss, correct=correct, unless_due=unless_due,
            absent=absent))
        if self._replica is None and not self.local_steps:
            self.gradient.fill(0)  # as rank 0's is
        return event

    @property
    def evaluates_here(self) -> bool:
        return self.rank == 0 or self._cut

    def report_evaluation(self, metrics: Mapping[str, float],
                          failure: Optional[str] = None) -> Event:
        return self._event(lambda: self._own().report_evaluation(metrics, failure))

    def report_divergence(self, what: str) -> Event:
        return self._event(lambda: self._own().report_divergence(what))

    def unwell(self, known: int, look: Callable[[], Optional[str]]) -> Tuple[int, Optional[str]]:
        """What look() says on rank 0, on all ranks."""
        told: Tuple[int, Optional[str]] = self._on_rank_0(lambda: self._own().unwell(known, look))
        return told

    def programs(self) -> int:
        """As rank 0 knows it; 0 on the others, without asking it."""
        return 0 if self._replica is None else self._replica.programs()

    def stats(self) -> Dict[str, int]:
        """Of rank 0; {} on the others, without asking it."""
        return {} if self._replica is None else self._replica.stats()

    def leave(self) -> None:
        """On rank 0 the job is left; the others have nothing to leave."""
        if self._replica is not None:
            self._replica.leave()
