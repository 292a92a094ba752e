"""join(): a model, an optimizer and a name become a Job."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Sequence, Sized, Tuple

from . import _ended, layout as layouts
from .client import Client
from .errors import InvalidArgument
from .evaluation import Evaluate, checked
from .job import Job
from .local import Local, Optimizer
from .membership import become_member
from .replica import Replica
from .schedules import Plateau
from .settings import Checkpoint, EarlyStop, Settings
from .tables import Table, text_of


def join(coordinator: Optional[str], job: str, model: Any, optimizer: Optimizer, *,
         epochs: Optional[float] = None, batch: Optional[int] = None,
         examples: Optional[int] = None, data: Optional[Sized] = None, seed: int = 0,
         max_steps: Optional[int] = None, max_seconds: Optional[float] = None,
         target_accuracy: Optional[float] = None, early_stop: Optional[EarlyStop] = None,
         plateau: Optional[Plateau] = None, n_fetch: Optional[int] = None,
         n_push: Optional[int] = None, overlap: bool = True, push_format: str = "float32",
         fetch_format: str = "float32", top_k_share: Optional[float] = None,
         residual_decay: Optional[float] = None, staleness_bound: Optional[int] = None,
         drop_older: bool = False, evaluate: Optional[Evaluate] = None,
         evaluate_every: Optional[float] = None, checkpoint: Optional[Checkpoint] = None,
         divergence: Optional[str] = None, block_examples: Optional[int] = None,
         programs: Optional[int] = None, tables: Sequence[Table] = (), group: Any = None,
         frozen: str = "local", in_place: str = "refuse", create: bool = True,
         on_ended: str = "load", token: Optional[str] = None, log_file: Optional[str] = None,
         replay_window: Optional[int] = None, connect_timeout_s: float = 30.0) -> Job:
    """Takes part in a job, which the first program of its name makes.

    The job's settings are its first program's; one whose settings, names or shapes differ gets
    SettingsDiffer with the first difference. Nothing is connected before `with job:` (see Job).

    coordinator: "host:port"; None starts a cluster of its own on this machine and joins it.
    job: name, 1 to 64 letters, digits, '_' and '-'. "gpt" is the newest job of that name if
      it runs, else a new one; "gpt-3" is that one.
    model: a torch module, or a dict of names to arrays (NumPy, JAX). Its initial values are
      the job's, if the job begins with this program; else it gets the job's.
    optimizer: of the shards (SGD and those beside it in monsoon.optimizers), or Local(...).
    epochs, max_steps (of all programs), max_seconds, target_accuracy (in (0, 1], needs evaluate),
      early_stop (EarlyStop(patience=5)): the job ends at the first of those that are given; at
      least one is needed, but for steps(), which has no epochs.
    plateau: Plateau(factor=0.5, patience=2): the shards' rate falls where the test figure stays.
    batch: samples of a step. examples: of them all, or `data`, whose len() it is. Both may be given
      to blocks() instead. seed: of the data's order.
    n_fetch, n_push: steps between two fetches, and between two pushes of the gradients' sum.
    overlap: communication goes on while the next gradient is computed; False: in turn.
    push_format: float32, bfloat16, float16, int8, int4, top_k or top_k_2bit (these two then
      top_k_share of the values); fetch_format: float32 to int8. What a format leaves out is added
      to the next gradient; of top_k residual_decay times that (unset: 1).
    staleness_bound: whoever has made so many more pushes than the slowest program, waits in step().
      drop_older: instead a shard leaves out gradients that so many others have overtaken.
    evaluate: evaluate(model) -> dict of figures ("loss", "accuracy" and any other), or the
      loss alone. Called within step() of one program, with the model in eval mode and under
      no_grad. evaluate_every: epochs between two; unset: at the end.
    checkpoint, divergence ("reject", "skip", "halt"), block_examples: as in proto/job.proto.
    programs: how many are meant to train at once; with Local(...) and no outer optimizer a
      difference counts 1 / programs. Unset: 1, and the second gets a warning that they add up.
    tables: Table(...)s beside the model, for job.fetch_rows() and push_rows(); a module's
      Embeddings are found. A job with tables pushes gradients: not with Local or group.
    group: a process group of torch.distributed (gloo) that is one replica: rank 0 joins.
    frozen: "local": parameters of a module that need no gradient stay in this process. "shards":
      they are the job's, as if they had no gradient in any step, and may be thawed later.
    in_place: with an optimizer of the shards, what the program itself writes to parameters
      (clamp_(), max_norm, load_state_dict()) would be thrown away by the next landing. "refuse":
      it gets ModelChanged, with their names. "ignore": it is.
    create: False raises JobNotFound where there is none.
    on_ended: what follows where the newest job of this name has ended before this program came.
      "load": its model is loaded, if it has succeeded, with a line on stderr; blocks() and
      epochs() then give nothing, and export() writes that job's. "new": a new job. "raise":
      JobEnded. After one that failed or was cancelled "load" makes a new one.
    token: what `monsoon token create --role=worker` has printed, for a cluster on other machines:
      this user joins with it where he has not yet, as `monsoon join` does. Unset:
      $MONSOON_TOKEN, and without it whoever this user is in the cluster already.
    replay_window: bytes of pushes that are kept until they are on the shards' disks; None: a quarter
      of the free memory, at most 1 GiB, but two pushes. With less each waits for checkpoints.
    log_file: the helper process's log; None: warnings go to stderr.

    Raises InvalidArgument and UnsupportedTensor; all else comes from the block.

    >>> import monsoon as ms, torch; model = torch.nn.Linear(4, 2)
    >>> ms.join("127.0.0.1:2221", job="gpt", model=model, epochs=3, optimizer=ms.Adagrad(0.03))
    <monsoon.Job 'gpt', not entered>
    """
    if data is not None:
        if examples is not None and examples != len(data):
            raise InvalidArgument(f"examples is {examples}, but data has {len(data)}")
        examples = len(data)
    settings = Settings(
        name=job, optimizer=optimizer, epochs=epochs, max_steps=max_steps, programs=programs,
        max_seconds=max_seconds, target_accuracy=target_accuracy, seed=seed, n_fetch=n_fetch,
        n_push=n_push, overlap=overlap, push_format=push_format, fetch_format=fetch_format,
        top_k_share=top_k_share, residual_decay=residual_decay, staleness_bound=staleness_bound,
        drop_older=drop_older, evaluates=evaluate is not None, evaluate_every=evaluate_every,
        checkpoint=checkpoint, divergence=divergence, block_examples=block_examples,
        early_stop=early_stop, plateau=plateau)
    settings.check()
    _ended.check(on_ended)
    local_steps = isinstance(optimizer, Local)
    _check_words(frozen, in_place, local_steps, replay_window)
    model, layout, binding = _bound(model, frozen == "shards", optimizer, in_place == "ignore", group)
    _add_tables(layout, tables, "Local" if local_steps else "group" if group is not None else "")
    address = _address(coordinator)

    replica = _replicas(address, layout, token, on_ended, create, {
        "log_file": log_file, "connect_timeout_s": connect_timeout_s,
        "replay_window": replay_window or 0,
        "halves": group is None and settings.travels_as("bfloat16") and layout.is_all("bfloat16")})
    return Job(settings, model, layout, binding, _connector(replica, group, layout), examples=examples,
               batch=batch, evaluate=checked(evaluate, settings), address=address)


def _replicas(address: Callable[[], str], layout: layouts.Layout, token: Optional[str],
              on_ended: str, create: bool, options: Dict[str, Any]) -> Callable[[str], Any]:
    """What enters the job of a text as one replica, with these further options of Replica."""
    def replica(text: str) -> Any:
        become_member(address(), token)
        return _ended.enter(
            lambda makes: Replica(address(), text, layout, create=makes, **options),
            lambda ended: Client(address()).load(ended), layout, create=create, on_ended=on_ended)

    return replica


def _add_tables(layout: layouts.Layout, tables: Sequence[Table], other: str) -> None:
    """`other`: what cannot be with tables."""
    layout.tables += tables
    layout.tables_text = text_of(layout.tables)
    if layout.tables and other:
        raise InvalidArgument("rows of tables are pushed as gradients, step by step: "
                              f"{other} cannot be with "
                              f"{', '.join(repr(table.name) for table in layout.tables)}")


def _connector(replica: Callable[[str], Any], group: Any, layout: layouts.Layout
               ) -> Callable[[str], Any]:
    """What enters the job of a text: this process alone, or rank 0 for its group."""
    if group is None:
        return replica
    from .group import GroupReplica
    return lambda text: GroupReplica(group, lambda: replica(text), layout.is_cut)


def _bound(model: Any, with_frozen: bool, optimizer: Optimizer, ignore: bool, group: Any) -> Any:
    """The model itself, its layout, to which the optimizer's groups are bound, and its binding."""
    local_steps = isinstance(optimizer, Local)
    if layouts.is_torch_module(model):
        from .binding import TorchBinding
        model = layouts.unwrapped(model)
        layout = layouts.of_module(model, with_frozen)
        optimizer.bind(layout)
        if layout.is_cut:
            if group is None:
                raise InvalidArgument("the model is cut over the ranks of a process group "
                                      "(fully_shard): give join() that group, or one of gloo of the "
                                      "same ranks, as group=")
            from .sharded import ShardedBinding
            return model, layout, ShardedBinding(model, layout, group)
        return model, layout, TorchBinding(model, layout, local_steps, ignore)
    if isinstance(model, dict):
        from .numpy_binding import NumpyBinding
        layout = layouts.of_arrays(model)
        optimizer.bind(layout)
        return model, layout, NumpyBinding(model, layout, local_steps, ignore)
    raise InvalidArgument(f"model is a {type(model).__name__}; give a torch module or a dict of "
                          "names to arrays")


def _check_words(frozen: str, in_place: str, local_steps: bool, window: Optional[int]) -> None:
    if window is not None and (not isinstance(window, int) or not 1 <= window < 1 << 63):
        raise InvalidArgument(f"replay_window is {window!r}; it must be a number of bytes, 1 or more")
    for name, word, words in (("frozen", frozen, ("local", "shards")),
                              ("in_place", in_place, ("refuse", "ignore"))):
        if word not in words:
            raise InvalidArgument(f"{name}={word!r}: there are {', '.join(words)}")
    if local_steps and in_place == "ignore":
        raise InvalidArgument("in_place='ignore' means nothing with Local(...), whose differences "
                              "have all changes of the program")


def _address(coordinator: Optional[str]) -> Callable[[], str]:
    """The coordinator's address; for None that of a cluster which the first call starts, and
    which lasts as long as this function is kept, at most as long as the process."""
    if coordinator is not None:
        named: str = coordinator
        return lambda: named
    from .cluster import LocalCluster
    own = []

    def start() -> str:
        if not own:
            own.append(LocalCluster(ps=1).start())
        return own[0].address

    return start
