"""A job as a training loop sees it: the batches to compute on, and step()."""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import Any, Callable, Dict, Iterable, Iterator, Mapping, Optional, Tuple, Type

import numpy

from . import errors, evaluation, model_file
from ._loops import Blocks, Steps, accumulate, agreed
from .following import Follows
from .layout import Layout
from .local import Local
from .sampler import Sampler
from .settings import Settings
from .signals import Terminable
from .stats import Stats
from .sums import SumsWarning
from .training import Training


class Job(Follows):
    """Made by join(). A context manager: leaving the block leaves the job, also on an exception,
    Ctrl-C and SIGTERM.

    The job is entered when the block is, where join() was told `examples` (or `data`) and `batch`;
    else by the first blocks(), sampler() in use, or steps(), which know them. From then on the
    model has the job's parameters. They change in step() alone. Thread safety: none; all calls
    from one thread.
    """

    def __init__(self, settings: Settings, model: Any, layout: Layout, binding: Any,
                 connect: Callable[[str], Any], *, examples: Optional[int] = None,
                 batch: Optional[int] = None, evaluate: Optional[evaluation.Evaluate] = None,
                 address: Callable[[], str] = lambda: "") -> None:
        self._settings, self._model, self._layout = settings, model, layout
        self._binding, self._connect, self._evaluate = binding, connect, evaluate
        self._examples, self._batch, self._address = examples, batch, address
        self._local = settings.optimizer if isinstance(settings.optimizer, Local) else None
        self._training: Optional[Training] = None
        self._pid = os.getpid()
        self._terminable = Terminable()
        self._entered = self._left = False
        self._sums = SumsWarning(settings)

    # ---- the block -----------------------------------------------------------------------

    def __enter__(self) -> "Job":
        if self._left:
            raise errors.NotNow(f"job {self.name} was left; join again for another block")
        if not self._entered:
            self._entered = True
            self._terminable.enter()
            if self._batch is not None and self._examples is not None:
                try:
                    self._start()
                except BaseException:
                    self.leave()
                    raise
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        try:
            self.leave()
        except errors.MonsoonError as error:
            # What ended the block says more than what leaving came to.
            if kind is None:
                raise
            print(f"monsoon: leaving {self.name}: {error}", file=sys.stderr)

    def leave(self) -> None:
        """Leaves the job: what is summed up is pushed, batches that no step has counted go to
        others. Within 20 seconds; safe to repeat, and in a fork it does nothing. The model
        keeps the parameters that it has."""
        if self._pid != os.getpid():
            return
        self._left = True
        self._terminable.leave()
        if self._training is not None:
            self._training.rows.detach()
            self._training.replica.leave()

    def _start(self) -> None:
        assert self._batch is not None
        replica = self._connect(self._settings.job(self._examples, self._batch))
        self._training = Training(replica, self._model, self._binding, self._local,
                                  self._evaluate, self._layout.tables)
        self._training.begin()
        self._follow()
        self._sums.look(self.name, self._training)

    def _ready(self, examples: Optional[int] = None, batch: Optional[int] = None) -> Training:
        """Enters the job if nothing has; raises where that is not possible."""
        if self._pid != os.getpid():
            raise errors.Forked(f"job {self.name} was joined by process {self._pid}, and this is "
                                f"its fork {os.getpid()}; only the process that joined may call")
        if not self._entered or self._left:
            raise errors.NotNow(f"job {self.name} is not entered; write `with job:` around the "
                                "loop" if not self._left else f"job {self.name} was left")
        examples = agreed("examples", self._examples, examples)
        batch = agreed("batch", self._batch, batch)
        if self._training is None:
            self._examples, self._batch = examples, batch
            if self._batch is None:
                raise errors.InvalidArgument("how many samples has a batch? Give batch= here or "
                                             "to join()")
            self._start()
        assert self._training is not None
        return self._training

    # ---- batches -------------------------------------------------------------------------

    def blocks(self, examples: Optional[int] = None, batch: Optional[int] = None
               ) -> Iterator[Any]:
        """Numbers of the samples to compute the next gradient on: int64 arrays of shape (at most
        `batch`,), values in [0, examples), until the job ends.
        Each is leased to this program, and counted by the next step(). Several may be drawn
        for one step (accumulation). Where the data pause at an epoch's end, batches that are
        drawn and not counted are counted by a step that this iterator makes, with the gradient
        as it is.

        >>> for ids in job.blocks(len(data), batch=64):          # doctest: +SKIP
        ...     F.cross_entropy(model(x[ids]), y[ids]).backward()
        ...     job.step()
        """
        if examples is None and self._examples is None:
            raise errors.InvalidArgument("how many samples are there? blocks(len(data), batch=64); "
                                         "steps() is for data of unknown length")
        return Blocks(lambda: self._ready(examples, batch))

    def sampler(self, batch: Optional[int] = None, examples: Optional[int] = None) -> Sampler:
        """For DataLoader(data, batch_sampler=job.sampler(64)), with any number of workers.

        A batch is done when a step has counted it, not when the loader draws it: step() counts
        all that the loop has had. The loader has a pass for each epoch: loop over epochs(). What
        a pass leaves uncounted at its end is counted as by blocks(); after a `break` it comes
        again, with what the loader had drawn ahead.

        >>> loader = DataLoader(data, batch_sampler=job.sampler(64))   # doctest: +SKIP
        >>> for epoch in job.epochs():                                 # doctest: +SKIP
        ...     for x, y in loader:
        ...         F.cross_entropy(model(x), y).backward()
        ...         job.step()
        """
        self._examples = self._examples if examples is None else int(examples)
        if self._examples is None:
            raise errors.InvalidArgument("how many samples are there? sampler(64, examples=...)")
        self._batch = self._batch if batch is None else int(batch)
        if self._batch is None:
            raise errors.InvalidArgument("how many samples has a batch? sampler(64)")
        return Sampler(self, self._examples, self._batch)

    def epochs(self) -> Iterator[int]:
        """The epoch, from 0, before each pass over a loader that has a sampler() of this job,
        until the job ends. One comes twice where its data came in two parts, or the loop over
        the loader was left before its end."""
        yield from self._ready().epochs()

    def steps(self, data: Iterable[Any], batch: Optional[int] = None, *,
              state: Optional[str] = None, state_of: Any = None) -> Iterator[Any]:
        """Items of `data`, each a batch of (about) `batch` samples of a stream whose length nobody
        knows, until `data` and those of all other programs end, or the job does.
        state: a name for this stream ("part-0"), under which the job keeps state_dict() of `data`,
        or of `state_of`, as of what was pushed; whoever reads it next goes on there, by
        load_state_dict(). Without it nobody reads again what a program that dies had read."""
        if self._examples is not None:
            raise errors.InvalidArgument(f"the job has {self._examples} numbered samples; steps() "
                                         "is for data of unknown length")
        return Steps(lambda: self._ready(None, batch), data, state, state_of)

    @staticmethod
    def accumulate(batches: Iterable[Any], every: int) -> Iterator[Tuple[Any, bool]]:
        """Each item of `batches` (blocks(), steps(), or a loader on sampler()), and whether it is
        the last of a group of `every`: step() then, and it counts the group. Where an epoch ends
        or the data pause a group is shorter.

        >>> for (x, y), last in job.accumulate(loader, 4):             # doctest: +SKIP
        ...     (F.cross_entropy(model(x), y) / 4).backward()
        ...     if last:
        ...         job.step()
        """
        return accumulate(batches, every)

    # ---- a step --------------------------------------------------------------------------

    def step(self, loss: Any = None, *, batches: Optional[int] = None, examples: int = 0,
             correct: Optional[int] = None, gradients: Optional[Mapping[str, Any]] = None,
             optimizer_stepped: bool = False) -> None:
        """Counts what was computed: pushes when due, lands what was fetched.

        With an optimizer of the shards the gradients are taken and zeroed. With Local, the
        optimizer's step() and zero_grad() are called, unless optimizer_stepped says that the
        program has done both.

        loss: mean over the samples, a number or a tensor; a tensor is read at most once a
          second. correct: how many samples the model got right.
        batches: drawn batches that it counts; unset: all that the loop has had since the last
          step. examples: samples, if not those of the batches.
        gradients: by name, for models that are a dict of arrays, where they are not written to
          job.gradients.
        Raises what ended the job, if it did not succeed. After its end it does nothing.
        """
        training = self._training
        if training is None or self._left or self._pid != os.getpid():
            training = self._ready()
        training.step(loss, None if batches is None else int(batches), examples, correct,
                      gradients, optimizer_stepped)
        self._sums.look(self.name, training)

    def finish(self) -> None:
        """Ends the job for all its programs, and returns when it has: it succeeds, evaluated as
        at any end, and describe() says who has ended it. What steps have counted is pushed, and
        batches in hand do not count; the others finish the blocks that they have. Within
        evaluate() it comes after that; of a job that has ended it does nothing. Raises what
        ended the job, if it did not succeed."""
        if not self.ended:
            if self._training is None and not self._left:
                raise errors.NotNow(f"job {self.name} is not entered yet")
            self._ready().finish()

    # ---- rows of tables ------------------------------------------------------------------

    def fetch_rows(self, table: str, rows: Any) -> numpy.ndarray:
        """Rows of a table as they are on the shards now: float32 of shape (len(rows), columns).

        >>> values = job.fetch_rows("words", [7, 12, 7])         # doctest: +SKIP
        """
        return self._ready().rows.fetch(table, rows)

    def push_rows(self, table: str, rows: Any, gradients: Any) -> None:
        """Gradients of rows, of shape (len(rows), columns), which the next step() pushes; a row
        named twice gets the sum. Embedding does this by itself."""
        self._ready().rows.push(table, rows, gradients)

    # ---- facts ---------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """As given to join(): "gpt"."""
        return self._settings.name

    @property
    def id(self) -> str:
        """Of the job on the cluster: "gpt-1". Raises NotNow before it is entered."""
        if self._training is None:
            raise errors.NotNow(f"job {self.name} is not entered yet")
        return str(self._training.replica.job_id)

    @property
    def ended(self) -> bool:
        """All its epochs are done, or another end was reached."""
        return self._training is not None and self._training.ended

    @property
    def epoch(self) -> int:
        """Of the newest batch, from 0."""
        return 0 if self._training is None else self._training.epoch

    @property
    def gradients(self) -> Dict[str, Any]:
        """Views of the gradient by name, to be written to, of a model that is a dict."""
        return dict(self._binding.gradients)

    @property
    def stats(self) -> Stats:
        """As of the last call; str() of it is one line."""
        return Stats.of(self._training, self._binding, self._layout)

    def export(self, path: str, best: bool = False, whole: bool = True) -> str:
        """Writes the job's model to `path`, .npz or .safetensors, from the shards; also while
        it trains. `best`: the state that evaluated best (Checkpoint(keep_best=...)). `whole`:
        with what stats.local names, as it is here, and all names of tied tensors, so that it
        loads with strict=True; else the job's tensors alone. Returns the path."""
        from .client import Client
        Client(self._address()).export(self.id, path, best=best)
        if whole:
            model_file.complete(path, self._layout, self._model)
        return path

    def state_dict(self) -> Dict[str, Any]:
        """What of the training is this process's own: the states of Local's optimizer, scaler
        and scheduler. The job's (parameters, shard optimizers, position in the data) are in
        its checkpoints; `job`, `epoch` and `steps` say which. For torch.save or pickle."""
        return {"job": self.id if self._training is not None else None, "epoch": self.epoch,
                "steps": self.stats.steps,
                "local": {} if self._local is None else self._local.state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes back what state_dict() gave. The data go on where the job is."""
        if self._local is not None:
            self._local.load_state(dict(state.get("local", {})))

    def __repr__(self) -> str:
        state = ("ended" if self.ended else "left" if self._left else
                 "not entered" if self._training is None else "entered")
        return f"<monsoon.Job {self.name!r}, {state}>"
