"""Idioms of parameter groups: torch's lists, as recipes make them."""

from idioms import idiom


def by_dimensions(model):
    """Of nanoGPT and its like: matrices decay, the rest does not."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    return [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": 0.1},
            {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}]


def by_names(model):
    """Of BERT recipes."""
    no_decay = ("bias", "LayerNorm.weight")
    return [{"params": [p for n, p in model.named_parameters() if not n.endswith(no_decay)],
             "weight_decay": 0.01},
            {"params": [p for n, p in model.named_parameters() if n.endswith(no_decay)],
             "weight_decay": 0.0}]


def layer_wise(model):
    return [{"params": model[2 * i].parameters(), "lr": 0.1 * 0.5 ** (2 - i)} for i in range(3)]


def slow_body(model):
    return [{"params": [*model[0].parameters(), *model[2].parameters()], "lr": 0.01},
            {"params": model[4].parameters()}]


def still(model):
    return [{"params": model[0].parameters(), "lr": 0.0},
            {"params": [*model[2].parameters(), *model[4].parameters()]}]


def head_alone(model):
    return [{"params": model[4].parameters()}]


def other_momentum(model):
    return [{"params": model[0].parameters(), "momentum": 0.5},
            {"params": [*model[2].parameters(), *model[4].parameters()], "weight_decay": 0.2}]


def of_an_optimizer(model):
    import torch
    return torch.optim.SGD(slow_body(model), lr=0.1, momentum=0.9).param_groups


def nesterov(model):
    return [{"params": model[0].parameters(), "nesterov": True},
            {"params": [*model[2].parameters(), *model[4].parameters()]}]


idiom("groups", "decay by dimensions", groups=by_dimensions)
idiom("groups", "decay by names", groups=by_names)
idiom("groups", "rates by layers", groups=layer_wise)
idiom("groups", "a slow body", groups=slow_body)
idiom("groups", "a group with a rate of 0", groups=still)
idiom("groups", "a group for the head alone", groups=head_alone)
idiom("groups", "a group's own momentum", groups=other_momentum)
idiom("groups", "the groups of an optimizer", groups=of_an_optimizer)
idiom("groups", "a group with nesterov", groups=nesterov, shards=r"nesterov=True")
