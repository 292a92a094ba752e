"""A table of idioms of PyTorch users, and the loops that run each: with plain torch, which is
the truth, and as a program of a job. The tables stand in idioms_*.py.
"""

import dataclasses
import os
import re
import signal
import typing
import warnings

import torch
import torch.nn.functional as F
from torch import nn

import monsoon as ms

AGREES = "agrees"
STEPS = 9  # a multiple of Local's
EVERY = 3
X = torch.randn(40, 6, generator=torch.Generator().manual_seed(1))
Y = torch.randint(0, 2, (40,), generator=torch.Generator().manual_seed(2))
IDIOMS = {}


def make():
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 2))


@dataclasses.dataclass
class Idiom:
    """`before` and `after` are called with the loop and the step's number, from 0, before and
    after step(); `loop` in the place of it all. `shards` and `local`: "agrees", a regular
    expression of the error, with the tensor's name, or None: of no use there.
    """

    group: str
    name: str
    model: typing.Callable = make
    before: typing.Optional[typing.Callable] = None
    after: typing.Optional[typing.Callable] = None
    loop: typing.Optional[typing.Callable] = None
    shards: typing.Optional[str] = AGREES
    local: typing.Optional[str] = AGREES
    tolerance: float = 2e-6
    groups: typing.Optional[typing.Callable] = None  # of a model, as torch.optim takes them
    settings: dict = dataclasses.field(default_factory=dict)  # of join()
    truth: typing.Optional[typing.Callable] = None  # where it is not this idiom in plain torch
    needs: bool = True


def idiom(group, name, **parts):
    assert name not in IDIOMS, name
    IDIOMS[name] = Idiom(group, name, **parts)


def at(number, action):
    """`action(model)` at one step."""
    return lambda loop, n: action(loop.model) if n == number else None


def each(action):
    """`action(parameter)` of all parameters, at each step."""
    def run(loop, n):
        for parameter in loop.model.parameters():
            action(parameter)
    return run


class Loop:
    """One training: `way` is "shards" or "local", or plain torch for either (`alone`)."""

    def __init__(self, idiom_, way, alone=False):
        torch.manual_seed(5)
        self.idiom, self.way, self.job = idiom_, way, None
        self.model = idiom_.model()
        self.optimizer = None
        if way != "shards" or alone:
            self.optimizer = torch.optim.SGD(
                [p for p in self.model.parameters() if p.requires_grad or
                 idiom_.settings.get("frozen")] if idiom_.groups is None else
                idiom_.groups(self.model), lr=0.1, momentum=0.9)
        self.kept = {}

    def loss(self, n, model=None):
        model = self.model if model is None else model
        batch = [(4 * n + i) % len(X) for i in range(4)]
        dtype = next(p.dtype for p in self.model.parameters())
        return F.cross_entropy(model(X[batch].to(dtype)).float(), Y[batch])

    def step(self, **how):
        if self.job is not None:
            self.job.step(**how)
            return
        if not how.get("optimizer_stepped"):
            self.optimizer.step()
            # Local calls it so; for shards a gradient of zeros is none.
            self.optimizer.zero_grad(*([True] if self.way == "shards" else []))

    def steps(self, count=STEPS):
        if self.job is None:
            yield from range(count)
            return
        for n, _ in enumerate(self.job.blocks()):
            yield n
            if n + 1 == count:
                return

    def train(self):
        if self.idiom.loop is not None:
            self.idiom.loop(self)
            return
        for n in self.steps():
            self.loss(n).backward()
            if self.idiom.before is not None:
                self.idiom.before(self, n)
            self.step()
            if self.idiom.after is not None and n + 1 < STEPS:
                self.idiom.after(self, n)

    def values(self):
        return {name: tensor.detach().double().clone()
                for name, tensor in self.model.state_dict().items()}


def plain(idiom_, way="shards"):
    loop = Loop(idiom_, way, alone=True)
    loop.train()
    return loop.values()


def run(idiom_, way, address):
    """The values that a program of a job ends with; and what it holds of the job must be those."""
    loop = Loop(idiom_, way)
    groups = None if idiom_.groups is None else idiom_.groups(loop.model)
    name = re.sub(r"\W", "_", f"{idiom_.name}-{way}")[:60]
    wrapped = idiom_.settings.get("wrap", lambda model: model)(loop.model)
    settings = {key: value for key, value in idiom_.settings.items() if key != "wrap"}
    if way == "local":
        settings.pop("in_place", None)
    with ms.join(address, job=name, model=wrapped, examples=1000, batch=4, epochs=100,
                 optimizer=ms.Momentum(0.1, 0.9, groups=groups) if way == "shards" else
                 ms.Local(loop.optimizer, every=EVERY), overlap=False, **settings) as job:
        loop.job = job
        try:
            loop.train()
            check_the_job_has_it(loop, job)
        finally:
            # Leaving a job that goes on waits for its pushes to be durable.
            os.kill(job.stats.sidecar_pid, signal.SIGKILL)
    return loop.values()


def check_the_job_has_it(loop, job):
    """All that trains is in the layout, under the name of the state_dict; and with the values
    that landed last, which an export would have."""
    layout, replica = job._layout, job._training.replica
    entries = {name: (entry, offset) for entry, offset in zip(layout.entries, replica.offsets)
               for name in [entry.name, *entry.aliases]}
    for name, tensor in loop.model.named_parameters():
        name = name.replace("_orig_mod.", "")
        if name not in entries:
            assert not tensor.requires_grad, f"{name} trains, and the job does not have it"
            continue
        entry, offset = entries[name]
        held = torch.from_numpy(replica.parameters[offset:offset + entry.size])
        assert torch.allclose(held.double(), tensor.detach().reshape(-1).double(), atol=1e-2), name


def outcome(idiom_, way, address):
    """What came of it, in words that begin with "agrees", "differs", "raises" or "skipped"."""
    if not idiom_.needs:
        return f"skipped: torch {torch.__version__} does not have it"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = run(idiom_, way, address)
        except ms.MonsoonError as error:
            return f"raises {type(error).__name__}: {error}"
        except Exception as error:
            return both_raise(idiom_, way, error)
    truth = plain(idiom_, way) if idiom_.truth is None else idiom_.truth(idiom_)
    if found.keys() != truth.keys():
        return f"differs in names: {sorted(found.keys() ^ truth.keys())}"
    far = {name: (found[name] - value).abs().max().item() for name, value in truth.items()
           if not torch.allclose(found[name], value, rtol=0, atol=idiom_.tolerance)}
    return f"differs by {far}" if far else AGREES


def both_raise(idiom_, way, error):
    """Plain torch raises the same; shapes and versions may differ."""
    try:
        plain(idiom_, way)
    except type(error) as own:
        if str(own)[:60] == str(error)[:60]:
            return f"raises as torch does: {type(own).__name__}: {own}"
    return f"differs: {type(error).__name__}: {error}"


def cases():
    return [(name, way) for name, each_ in IDIOMS.items() for way in ("shards", "local")
            if getattr(each_, way) is not None]
