"""What the callbacks for trainers have in common: a job that is joined when training begins,
because the optimizer is made by the trainer."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, Iterator, List, Optional

from ._place import Following, Lengths, Place, can_follow
from .errors import InvalidArgument, NotNow
from .following import begun_place
from .job import Job
from .join import join
from .local import Local

_TRAINERS_OWN = ("coordinator", "job", "model", "optimizer", "scaler", "scheduler")


def _settings_of(function: Callable[..., Any]) -> List[str]:
    return [name for name in inspect.signature(function).parameters if name not in _TRAINERS_OWN]


class TrainerJob:
    """coordinator, job and all keywords of Local() and join(), but for what is the trainer's: the
    model, the optimizer, its scaler and scheduler. `group` may be a function that makes the group.

    The trainer's own optimizer steps, and each `every` steps what it moved is pushed. The
    trainer's DataLoader takes `sampler` as its batch_sampler.

    schedules: "job": where several programs train, the trainer's learning-rate schedule counts
      the steps of all of them, so that it is over when the job is; "own": those of this one.
    """

    def __init__(self, coordinator: Optional[str], job: str, *, schedules: str = "job",
                 **settings: Any) -> None:
        if schedules not in ("job", "own"):
            raise InvalidArgument(f"schedules={schedules!r}: there are job, own")
        local, joins = _settings_of(Local), _settings_of(join)
        for name in settings:
            if name in _TRAINERS_OWN:
                raise InvalidArgument(f"{name} is the trainer's own")
            if name not in local and name not in joins:
                raise InvalidArgument(f"neither join() nor Local() has a setting {name!r}")
        self._coordinator, self._name, self._follows = coordinator, job, schedules == "job"
        self._local = {name: settings.pop(name) for name in local if name in settings}
        if settings.get("data") is not None:
            settings["examples"] = len(settings["data"])
        self._settings: Dict[str, Any] = settings
        self._lengths: Optional[Lengths] = None
        self._place: Optional[Place] = None
        self.job: Optional[Job] = None
        self.preparing = False  # the trainer may look at its loader, whose batches come later
        self.sampler = TrainerSampler(self)

    def settle(self, accumulate: int, **trainers: Any) -> None:
        """What the trainer knows: batches of an optimizer step, and `examples`, `batch` and the
        ends `epochs` and `steps` (of the optimizer), which the job has where it was not told its
        own."""
        settings = self._settings
        for name in ("examples", "batch"):
            if settings.get(name) is None:
                settings[name] = trainers.get(name)
            if settings[name] is None:
                raise InvalidArgument(f"{name}= is needed: how many samples "
                                      + ("are there?" if name == "examples" else "has a batch?"))
        self._lengths = Lengths(settings["examples"], settings["batch"], accumulate)
        if settings.get("epochs") is None and settings.get("max_steps") is None:
            settings["epochs"] = trainers.get("epochs")
            if trainers.get("steps") is not None:
                settings["max_steps"] = self._lengths.batches(trainers["steps"])
        self.preparing = True

    @property
    def lengths(self) -> Lengths:
        assert self._lengths is not None
        return self._lengths

    @property
    def epochs(self) -> Optional[float]:
        """After which the job ends."""
        epochs: Optional[float] = self._settings.get("epochs")
        return epochs

    @property
    def steps(self) -> Optional[int]:
        """Of the optimizers of all programs together, as many as one program would make; None
        where the job has no such end."""
        total = self.lengths.total(self.epochs, self._settings.get("max_steps"))
        return None if total is None else self.lengths.steps(total)

    def begin(self, model: Any, optimizer: Any) -> None:
        """Joins, and waits for the job's parameters."""
        settings = dict(self._settings)
        if callable(settings.get("group")):
            settings["group"] = settings["group"]()
        self.preparing = False
        job = self.job = join(self._coordinator, self._name, model,
                              Local(optimizer, **self._local), **settings)
        job.__enter__()
        self._place = begun_place(job, self.lengths.per_epoch)

    def following(self, scheduler: Any, by_epoch: bool = False, every: int = 1) -> Any:
        """`scheduler`, made to count the job's steps, or its epochs; it as it is where it does not
        count, or schedules are this program's own. May be called before begin()."""
        if not self._follows or not can_follow(scheduler):
            return scheduler
        if by_epoch:
            return Following(scheduler, lambda: self.epoch // every, waits=True)
        # The rate of the last step: some schedules rise again after it.
        most = None if self.steps is None else max(0, self.steps // every - 1)
        return Following(scheduler, lambda: self.lengths.steps(self.place) // every, most)

    @property
    def place(self) -> float:
        """Batches that all programs have done."""
        return 0.0 if self._place is None else self._place.batches()

    @property
    def epoch(self) -> int:
        """Of the batch in hand; after the job's end, how many it has had."""
        if self.job is None:
            return 0
        return int(self.epochs) if self.job.ended and self.epochs else self.job.epoch

    def stepped(self, loss: Any, batches: int) -> bool:
        """The optimizer has stepped on so many batches; whether the job has ended."""
        if self.job is None or self._place is None:
            raise NotNow(f"job {self._name} is not joined; training has not begun")
        training = self.job._ready()
        self._place.counted(batches, training.epoch, training.replica.programs() or 1)
        self.job.step(loss, batches=batches, optimizer_stepped=True)
        return self.job.ended

    def more(self) -> bool:
        """Whether another pass over the loader has batches; waits until that is known."""
        return self.job is not None and not self.job.ended and next(
            self.job.epochs(), None) is not None

    def end(self) -> None:
        """Leaves; safe to repeat, and before begin()."""
        self.preparing = False
        if self.job is not None:
            self.job.leave()


class TrainerSampler:
    """A batch_sampler that can be given to a loader before the job is joined. It has a length
    until then."""

    def __init__(self, trainer: TrainerJob) -> None:
        self._trainer = trainer

    @property
    def batch_size(self) -> Optional[int]:
        batch: Optional[int] = self._trainer._settings.get("batch")
        return batch

    def __iter__(self) -> Iterator[List[int]]:
        job = self._trainer.job
        if job is not None:
            return iter(job.sampler(self.batch_size))
        if self._trainer.preparing:
            return iter(())  # of a loader that is asked once more when the job is joined
        raise NotNow("the loader is read before training has begun and the job is joined; is the "
                     "callback among the trainer's?")

    def __len__(self) -> int:
        examples = self._trainer._settings.get("examples")
        if self._trainer.job is not None or examples is None or self.batch_size is None:
            raise TypeError("nobody knows how many batches of an epoch this program will get")
        return -(-int(examples) // self.batch_size)

    def __bool__(self) -> bool:
        return True  # without asking for the length
