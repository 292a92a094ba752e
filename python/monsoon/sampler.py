"""The batches of a job as a batch_sampler of torch.utils.data.DataLoader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator, List

from ._passes import Pass

if TYPE_CHECKING:
    from .job import Job


class Sampler:
    """Made by Job.sampler(). Iterating is a pass: it ends where the epoch does, and also where
    no batch is to be had before some that the loader has drawn are counted. It runs in the
    process that joined; workers of the loader only get numbers. One pass at a time."""

    def __init__(self, job: "Job", examples: int, batch: int) -> None:
        self._job, self._examples, self.batch_size = job, examples, batch

    def __iter__(self) -> Iterator[List[int]]:
        return Pass(lambda: self._job._ready(self._examples, self.batch_size))

    def __len__(self) -> int:
        """Batches of an epoch, where this program has all of them. TypeError where several
        programs train: each gets as many as it is fast, and nobody knows how many before."""
        programs = self._programs()
        if programs > 1:
            raise TypeError(f"job {self._job.name} has {programs} programs, and nobody knows how "
                            "many of an epoch's batches this one will get; it has "
                            f"{-(-self._examples // self.batch_size)} for all of them")
        return -(-self._examples // self.batch_size)

    def _programs(self) -> int:
        """How many train, as far as it is known here."""
        training = self._job._training
        running = 0 if training is None else training.replica.programs()
        return max(1, running, self._job._settings.programs or 1)

    def __bool__(self) -> bool:
        return True  # without asking for the length
