"""Learning-rate schedules of loops of one's own that go by what all programs of a job have done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from ._place import Following, Lengths, Place, can_follow
from .client import Client
from .errors import InvalidArgument, MonsoonError
from .several import Several

if TYPE_CHECKING:
    from .job import Job


def place_of(job: "Job") -> Optional[float]:
    """In epochs, by the coordinator; None where it does not answer."""
    try:
        told = Client(job._address()).describe(job.id)["progress"].get("epoch")
    except (MonsoonError, OSError):
        return None
    return None if told is None else float(told)


def begun_place(job: "Job", per_epoch: int) -> Place:
    """Where the job, which this program has entered, stands; `per_epoch` batches are an epoch."""
    place = Place(per_epoch, lambda: place_of(job), job._settings.programs or 1)
    if not job.ended:
        place.begin()
    return place


class Follows:
    """What a Job has of it."""

    def following(self: "Job", scheduler: Any, accumulate: int = 1) -> Any:  # type: ignore[misc]
        """`scheduler`, of torch, whose step() goes on to where the job is, and not past its end: it
        counts the steps of all programs, also those before this one came. So it is made for all
        steps of the job, in each program alike. The coordinator is asked every few seconds; in
        between the others' pace is taken to be this one's.

        accumulate: batches of a step. Local(scheduler=..., schedules="job") calls it by itself.
        Raises InvalidArgument for what goes by a figure, and on data of unknown length.

        >>> scheduler = job.following(CosineAnnealingLR(optimizer, 30_000))  # doctest: +SKIP
        """
        training, settings = self._ready(), self._settings
        if self._examples is None or self._batch is None:
            raise InvalidArgument("nobody knows where a job on data of unknown length is; give its "
                                  "schedule the steps of this program")
        lengths = Lengths(self._examples, self._batch, accumulate)
        if training.place is None:
            training.place = begun_place(self, lengths.per_epoch)
        total = lengths.total(settings.epochs, settings.max_steps)
        # The rate of the last step: some schedules rise again after it.
        most = None if total is None else max(0, lengths.steps(total) - 1)
        return _made(scheduler, training.place, lengths, most)

    def _follow(self: "Job") -> None:  # type: ignore[misc]
        """The job is entered: Local's own schedulers."""
        local = self._local
        if local is not None and local.schedules == "job":
            local.scheduler = self.following(local.scheduler)


def _made(scheduler: Any, place: Place, lengths: Lengths, most: Optional[int]) -> Any:
    if isinstance(scheduler, Following):
        scheduler = scheduler.scheduler  # of a job before this one
    if isinstance(scheduler, Several):
        return Several([_made(part, place, lengths, most) for part in scheduler.parts])
    if not can_follow(scheduler):
        raise InvalidArgument(f"{type(scheduler).__name__} counts no steps: it goes by figures, as "
                              "it is")
    following = Following(scheduler, lambda: lengths.steps(place.batches()), most)
    following.catch_up()
    return following
