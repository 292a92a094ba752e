"""What the callbacks for trainers have in common: a job that is joined when training begins,
because the optimizer is made by the trainer."""

from __future__ import annotations

from typing import Any, Iterator, List, Optional

from .errors import NotNow
from .job import Job
from .join import join
from .local import Local


class TrainerJob:
    """coordinator, job, examples, batch, every and all else as for join() and Local().

    The trainer's own optimizer steps, and each `every` steps what it moved is pushed. The
    trainer's DataLoader takes `sampler` as its batch_sampler.
    """

    def __init__(self, coordinator: Optional[str], job: str, *, examples: int, batch: int,
                 every: int = 100, **settings: Any) -> None:
        self._coordinator, self._name = coordinator, job
        self._examples, self._batch, self._every = examples, batch, every
        self._settings = settings
        self.job: Optional[Job] = None
        self.sampler = TrainerSampler(self, examples, batch)

    def begin(self, model: Any, optimizer: Any) -> None:
        """Joins, and waits for the job's parameters."""
        self.job = join(self._coordinator, self._name, model,
                        Local(optimizer, every=self._every), examples=self._examples,
                        batch=self._batch, **self._settings)
        self.job.__enter__()

    def stepped(self, loss: Any, batches: int) -> bool:
        """The optimizer has stepped on so many batches; whether the job has ended."""
        if self.job is None:
            raise NotNow(f"job {self._name} is not joined; training has not begun")
        self.job.step(loss, batches=batches, optimizer_stepped=True)
        return self.job.ended

    def end(self) -> None:
        """Leaves; safe to repeat, and before begin()."""
        if self.job is not None:
            self.job.leave()


class TrainerSampler:
    """A batch_sampler that can be given to a loader before the job is joined."""

    def __init__(self, trainer: TrainerJob, examples: int, batch: int) -> None:
        self._trainer, self._examples, self.batch_size = trainer, examples, batch

    def __iter__(self) -> Iterator[List[int]]:
        job = self._trainer.job
        if job is None:
            raise NotNow("the loader is read before training has begun and the job is joined")
        return iter(job.sampler(self.batch_size, self._examples))

    def __len__(self) -> int:
        return -(-self._examples // self.batch_size)
