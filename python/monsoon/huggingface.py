"""For the Trainer of Hugging Face's transformers, and those made of it.

    monsoon = MonsoonCallback("127.0.0.1:2221", job="gpt", every=100)
    arguments = TrainingArguments(num_train_epochs=3, per_device_train_batch_size=8, ...)
    MonsoonTrainer(model, arguments, train_dataset=data, callbacks=[monsoon]).train()

    class OnMonsoon(MonsoonLoop, MyTrainer): ...      # of any other Trainer

The Trainer's own optimizer steps. The keywords are those of TrainerJob, and so of join() and
Local(). `examples` and `batch` are those of the Trainer where they are not said. The job ends at
`epochs` or `max_steps` of the callback, and where it has neither, at num_train_epochs or max_steps
of the arguments; training ends with the job, here and in all other programs.
"""

from __future__ import annotations

from typing import Any, Iterator, List, Optional

from torch.utils.data import DataLoader
import torch
from transformers import Trainer, TrainerCallback

from .callbacks import TrainerJob
from .errors import InvalidArgument


class MonsoonCallback(TrainerCallback):
    """Joins as training begins, counts a step for each of the optimizer's, ends the training
    with the job, and leaves with it. For a MonsoonTrainer, or another one with MonsoonLoop."""

    def __init__(self, coordinator: Optional[str], job: str, **settings: Any) -> None:
        self._trainer_job = TrainerJob(coordinator, job, **settings)
        self.sampler = self._trainer_job.sampler
        self._loss: Optional[float] = None
        self._batches = 0  # of the group in hand

    @property
    def job(self) -> Any:
        """The joined Job; None before training begins."""
        return self._trainer_job.job

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None,
                       optimizer: Any = None, lr_scheduler: Any = None, **others: Any) -> Any:
        if not self._trainer_job.preparing:
            raise InvalidArgument("MonsoonCallback is for MonsoonTrainer, or for a class of "
                                  "(MonsoonLoop, YourTrainer)")
        # Trainer wraps an optimizer that accelerate has prepared.
        self._trainer_job.begin(model, getattr(optimizer, "optimizer", optimizer))
        if hasattr(lr_scheduler, "catch_up"):
            lr_scheduler.catch_up()
        return control

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **others: Any) -> None:
        self._loss = (logs or {}).get("loss", self._loss)

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> Any:
        job = self._trainer_job
        ended = job.stepped(self._loss, self._batches)
        self._loss = None
        state.epoch = job.place / job.lengths.per_epoch
        if ended:
            control.should_training_stop = True
            control.should_save = control.should_save or args.save_strategy == "steps"
        elif state.global_step >= state.max_steps:
            control.should_training_stop = False  # the job has more
        return control

    def on_epoch_end(self, args: Any, state: Any, control: Any, **others: Any) -> Any:
        if not control.should_training_stop and not self._trainer_job.more():
            control.should_training_stop = True
        return control

    def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        self._trainer_job.end()

    def leave(self) -> None:
        """Leaves the job; safe to repeat."""
        self._trainer_job.end()


class _Nothing(dict):
    """In the place of a batch that a group lacks."""


class _Group(List[Any]):
    """Batches of one optimizer step, with nothing in the places of those that it lacks: Trainer
    steps where it has counted gradient_accumulation_steps of them."""

    def __init__(self, batches: List[Any], size: int, nothing: _Nothing) -> None:
        super().__init__(batches)
        self._lacks = [nothing] * (size - len(batches))

    def __iter__(self) -> Iterator[Any]:
        yield from super().__iter__()
        yield from self._lacks


class MonsoonLoop:
    """To be put before a Trainer: `class OnMonsoon(MonsoonLoop, MyTrainer): ...`. One of its
    callbacks is a MonsoonCallback, whose batches it trains on, in groups of
    gradient_accumulation_steps, with fewer where an epoch ends."""

    @property
    def _monsoon(self) -> MonsoonCallback:
        found = [callback for callback in self.callback_handler.callbacks  # type: ignore
                 if isinstance(callback, MonsoonCallback)]
        if len(found) != 1:
            raise InvalidArgument(f"{len(found)} of the callbacks are MonsoonCallbacks; give one: "
                                  "callbacks=[monsoon]")
        return found[0]

    def train(self, *arguments: Any, **more: Any) -> Any:
        args, callback = self.args, self._monsoon  # type: ignore
        job = callback._trainer_job
        job.settle(args.gradient_accumulation_steps, batch=args.train_batch_size,
                   examples=len(self.train_dataset),  # type: ignore
                   epochs=args.num_train_epochs if args.max_steps <= 0 else None,
                   steps=args.max_steps if args.max_steps > 0 else None)
        before = args.max_steps, args.ignore_data_skip
        # The job knows what is done; for Trainer its data have no length.
        args.max_steps, args.ignore_data_skip = job.steps, True
        try:
            return super().train(*arguments, **more)  # type: ignore
        finally:
            args.max_steps, args.ignore_data_skip = before
            callback.leave()

    def get_train_dataloader(self) -> Any:
        args, collate = self.args, self.data_collator  # type: ignore
        without = getattr(self, "_get_collator_with_removed_columns", None)
        if without is not None:
            collate = without(collate, description="training")
        workers = args.dataloader_num_workers
        return DataLoader(self.train_dataset, batch_sampler=_Unsized(  # type: ignore
                              self._monsoon.sampler),
                          collate_fn=collate, num_workers=workers,
                          pin_memory=args.dataloader_pin_memory and torch.cuda.is_available(),
                          persistent_workers=args.dataloader_persistent_workers and workers > 0)

    def create_scheduler(self, *arguments: Any, **more: Any) -> Any:
        super().create_scheduler(*arguments, **more)  # type: ignore
        following = self._monsoon._trainer_job.following
        self.lr_scheduler = following(self.lr_scheduler)  # type: ignore
        return self.lr_scheduler

    def get_batch_samples(self, epoch_iterator: Any, num_batches: int, *arguments: Any,
                          **more: Any) -> Any:
        batches, items = super().get_batch_samples(  # type: ignore
            epoch_iterator, num_batches, *arguments, **more)
        self._monsoon._batches = len(batches)
        if not batches:
            self.control.should_epoch_stop = True  # type: ignore
        elif len(batches) < num_batches:
            name = getattr(self.model, "main_input_name", "input_ids")  # type: ignore
            batches = _Group(batches, num_batches, _Nothing({name: torch.zeros(0)}))
        return batches, items

    def training_step(self, model: Any, inputs: Any, *arguments: Any, **more: Any) -> Any:
        if isinstance(inputs, _Nothing):
            return torch.zeros((), device=self.args.device)  # type: ignore
        return super().training_step(model, inputs, *arguments, **more)  # type: ignore


class _Unsized:
    """A batch_sampler without a length."""

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler

    @property
    def batch_size(self) -> Any:
        return self._sampler.batch_size

    def __iter__(self) -> Iterator[List[int]]:
        return iter(self._sampler)


class MonsoonTrainer(MonsoonLoop, Trainer):
    """Trainer on the batches of a job."""
