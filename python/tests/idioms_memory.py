"""Idioms that give tensors and gradients other memory, or another type."""

import copy

import torch
from torch import nn

from idioms import at, each, idiom, make

ROUNDED = 2e-2  # a way through 16 bits


def convolutions():
    return nn.Sequential(nn.Unflatten(1, (2, 3, 1)), nn.Conv2d(2, 3, (2, 1)), nn.ReLU(),
                         nn.Conv2d(3, 4, (2, 1)), nn.Flatten(), nn.Linear(4, 2))


def of(kind):
    return lambda: make().to(kind)


def swap_data(model):
    a, b = model[0].bias, model[2].bias
    a.data, b.data = b.data, a.data


def each_data(change):
    def run(model):
        for parameter in model.parameters():
            parameter.data = change(parameter.data)
    return run


def through_vector(model):
    vector = nn.utils.parameters_to_vector(model.parameters())
    nn.utils.vector_to_parameters(vector.detach(), model.parameters())


def half_for_a_look(model):
    state = copy.deepcopy(model.state_dict())
    model.half().float()
    model.load_state_dict(state)


def with_new_parameters(model):
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        model.double().float()
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(False)


# ---- casts, moves and swaps ----------------------------------------------------------------
idiom("casts", "double and float", after=at(2, lambda m: m.double().float()))
idiom("casts", "double and float between backward and step",
      before=at(2, lambda m: m.double().float()))
idiom("casts", "one layer double and float", after=at(2, lambda m: m[2].double().float()))
idiom("casts", "double and float every time",
      after=lambda loop, n: loop.model.double().float())
idiom("casts", "bfloat16 and float", after=at(2, lambda m: m.bfloat16().float()),
      tolerance=ROUNDED)
idiom("casts", "half and float", after=at(2, lambda m: m.half().float()), tolerance=ROUNDED)
idiom("casts", "half for a look, then the state of before", after=at(2, half_for_a_look))
idiom("casts", "double from then on", after=at(2, lambda m: m.double()))
idiom("casts", "bfloat16 from then on", after=at(2, lambda m: m.bfloat16()), tolerance=5e-2)
idiom("casts", "double from the start", model=of(torch.float64))
idiom("casts", "bfloat16 from the start", model=of(torch.bfloat16), tolerance=5e-2)
idiom("casts", "channels_last", model=convolutions,
      after=at(2, lambda m: m.to(memory_format=torch.channels_last)))
idiom("casts", "channels_last from the start",
      model=lambda: convolutions().to(memory_format=torch.channels_last))
idiom("casts", "share_memory", after=at(2, lambda m: m.share_memory()))
idiom("casts", "share_memory from the start", model=lambda: make().share_memory())
idiom("casts", "to the CPU", after=at(2, lambda m: m.cpu()))
idiom("casts", "to CUDA and back", after=at(2, lambda m: m.cuda().cpu()),
      needs=torch.cuda.is_available())
idiom("casts", "data is a copy", after=at(2, each_data(lambda d: d.clone())))
idiom("casts", "data is transposed memory",
      after=at(2, each_data(lambda d: d.t().contiguous().t())))
idiom("casts", "data through one vector", after=at(2, through_vector))
idiom("casts", "data of two parameters change places", after=at(2, swap_data),
      shards=r"0\.bias, 2\.bias were changed")
idiom("casts", "data is double, the gradient is not",
      after=at(2, each_data(lambda d: d.double())))
idiom("casts", "data of another shape",
      after=at(2, lambda m: setattr(m[4].bias, "data", torch.zeros(1))),
      shards=r"4\.bias has shape \(1,\)", local="raises as torch does")
idiom("casts", "data turned in its own memory",
      after=at(2, lambda m: setattr(m[2].weight, "data", m[2].weight.data.t())),
      shards=r"2\.weight was changed")
idiom("casts", "double and float with new parameters", after=at(2, with_new_parameters),
      shards=r"0\.weight, .*another Parameter", local=r"0\.weight, .*another Parameter")


# ---- gradients -----------------------------------------------------------------------------
def scaled(parameter):
    parameter.grad.data = parameter.grad.data * 0.5


def set_elsewhere(parameter):
    parameter.grad.set_((parameter.grad * 0.5).detach())


def assigned(parameter):
    parameter.grad = parameter.grad * 0.5


def swap_gradients(model):
    a, b = model[0].bias, model[2].bias
    a.grad, b.grad = b.grad, a.grad


def share_gradients(model):
    model[0].bias.grad = model[2].bias.grad


def of_autograd_grad(loop):
    for n in loop.steps():
        parameters = list(loop.model.parameters())
        for parameter, gradient in zip(parameters, torch.autograd.grad(loop.loss(n), parameters)):
            parameter.grad = gradient
        loop.step()


def noise(loop, n):
    generator = torch.Generator().manual_seed(n)
    for parameter in loop.model.parameters():
        parameter.grad += 0.01 * torch.randn(parameter.shape, generator=generator)


def hooked():
    model = make()
    for parameter in model.parameters():
        parameter.register_hook(lambda gradient: gradient * 0.5)
    return model


def hooked_modules():
    model = make()
    model[2].register_full_backward_hook(lambda module, into, out: (into[0] * 0.5,))
    model[1].register_forward_hook(lambda module, args, out: out * 1.5)
    return model


def through_numpy(parameter):
    parameter.grad.numpy()[...] *= 0.5


idiom("gradients", "grad.data = grad.data * s", before=each(scaled))
idiom("gradients", "grad.data.mul_", before=each(lambda p: p.grad.data.mul_(0.5)))
idiom("gradients", "grad = grad * s", before=each(assigned))
idiom("gradients", "grad through NumPy", before=each(through_numpy))
idiom("gradients", "grad.set_ to other memory", before=each(set_elsewhere))
idiom("gradients", "grad.set_ to nothing", before=at(2, lambda m: m[0].bias.grad.set_()),
      shards=r"gradient of 0\.bias has shape \(0,\)", local=None)
idiom("gradients", "grad.data through 16 bits",
      before=each(lambda p: setattr(p.grad, "data", p.grad.data.half().float())))
idiom("gradients", "grad.t_ of a square", before=at(2, lambda m: m[2].weight.grad.t_()))
idiom("gradients", "gradients of two parameters change places", before=at(2, swap_gradients))
idiom("gradients", "one gradient for two parameters", before=at(2, share_gradients))
idiom("gradients", "grad = None for a layer",
      before=at(2, lambda m: setattr(m[2].weight, "grad", None)))
idiom("gradients", "torch.autograd.grad", loop=of_autograd_grad)
idiom("gradients", "noise on gradients", before=noise)
idiom("gradients", "a penalty's gradient added by hand",
      before=each(lambda p: p.grad.data.add_(0.01 * torch.sign(p.data))))
idiom("gradients", "zero where weights are small",
      before=each(lambda p: p.grad.masked_fill_(p.detach().abs() < 0.1, 0.0)))
idiom("gradients", "hooks of tensors", model=hooked)
idiom("gradients", "hooks of modules", model=hooked_modules)
idiom("gradients", "clip_grad_norm_",
      before=lambda loop, n: nn.utils.clip_grad_norm_(loop.model.parameters(), 0.1))
idiom("gradients", "clip_grad_value_",
      before=lambda loop, n: nn.utils.clip_grad_value_(loop.model.parameters(), 0.01))
idiom("gradients", "zero_grad to zeros before each backward",
      after=lambda loop, n: loop.model.zero_grad(set_to_none=False))
idiom("gradients", "zero_grad to none before each backward",
      after=lambda loop, n: loop.model.zero_grad(set_to_none=True))
