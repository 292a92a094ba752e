"""What happens between two lines of a training loop: events, evaluations, gradients."""

from __future__ import annotations

import contextlib
import time
import warnings
from typing import Any, Dict, Iterator, Mapping, Optional, Sequence

from . import _figures, _health, errors, evaluation
from ._draws import Draws
from ._passes import Pass
from ._place import Place
from .local import Local
from .replica import GO, Batch, Event, EventKind
from .several import name_of
from .streams import Kept
from .tables import Rows, Table

# A loss that is a tensor is read so often: reading waits for the device.
_LOSS_EVERY_S = 1.0


class Training:
    """One replica with the model that is bound to it. `local` is None with an optimizer of
    the shards. Thread safety: none."""

    def __init__(self, replica: Any, model: Any, binding: Any, local: Optional[Local],
                 evaluate: Optional[evaluation.Evaluate], tables: Sequence[Table] = ()) -> None:
        self.replica, self._model, self._binding = replica, model, binding
        self._local, self._evaluate = local, evaluate
        self.draws = Draws()
        self.rows = Rows(replica, tables, model)
        # Of a loader, in whose queues some of what was drawn may lie.
        self.loader_pass: Optional[Pass] = None
        self._kept: Dict[str, Kept] = {}  # streams, by name
        self._stream: Optional[Kept] = None  # that of the loop
        self.ended = False
        self.place: Optional[Place] = None  # where a schedule goes by it
        self.epoch = 0
        self.discarded = 0
        self._stepped_outside = False
        self._loss_read = float("-inf")
        self._evaluates = self._finishes = False
        self._refused = 0  # after which the optimizer was found to be well

    def begin(self) -> None:
        """Makes the model's tensors views, and waits for the job's parameters."""
        for advice in getattr(self.replica, "warnings", ()):
            warnings.warn(f"job {self.replica.job_id}: {advice}", stacklevel=4)
        self._binding.attach(self.replica)
        if self._local is not None:
            self._binding.look_at_optimizer(self._local.optimizer)
        self._handle(self.replica.begin())

    # ---- batches -------------------------------------------------------------------------

    def available(self) -> bool:
        """Whether a batch can be delivered now, after drawing one if none waits. False where
        the job has ended, or none is to be had before those drawn are counted."""
        self._handle(self.rows.take_late())
        while not self.ended and self.draws.peek() is None:
            self._binding.look(whole=True)
            batches, event = self.replica.draw()
            self._handle(event)
            if batches:
                self.draws.add(batches)
            elif event.kind is EventKind.NOTHING_NOW and self.draws.uncounted:
                return False
        return not self.ended

    def next(self) -> Optional[Batch]:
        """The next batch for a loop that has in hand what it was given; None at the job's
        end. Where the data pause, counts what is in hand, with the gradient as it is."""
        while not self.available():
            if self.ended:
                return None
            self.step(None, None, 0, None, None, self._stepped_outside)
        return self.deliver()

    def deliver(self) -> Batch:
        batch = self.draws.deliver()
        self.epoch = batch.epoch
        return batch

    def epochs(self) -> Iterator[int]:
        """As Job.epochs."""
        while True:
            self.begin_pass()
            if not self.available():
                return
            pending = self.draws.peek()
            assert pending is not None
            yield pending.epoch

    def begin_pass(self, loader_pass: Optional[Pass] = None) -> None:
        """A loop begins, over a loader or (None) over the job. What one before had to its end
        and has not counted is counted, with the gradient as it is. A loop that was left early
        gets what it has not counted once more."""
        before, self.loader_pass = self.loader_pass, loader_pass
        self._stream = None
        if before is not None and before.is_over and self.draws.in_hand and not self.ended:
            outside = self._stepped_outside
            self.step(None, self.draws.in_hand, 0, None, None, outside or not self._has_gradient())
            self._stepped_outside = outside
        self.draws.deliver_again()

    def keep(self, stream: Kept) -> Kept:
        """The loop that begins reads this stream, whose position the job keeps. One that an earlier
        loop here has read goes on as it stands."""
        known = self._kept.setdefault(stream.name, stream)
        if known is stream:
            stream.begin(self.replica, self.replica.job_id)
        else:
            known.again()
        self._stream = known
        return known

    def _has_gradient(self) -> bool:
        """Whether a backward came after the last step. Asked where a pass ends."""
        if not hasattr(self._model, "parameters"):
            return True
        return any(p.grad is not None and bool(p.grad.any()) for p in self._model.parameters())

    def _samples(self, batches: int) -> Optional[int]:
        """In the oldest batches of those in hand; of a group one process knows its part alone."""
        return self.draws.samples(batches) if getattr(self.replica, "world", 1) == 1 else None

    def _in_hand(self) -> int:
        """Batches that the loop has had and not counted; at least 1."""
        if self.loader_pass is None:
            return max(1, self.draws.in_hand)
        with_loader = self.loader_pass.with_loader
        # A loader that reads ahead on its own: a step for each batch.
        return 1 if with_loader is None else max(1, self.draws.in_hand - with_loader)

    def no_more(self) -> None:
        """No samples are left here; returns when the job has ended."""
        if self.draws.in_hand:
            self.step(None, None, 0, None, None, self._stepped_outside)
        while not self.ended:
            if self._local is not None:
                self._binding.collect_parameters()  # the rest of its steps is pushed
            self._handle(self.replica.no_more_samples())

    def finish(self) -> None:
        """Ends the job; returns when it has ended. Within an evaluation: once that is told."""
        if self._evaluates:
            if getattr(self.replica, "world", 1) > 1:
                raise errors.NotNow("one process of a group evaluates, and all of them must call "
                                    "finish(): after step(), not within evaluate()")
            self._finishes = True
            return
        self._handle(self.rows.take_late())
        if not self.ended:
            self._binding.look(whole=True)
        while not self.ended:
            if self._local is not None:
                self._binding.collect_parameters()  # the rest of its steps is pushed
            self._handle(self.replica.finish())
        self.rows.forget()

    # ---- a step --------------------------------------------------------------------------

    def step(self, loss: Any, batches: Optional[int], examples: int, correct: Optional[int],
             gradients: Optional[Mapping[str, Any]], optimizer_stepped: bool) -> None:
        """As Job.step."""
        self._stepped_outside, zeroed = optimizer_stepped, False
        if not self.ended:
            self._handle(self.rows.take_late())
            if batches is None:
                batches = self._in_hand()
            self._binding.look()
            if examples != 0 or correct is not None:
                examples, correct = _figures.of_step(examples, correct, self._samples(batches))
            loss = self._read(loss)
            count = self.draws.count(batches)
            self.discarded += batches - count
            if self._stream is not None:
                self._stream.count(self.replica, batches)
            if count:
                if self.place is not None:
                    self.place.counted(count, self.epoch, self.replica.programs() or 1)
                if self._local is None:
                    self._binding.give(gradients)
                    self.rows.collect()
                elif not optimizer_stepped:
                    self._local.step()
                event = self._counted(count, examples, loss, correct)
                zeroed = event.kind is EventKind.GO
                if event is not GO:
                    self.discarded += count if event.discarded else 0
                    self._handle(event)
        self.rows.forget()
        self._zero(zeroed)

    def _counted(self, count: int, examples: int, loss: Optional[float],
                 correct: Optional[int]) -> Event:
        replica, binding = self.replica, self._binding
        absent: Sequence[int] = ()
        if self._local is None:
            # Every step reads the gradient.
            absent = binding.collect_gradients()
            binding.collect_statistics()
        else:
            event: Event = replica.step(count, examples=examples, loss=loss, correct=correct,
                                        unless_due=True)
            if event.kind is not EventKind.DUE:
                return event
            binding.look(whole=True)
            binding.collect_parameters()
        event = replica.step(count, examples=examples, loss=loss, correct=correct, absent=absent)
        return event if self._local is None else self._after_push(self._local.optimizer, event)

    def _after_push(self, optimizer: Any, event: Event) -> Event:
        """Of `event`, which the push brought. Where a push before it was not finite, and what the
        optimizer keeps is not, none will be: the program leaves the job."""
        if event.kind is not EventKind.GO or event.discarded:
            return event
        refused, ill = self.replica.unwell(
            self._refused, lambda: _health.not_finite(optimizer, self._model))
        if ill is None:
            self._refused = refused
            return event
        self._handle(event)
        so_far = self.replica.stats()
        told: Event = self.replica.report_divergence(
            f"worker/{so_far.get('worker')} step {so_far.get('steps')}: what "
            f"{name_of(optimizer)} keeps is not finite: {ill}")
        return told

    def _zero(self, zeroed: bool = False) -> None:
        if self._local is None:
            self._binding.zero_gradients(zeroed)

    def _read(self, loss: Any) -> Optional[float]:
        if loss is None or isinstance(loss, (int, float)):
            return None if loss is None else float(loss)
        now = time.monotonic()
        if now - self._loss_read < _LOSS_EVERY_S:
            return None
        self._loss_read = now
        return _figures.number("step(loss)", loss)

    # ---- what a call brought -------------------------------------------------------------

    def _handle(self, event: Event) -> None:
        while True:
            if event.discarded:
                self.draws.discard()
                self._zero()
            if event.parameters_changed:
                self._binding.landed()
            if event.kind is not EventKind.EVALUATE:
                break
            event = self._evaluated()
        if event.kind is EventKind.ENDED:
            self.ended = True
            self.draws.discard()
        elif self._finishes:
            self._finishes = False
            self.finish()

    def _evaluated(self) -> Event:
        figures: Mapping[str, float] = {}
        if self.replica.evaluates_here:
            self._evaluates = True
            try:
                if self._evaluate is None:
                    raise errors.InvalidArgument(f"{self.replica.job_id} asks for an evaluation; "
                                                 "give evaluate= to join()")
                figures = evaluation.run(self._evaluate, self._model, self._binding, self.replica)
            except Exception as error:
                with contextlib.suppress(errors.JobFailed):  # by this very error
                    self.replica.report_evaluation(
                        {}, f"evaluate(): {type(error).__name__}: {error}")
                raise
            finally:
                self._evaluates = False
        event: Event = self.replica.report_evaluation(figures)
        return event
