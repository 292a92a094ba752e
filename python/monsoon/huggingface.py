"""A callback for the Trainer of Hugging Face's transformers.

    monsoon = MonsoonCallback("127.0.0.1:2221", job="gpt", epochs=3, examples=len(data), batch=8)

    class OnMonsoon(Trainer):
        def get_train_dataloader(self):
            return DataLoader(self.train_dataset, batch_sampler=monsoon.sampler,
                              collate_fn=self.data_collator)

    OnMonsoon(model, TrainingArguments(max_steps=10**9, ...), callbacks=[monsoon], ...).train()

The Trainer's own optimizer steps; see TrainerJob. The job says when training ends.
"""

from __future__ import annotations

from typing import Any, Optional

from transformers import TrainerCallback

from .callbacks import TrainerJob


class MonsoonCallback(TrainerCallback):
    """Joins as training begins, counts a step for each of the optimizer's, ends the training
    with the job, and leaves with it. Its own settings are those of TrainerJob.

    An exception out of train() passes by the callbacks: call leave() then, or let the process
    end, which the job notices.
    """

    def __init__(self, coordinator: Optional[str], job: str, **settings: Any) -> None:
        self._trainer_job = TrainerJob(coordinator, job, **settings)
        self.sampler = self._trainer_job.sampler

    @property
    def job(self) -> Any:
        """The joined Job; None before training begins."""
        return self._trainer_job.job

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None,
                       optimizer: Any = None, **others: Any) -> None:
        # Trainer wraps an optimizer that accelerate has prepared.
        self._trainer_job.begin(model, getattr(optimizer, "optimizer", optimizer))

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> Any:
        history = getattr(state, "log_history", None) or [{}]
        ended = self._trainer_job.stepped(history[-1].get("loss"),
                                          max(1, args.gradient_accumulation_steps))
        if ended:
            control.should_training_stop = True
        return control

    def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        self._trainer_job.end()

    def leave(self) -> None:
        """Leaves the job; safe to repeat."""
        self._trainer_job.end()
