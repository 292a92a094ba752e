"""A callback for Lightning's Trainer.

    monsoon = MonsoonCallback("127.0.0.1:2221", job="gpt", data=data, batch=64, every=100)
    loader = DataLoader(data, batch_sampler=monsoon.sampler)
    Trainer(max_epochs=3, callbacks=[monsoon], use_distributed_sampler=False).fit(module, loader)

The module's own optimizer (one) steps. The keywords are those of TrainerJob, and so of join() and
Local(). The job ends at `epochs` or `max_steps` of the callback, and where it has neither, at the
Trainer's max_epochs or max_steps; training ends with the job, here and in all other programs.
trainer.estimated_stepping_batches is the whole job's.
"""

from __future__ import annotations

import math
from typing import Any, List, Optional, Tuple

from ._place import Following
from .callbacks import TrainerJob
from .errors import InvalidArgument

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:
    from pytorch_lightning.callbacks import Callback


class MonsoonCallback(Callback):
    """Joins in on_fit_start, counts a step for each of the optimizer's, ends the training with
    the job, and leaves with it."""

    def __init__(self, coordinator: Optional[str], job: str, **settings: Any) -> None:
        super().__init__()
        self._trainer_job = TrainerJob(coordinator, job, **settings)
        self.sampler = self._trainer_job.sampler
        self._steps = self._batches = 0
        self._by_epoch: List[Any] = []
        self._limits: Optional[Tuple[Any, Any]] = None  # the Trainer's own

    @property
    def job(self) -> Any:
        """The joined Job; None before training starts."""
        return self._trainer_job.job

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if stage != "fit":
            return
        self._limits = trainer.max_epochs, trainer.max_steps
        job = self._trainer_job
        job.settle(trainer.accumulate_grad_batches,
                   epochs=trainer.max_epochs if (trainer.max_epochs or -1) > 0 else None,
                   steps=trainer.max_steps if trainer.max_steps > 0 else None)
        # What schedules are made by, in configure_optimizers.
        trainer.fit_loop.max_epochs = -1 if job.epochs is None else math.ceil(job.epochs)
        trainer.fit_loop.epoch_loop.max_steps = -1 if job.steps is None else job.steps

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        if len(trainer.optimizers) != 1:
            raise InvalidArgument(f"the module has {len(trainer.optimizers)} optimizers; a job has "
                                  "one")
        trainer.estimated_stepping_batches  # looks at the loader while that has a length
        self._trainer_job.begin(pl_module, trainer.optimizers[0])
        fetcher = getattr(trainer.fit_loop, "_data_fetcher", None)
        if fetcher is not None:
            # Once more, now that there are batches. Without a length the fetcher looks a batch
            # ahead, and knows the last of a pass, however long that is.
            fetcher.combined_loader.limits = None
            iter(fetcher)
            if trainer.val_check_interval == 1.0 and trainer.limit_train_batches == 1.0:
                trainer.val_check_batch = math.inf  # where a pass ends
        self._follow(trainer)
        self._steps, self._batches = trainer.global_step, 0
        trainer.should_stop = trainer.should_stop or self.job.ended

    def _follow(self, trainer: Any) -> None:
        self._by_epoch = []
        for config in trainer.lr_scheduler_configs:
            by_epoch = config.interval == "epoch"
            config.scheduler = self._trainer_job.following(config.scheduler, by_epoch,
                                                           config.frequency)
            if isinstance(config.scheduler, Following):
                config.scheduler.catch_up()
                self._by_epoch += [config.scheduler] if by_epoch else []

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any,
                             batch_idx: int) -> None:
        if batch_idx == 0:
            for scheduler in self._by_epoch:
                scheduler.catch_up()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any,
                           batch_idx: int) -> None:
        self._batches += 1
        # With accumulate_grad_batches the optimizer steps once in several batches.
        if trainer.global_step == self._steps:
            return
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        ended = self._trainer_job.stepped(loss, self._batches)
        self._steps, self._batches = trainer.global_step, 0
        if ended:
            trainer.should_stop = True
        elif trainer.global_step >= trainer.max_steps > 0:
            trainer.fit_loop.epoch_loop.max_steps = trainer.global_step + 1

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self._batches = 0  # of a pass that was left within a group, whose batches come again
        if not self._trainer_job.more():
            trainer.should_stop = True
        elif 0 < trainer.max_epochs <= trainer.current_epoch + 1:
            # The last epoch's batches came in several parts.
            trainer.fit_loop.max_epochs = trainer.current_epoch + 2

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        for scheduler in self._by_epoch:
            scheduler.catch_up()

    def _end(self, trainer: Any) -> None:
        self._trainer_job.end()
        if self._limits is not None:
            trainer.fit_loop.max_epochs, trainer.fit_loop.epoch_loop.max_steps = self._limits
            self._limits = None

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._end(trainer)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        self._end(trainer)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._end(trainer)
