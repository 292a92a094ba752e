"""Idioms that freeze, replace, add, tie, wrap or rewrite parts of a model."""

import copy
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils import parametrize, prune

from idioms import X, at, idiom, make

HAS_ASSIGN = "assign" in nn.Module.load_state_dict.__code__.co_varnames


def set_part(**changed):
    """Called with a model: puts parts in the places of others."""
    def run(model):
        for name, part in changed.items():
            setattr(model, name, part())
    return run


# ---- frozen and thawed ---------------------------------------------------------------------
def frozen(*layers, only=("weight", "bias")):
    def model():
        made = make()
        for layer in layers:
            for name in only:
                getattr(made[layer], name).requires_grad_(False)
        return made
    return model


def freeze(layer, needs=False):
    return lambda model: model[layer].requires_grad_(needs)


def freeze_and_thaw(loop, n):
    if n in (2, 5):
        loop.model[0].requires_grad_(n == 5)


def in_turns(loop, n):
    for layer in (0, 2):
        loop.model[layer].requires_grad_((n + layer // 2) % 2 == 0)


class Rare(nn.Module):
    """A layer that is used at every fourth step."""

    def __init__(self):
        super().__init__()
        self.often, self.rare, self.count = nn.Linear(6, 2), nn.Linear(6, 2), 0

    def forward(self, x):
        self.count += 1
        return self.often(x) + (self.rare(x) if self.count % 4 == 0 else 0)


idiom("freezing", "frozen from the start", model=frozen(0))
idiom("freezing", "all but biases frozen", model=frozen(0, 2, 4, only=("weight",)))
idiom("freezing", "frozen in the middle", after=at(2, freeze(0)))
idiom("freezing", "frozen between backward and step", before=at(2, freeze(0)))
idiom("freezing", "frozen, then thawed", after=freeze_and_thaw)
idiom("freezing", "frozen in turns", after=in_turns)
idiom("freezing", "thawed", model=frozen(0), after=at(2, freeze(0, True)),
      shards=r"0\.weight, 0\.bias needed no gradient at join", local=r'frozen="shards"')
idiom("freezing", "thawed, and the shards have it", model=frozen(0), after=at(2, freeze(0, True)),
      settings={"frozen": "shards"})
idiom("freezing", "a layer that is used at times", model=Rare)


# ---- replaced, added, taken away -----------------------------------------------------------
def assign_state(model):
    model.load_state_dict(copy.deepcopy(model.state_dict()), assign=True)


def new_parameter(model):
    model[2].weight = nn.Parameter(model[2].weight.detach().clone())


class Growing(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.more = nn.Linear(6, 2), nn.ParameterList()

    def forward(self, x):
        out = self.first(x)
        for weight in self.more:
            out = out + x @ weight
        return out

    def grow(self):
        self.more.append(nn.Parameter(torch.zeros(6, 2)))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.out = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 2)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.out(self.b(torch.tanh(self.a(x))))


def untie(model):
    model.b.weight = nn.Parameter(model.a.weight.detach().clone())


idiom("replaced", "load_state_dict(assign=True)", after=at(2, assign_state), needs=HAS_ASSIGN,
      shards=r"0\.weight.*another Parameter", local=r"0\.weight.*another Parameter")
idiom("replaced", "a new Parameter", after=at(2, new_parameter),
      shards=r"2\.weight: another Parameter", local=r"2\.weight: another Parameter")
idiom("replaced", "a new head", after=at(2, set_part(**{"4": lambda: nn.Linear(5, 2)})),
      shards=r"4\.weight, 4\.bias: another", local=r"4\.weight, 4\.bias: another")
idiom("replaced", "a head of other names", after=at(2, set_part(head=lambda: nn.Linear(2, 2))),
      shards=r"head\.weight, head\.bias came after", local=r"head\.weight, head\.bias came after")
idiom("replaced", "a layer taken away", after=at(2, set_part(**{"2": nn.Identity})),
      shards=r"2\.weight, 2\.bias went after", local=r"2\.weight, 2\.bias went after")
idiom("replaced", "a list that grows", model=Growing, after=at(2, lambda m: m.grow()),
      shards=r"more\.0 came after", local=r"more\.0 came after")
idiom("replaced", "a module without parameters", after=at(2, set_part(**{"1": nn.ReLU})))
idiom("replaced", "a frozen adapter", after=at(
    2, set_part(extra=lambda: nn.Linear(2, 2, bias=False).requires_grad_(False))))
idiom("tied", "tied from the start", model=Tied)
idiom("tied", "untied", model=Tied, after=at(2, untie),
      shards=r"b\.weight no longer", local=r"b\.weight no longer")
idiom("tied", "tied later", model=lambda: nn.Sequential(
    nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 2)),
      after=at(2, lambda m: setattr(m[1], "weight", m[0].weight)),
      shards=r"1\.weight: another", local=r"1\.weight: another")


# ---- weights that are computed -------------------------------------------------------------
class Symmetric(nn.Module):
    def forward(self, weight):
        return weight.triu() + weight.triu(1).t()


def on_layer(change, layer=2):
    def model():
        made = make()
        change(made[layer])
        return made
    return model


def parametrized(layer):
    parametrize.register_parametrization(layer, "weight", Symmetric())


def pruned(layer):
    prune.l1_unstructured(layer, "weight", 0.5)


def normed(layer):
    nn.utils.weight_norm(layer)


for said, change in (("weight_norm", normed), ("a parametrization", parametrized),
                     ("pruning", pruned)):
    idiom("computed", said, model=on_layer(change))
    idiom("computed", f"{said} after join", after=at(2, lambda m, change=change: change(m[2])),
          shards=r"2\.weight went after|2\..*came after",
          local=r"2\.weight went after|2\..*came after")
idiom("computed", "spectral_norm", model=on_layer(nn.utils.spectral_norm))
idiom("computed", "spectral_norm as a parametrization",
      model=on_layer(nn.utils.parametrizations.spectral_norm))
idiom("computed", "pruning made permanent", model=on_layer(pruned),
      after=at(2, lambda m: prune.remove(m[2], "weight")),
      shards=r"2\.weight_orig went", local=r"2\.weight_orig went")
idiom("computed", "weight_norm taken off", model=on_layer(normed),
      after=at(2, lambda m: nn.utils.remove_weight_norm(m[2])),
      shards=r"2\.weight_g, 2\.weight_v went", local=r"2\.weight_g, 2\.weight_v went")


# ---- buffers -------------------------------------------------------------------------------
def batch_norm(**how):
    return lambda: nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5, **how), nn.Linear(5, 2))


