"""A callback for Lightning's Trainer.

    monsoon = MonsoonCallback("127.0.0.1:2221", job="gpt", epochs=3, examples=len(data), batch=64)
    loader = DataLoader(data, batch_sampler=monsoon.sampler)
    Trainer(max_epochs=-1, callbacks=[monsoon], use_distributed_sampler=False).fit(module, loader)

The module's own optimizer (one) steps; see TrainerJob.
"""

from __future__ import annotations

from typing import Any, Optional

from .callbacks import TrainerJob
from .errors import InvalidArgument

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:
    from pytorch_lightning.callbacks import Callback


class MonsoonCallback(Callback):
    """Joins as training starts, counts a step for each of the optimizer's, ends the training
    with the job, and leaves with it. Its own settings are those of TrainerJob."""

    def __init__(self, coordinator: Optional[str], job: str, **settings: Any) -> None:
        super().__init__()
        self._trainer_job = TrainerJob(coordinator, job, **settings)
        self.sampler = self._trainer_job.sampler
        self._steps = 0
        self._batches = 0

    @property
    def job(self) -> Any:
        """The joined Job; None before training starts."""
        return self._trainer_job.job

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        if len(trainer.optimizers) != 1:
            raise InvalidArgument(f"the module has {len(trainer.optimizers)} optimizers; a job has "
                                  "one")
        self._steps, self._batches = trainer.global_step, 0
        self._trainer_job.begin(pl_module, trainer.optimizers[0])

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

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._trainer_job.end()

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        self._trainer_job.end()

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._trainer_job.end()
