"""Idioms in which the program itself writes to the model: in place, by states, by averages."""

import copy
import io
import pickle

import torch
from torch import nn
from torch.optim import swa_utils

from idioms import Idiom, at, each, idiom, plain

CHANGED = r"0\.weight.* changed by the program"


# ---- in place ------------------------------------------------------------------------------
def without_grad(change):
    def run(parameter):
        with torch.no_grad():
            change(parameter)
    return run


def words(limit):
    def model():
        torch.manual_seed(7)
        return Words(limit)
    return model


class Words(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.words, self.out = nn.Embedding(9, 4, max_norm=limit), nn.Linear(4, 2)

    def forward(self, x):
        return self.out(self.words((x.abs() * 3).long().clamp(0, 8)).mean(1))


def own_step(loop, n):
    with torch.no_grad():
        for parameter in loop.model.parameters():
            parameter -= 0.01 * parameter.grad


def numpy_write(parameter):
    parameter.detach().numpy()[...] *= 0.9


def own_optimizer(loop):
    other = torch.optim.SGD(loop.model.parameters(), lr=0.05)
    for n in loop.steps():
        loop.loss(n).backward()
        other.step()
        loop.step()


def thrown_away(idiom_):
    """Gradients are of what the program wrote, and move what had landed."""
    def back(loop, n):
        for parameter, value in zip(loop.model.parameters(), loop.kept):
            parameter.data.copy_(value)

    def clamp(loop, n):
        loop.kept = [p.detach().clone() for p in loop.model.parameters()]
        idiom_.after(loop, n)

    return plain(Idiom("", "", before=back, after=clamp))


idiom("in place", "data.clamp_ after each step", after=each(lambda p: p.data.clamp_(-0.2, 0.2)),
      shards=CHANGED)
idiom("in place", "clamp_ under no_grad",
      after=each(without_grad(lambda p: p.clamp_(-0.2, 0.2))), shards=CHANGED)
idiom("in place", "clamp_ that changes nothing",
      after=each(without_grad(lambda p: p.clamp_(-100, 100))))
idiom("in place", "clamps thrown away aloud", after=each(lambda p: p.data.clamp_(-0.2, 0.2)),
      settings={"in_place": "ignore"}, truth=thrown_away, local=None)
idiom("in place", "Embedding(max_norm)", model=words(0.5), shards=r"words\.weight was changed")
idiom("in place", "Embedding(max_norm) that holds", model=words(1e3))
idiom("in place", "decay by hand", after=each(lambda p: p.data.mul_(0.99)), shards=CHANGED)
idiom("in place", "a row normalised", after=at(
    3, lambda m: m[0].weight.data[1].div_(m[0].weight.data[1].norm())),
      shards=r"0\.weight was changed")
idiom("in place", "weights masked after each step", shards=CHANGED,
      after=each(lambda p: p.data.mul_(p.data.abs() > 0.05)))
idiom("in place", "nn.init in the middle", after=at(3, lambda m: nn.init.zeros_(m[4].bias)),
      shards=r"4\.bias was changed")
idiom("in place", "written through NumPy", after=each(numpy_write), shards=CHANGED)
idiom("in place", "a step of one's own", before=own_step, shards=CHANGED)
idiom("in place", "a torch optimizer beside the shards'", loop=own_optimizer, shards=CHANGED,
      local=None)


def roll_back(loop, n):
    if n == 2:
        loop.kept = copy.deepcopy(loop.model.state_dict())
    if n == 5:
        loop.model.load_state_dict(loop.kept)


def through_a_file(loop, n):
    if n == 4:
        file = io.BytesIO()
        torch.save(loop.model.state_dict(), file)
        file.seek(0)
        loop.model.load_state_dict(torch.load(file))


def file_of_the_model(loop, n):
    if n == 4:
        other = pickle.loads(pickle.dumps(loop.model))
        assert torch.equal(other[0].weight, loop.model[0].weight)
        for copied in (other, copy.deepcopy(loop.model)):
            with torch.no_grad():
                copied[0].weight.zero_()


def old_state(loop, n):
    """load_state_dict() of a state that is views of the same memory."""
    if n == 2:
        loop.kept = loop.model.state_dict()
    if n == 5:
        loop.model.load_state_dict(loop.kept)


idiom("states", "load_state_dict of an older state", after=roll_back, shards=CHANGED)
idiom("states", "load_state_dict of the same values", after=through_a_file)
idiom("states", "load_state_dict of views", after=old_state)
idiom("states", "pickle and deepcopy", after=file_of_the_model)


# ---- averages ------------------------------------------------------------------------------
def averaged(loop):
    average = swa_utils.AveragedModel(loop.model)
    for n in loop.steps():
        loop.loss(n).backward()
        loop.step()
        average.update_parameters(loop.model)
    loop.values = lambda: {name: tensor.detach().double()
                           for name, tensor in average.state_dict().items()}


def swapped(back, way):
    """An average's values in the model's place for a look; `back`: and out again."""
    def run(loop, n):
        if n not in (2, 5):
            return
        parameters = list(loop.model.parameters())
        average = [0.9 * p.detach() for p in parameters]
        if way == "pointers":
            kept = [p.data for p in parameters]
            for p, value in zip(parameters, average):
                p.data = value
        else:
            kept = [p.detach().clone() for p in parameters]
            for p, value in zip(parameters, average):
                p.data.copy_(value)
        with torch.no_grad():
            loop.loss(n)
        for p, value in zip(parameters, kept):
            if back and way == "pointers":
                p.data = value
            elif back:
                p.data.copy_(value)
    return run


def through_state(loop, n):
    """state_dict() is no copy: what is written to it is written to the model."""
    state = loop.model.state_dict()
    kept = copy.deepcopy(state)
    for value in state.values():
        value.mul_(0.9)
    for name, value in state.items():
        value.copy_(kept[name])


for _way in ("pointers", "copies"):
    idiom("averages", f"EMA in and out by {_way}", after=swapped(True, _way))
    idiom("averages", f"EMA in for good by {_way}", after=swapped(False, _way), shards=CHANGED)
idiom("averages", "AveragedModel", loop=averaged)
idiom("averages", "an average through views of the state", after=through_state)