class Buffered(nn.Module):
    """kind: "new" puts another tensor in the buffer's place, "late" makes it when it is used."""

    def __init__(self, kind):
        super().__init__()
        self.kind, self.layer = kind, nn.Linear(6, 2)
        if kind == "new":
            self.register_buffer("scale", torch.ones(6))

    def forward(self, x):
        if self.kind == "new":
            self.scale = 0.9 * self.scale + 0.1 * x.detach().abs().mean(0)
        elif not hasattr(self, "scale"):
            self.register_buffer("scale", torch.full((6,), 0.5))
        return self.layer(x * self.scale)


def evaluate_between(loop, n):
    loop.model.eval()
    with torch.no_grad():
        loop.loss(n)
    loop.model.train()


def lazy():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = nn.Sequential(nn.LazyLinear(5), nn.Tanh(), nn.LazyLinear(2))
    made(X)
    return made


idiom("buffers", "BatchNorm", model=batch_norm())
idiom("buffers", "BatchNorm with a cumulative mean", model=batch_norm(momentum=None))
idiom("buffers", "BatchNorm reset", model=batch_norm(),
      after=at(4, lambda m: m[1].reset_running_stats()))
idiom("buffers", "BatchNorm double and float", model=batch_norm(),
      after=at(4, lambda m: m.double().float()))
idiom("buffers", "eval in between", model=batch_norm(), after=evaluate_between)
idiom("buffers", "swa_utils.update_bn", model=batch_norm(), after=at(
    4, lambda m: torch.optim.swa_utils.update_bn([X[:8], X[8:16]], m)))
idiom("buffers", "another tensor each time", model=lambda: Buffered("new"))
idiom("buffers", "made when it is used", model=lambda: Buffered("late"))
idiom("buffers", "taken away", model=batch_norm(),
      after=at(2, lambda m: setattr(m[1], "running_mean", None)),
      shards=r"buffer 1\.running_mean is gone", local=r"buffer 1\.running_mean is gone")
idiom("buffers", "lazy layers after a dry run", model=lazy)


# ---- wraps ---------------------------------------------------------------------------------
class OptimizedModule(nn.Module):
    """What torch.compile() makes, by its names."""

    def __init__(self, module):
        super().__init__()
        self._orig_mod = module

    def forward(self, x):
        return self._orig_mod(x)


def inner_compiled():
    made = make()
    made[2] = OptimizedModule(made[2])
    return made


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells, self.out = nn.LSTM(2, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, x):
        return self.out(self.cells(x.view(-1, 3, 2))[0][:, -1])


def through_ddp(**how):
    def run(loop):
        if not dist.is_initialized():
            dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        wrapped = nn.parallel.DistributedDataParallel(loop.model, **how)
        for n in loop.steps():
            loop.loss(n, wrapped).backward()
            loop.step()
    return run


def flatten(loop, n):
    loop.model.cells.flatten_parameters()


idiom("wraps", "DataParallel", settings={"wrap": nn.DataParallel})
idiom("wraps", "compiled, by its names", settings={"wrap": OptimizedModule})
idiom("wraps", "compiled and parallel", settings={
    "wrap": lambda m: nn.DataParallel(OptimizedModule(m))})
idiom("wraps", "compiled", settings={"wrap": lambda m: torch.compile(m, backend="eager")},
      needs=hasattr(torch, "compile"))
idiom("wraps", "DDP within the block", loop=through_ddp())
idiom("wraps", "DDP whose gradients are its buckets", loop=through_ddp(gradient_as_bucket_view=True))
idiom("wraps", "a layer compiled", model=inner_compiled)
idiom("wraps", "scripted", model=lambda: torch.jit.script(make()), tolerance=1e-5)
idiom("wraps", "traced", model=lambda: torch.jit.trace(make(), X[:4]), tolerance=1e-5)
idiom("wraps", "an LSTM's flatten_parameters", model=Recurrent, before=flatten)
idiom("wraps", "sparse embedding", model=lambda: nn.Sequential(
    nn.Embedding(9, 2, sparse=True), nn.Flatten()), shards=r"0\.weight would have sparse",
      local=r"0\.weight would have sparse")
