"""Idioms of the loop: backward, accumulation, steps, and the program's own optimizer."""

import copy

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from idioms import F, X, Y, idiom, make


# ---- backward and steps --------------------------------------------------------------------
def twice(loop):
    for n in loop.steps():
        loss = loop.loss(n)
        loss.backward(retain_graph=True)
        (0.5 * loss).backward()
        loop.step()


def two_losses(loop):
    for n in loop.steps():
        loop.loss(n).backward()
        sum(p.pow(2).sum() for p in loop.model.parameters()).mul(0.01).backward()
        loop.step()


def accumulate(loop):
    for n in loop.steps():
        (loop.loss(n) / 3).backward()
        if n % 3 == 2:
            loop.step()


def penalty(loop):
    for n in loop.steps():
        x = X[4 * n % 40:4 * n % 40 + 4].clone().requires_grad_(True)
        out = F.cross_entropy(loop.model(x), Y[4 * n % 40:4 * n % 40 + 4])
        gradient, = torch.autograd.grad(out, x, create_graph=True)
        (out + gradient.pow(2).sum()).backward()
        loop.step()


def kept_graph(loop):
    kept = None
    for n in loop.steps():
        if kept is not None:
            kept.backward()
        kept = loop.loss(n)
        kept.backward(retain_graph=True)
        loop.step()


def checkpointed(loop):
    for n in loop.steps():
        x = X[4 * n % 40:4 * n % 40 + 4].clone().requires_grad_(True)
        hidden = checkpoint(loop.model[:3], x)
        F.cross_entropy(loop.model[3:](hidden), Y[4 * n % 40:4 * n % 40 + 4]).backward()
        loop.step()


def autocast(loop):
    for n in loop.steps():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loop.loss(n)
        loss.backward()
        loop.step()


class Dropped(nn.Sequential):
    def forward(self, x):
        torch.manual_seed(int(x.abs().sum() * 1000))
        return super().forward(F.dropout(x, 0.5))


def without_backward(loop):
    for n in loop.steps():
        if n % 2:
            loop.loss(n).backward()
        loop.step()


def look_ahead(loop):
    """Sharpness-aware: a step up and back within one step of the loop."""
    for n in loop.steps():
        loop.loss(n).backward()
        kept = [p.detach().clone() for p in loop.model.parameters()]
        with torch.no_grad():
            for p in loop.model.parameters():
                p.add_(0.05 * p.grad / (p.grad.norm() + 1e-12))
        loop.model.zero_grad()
        loop.loss(n).backward()
        with torch.no_grad():
            for p, value in zip(loop.model.parameters(), kept):
                p.copy_(value)
        loop.step()


idiom("steps", "backward twice through one graph", loop=twice)
idiom("steps", "two losses", loop=two_losses)
idiom("steps", "accumulation over three batches", loop=accumulate)
idiom("steps", "a penalty on the gradient", loop=penalty)
idiom("steps", "backward through a graph from before a step", loop=kept_graph,
      shards="raises as torch does: RuntimeError: .*inplace operation",
      local="raises as torch does: RuntimeError: .*inplace operation")
idiom("steps", "checkpoint()", loop=checkpointed)
idiom("steps", "autocast", loop=autocast, tolerance=1e-5)
idiom("steps", "dropout", model=lambda: Dropped(*make()))
idiom("steps", "steps without a backward", loop=without_backward)
idiom("steps", "sharpness-aware minimisation", loop=look_ahead)


# ---- the program's own optimizer -----------------------------------------------------------
def own_state(loop, n):
    if n == 4:
        loop.optimizer.load_state_dict(copy.deepcopy(loop.optimizer.state_dict()))


def own_rate(loop, n):
    for group in loop.optimizer.param_groups:
        group["lr"] *= 0.9


def stepped_outside(loop):
    for n in loop.steps():
        loop.loss(n).backward()
        loop.optimizer.step()
        loop.optimizer.zero_grad()
        loop.step(optimizer_stepped=True)


def closure(loop):
    other = torch.optim.LBFGS(loop.model.parameters(), lr=0.1, max_iter=2)
    for n in loop.steps():
        def run():
            other.zero_grad()
            loss = loop.loss(n)
            loss.backward()
            return loss
        other.step(run)
        loop.step(optimizer_stepped=True)


idiom("own optimizer", "load_state_dict", after=own_state, shards=None)
idiom("own optimizer", "a rate that falls", after=own_rate, shards=None)
idiom("own optimizer", "steps of the loop", loop=stepped_outside, shards=None)
idiom("own optimizer", "LBFGS with a closure", loop=closure, shards=None, tolerance=1e-4)
