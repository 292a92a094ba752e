"""The batches of a job as a batch_sampler of torch.utils.data.DataLoader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator, List

if TYPE_CHECKING:
    from .job import Job


class Sampler:
    """Made by Job.sampler(). Iterating is a pass: it ends where the epoch does, and also where
    no batch is to be had before some that the loader has drawn are counted. It runs in the
    process that joined; workers of the loader only get numbers."""

    def __init__(self, job: "Job", examples: int, batch: int) -> None:
        self._job, self._examples, self.batch_size = job, examples, batch

    def __iter__(self) -> Iterator[List[int]]:
        training = self._job._ready(self._examples, self.batch_size)
        training.draws_ahead = True
        # A pass that was left early has drawn what its loop has not counted.
        training.draws.deliver_again()
        epoch = None
        while training.available():
            pending = training.draws.peek()
            assert pending is not None
            if epoch is not None and pending.epoch != epoch:
                return
            epoch = pending.epoch
            yield training.deliver().samples.tolist()

    def __len__(self) -> int:
        """Batches of an epoch, of all programs together; this one gets its part of them."""
        return -(-self._examples // self.batch_size)
