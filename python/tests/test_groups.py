"""Groups of parameters: what they say in the job file, and what they refuse."""

import warnings

import monsoon as ms
import pytest
from monsoon import layout as layouts


def bound(model, optimizer):
    """The `group`s of the job file, what is unset left out."""
    layout = (layouts.of_module(model) if layouts.is_torch_module(model)
              else layouts.of_arrays(model))
    optimizer.bind(layout)
    return [{name: value for name, value in group.items() if value is not None}
            for group in optimizer.text()["group"]]


def net():
    torch = pytest.importorskip("torch")
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3),
                               torch.nn.Linear(3, 2))


def arrays():
    numpy = pytest.importorskip("numpy")
    return {"embed": numpy.zeros((4, 2), "f"), "out.weight": numpy.zeros((2, 4), "f"),
            "out.bias": numpy.zeros(2, "f")}


def test_names_and_numbers():
    groups = [ms.Group("*.bias", weight_decay=0), ms.Group("embed", rate=1e-4, betas=(0.8, 0.9)),
              ms.Group("out.*", factor=0.5, eps=1e-6)]
    assert bound(arrays(), ms.AdamW(3e-4, groups=groups)) == [
        {"tensors": ["*.bias"], "weight_decay": 0.0},
        {"tensors": ["embed"], "rate": 1e-4, "beta1": 0.8, "beta2": 0.9},
        {"tensors": ["out.*"], "rate_factor": 0.5, "epsilon": 1e-6}]
    assert bound(arrays(), ms.SGD(1, groups=[ms.Group("embed", frozen=True)])) == [
        {"tensors": ["embed"], "frozen": True}]
    assert bound(arrays(), ms.SGD(1)) == []
    assert repr(ms.SGD(1, groups=[ms.Group("embed", frozen=True)])) == (
        "SGD(lr=1.0, groups=[Group('embed', frozen=True)])")


def test_modules_and_parameters_are_their_names():
    model = net()
    groups = [ms.Group(model[0], lr=0.5), ms.Group(model[2].weight, "1.*", weight_decay=0)]
    assert bound(model, ms.SGD(1, groups=groups)) == [
        {"tensors": ["0.weight", "0.bias"], "rate": 0.5},
        {"tensors": ["2.weight", "1.*"], "weight_decay": 0.0}]


def test_of_a_module_counts_what_no_earlier_group_has():
    model = net()
    groups = [ms.Group("*.bias", weight_decay=0), ms.Group(model[0], model[2], lr=0.5)]
    assert bound(model, ms.SGD(1, groups=groups)) == [
        {"tensors": ["*.bias"], "weight_decay": 0.0},
        {"tensors": ["0.weight", "2.weight"], "rate": 0.5}]
    groups = [ms.Group("0.*", weight_decay=0), ms.Group(model[0], lr=0.5)]
    with pytest.raises(ms.InvalidArgument, match="earlier groups have all tensors of the Linear, "
                                                 "0.weight, 0.bias"):
        bound(model, ms.SGD(1, groups=groups))


def test_the_list_that_torch_takes():
    torch = pytest.importorskip("torch")
    model = net()
    decay = [p for p in model.parameters() if p.ndim > 1]
    rest = (p for p in model.parameters() if p.ndim <= 1)  # read once
    given = [{"params": decay, "weight_decay": 0.1},
             {"params": rest, "weight_decay": 0.0, "lr": torch.tensor(1e-4)}]
    optimizer = ms.AdamW(3e-4, weight_decay=0.1, groups=given)
    expected = [{"tensors": ["0.bias", "1.weight", "1.bias", "2.bias"],
                 "rate": pytest.approx(1e-4), "weight_decay": 0.0}]
    assert bound(model, optimizer) == expected
    assert bound(model, optimizer) == expected


def test_the_groups_of_an_optimizer_of_torch():
    torch = pytest.importorskip("torch")
    model = net()
    own = torch.optim.AdamW([{"params": model[0].parameters(), "lr": 0.5},
                             {"params": [*model[1].parameters(), *model[2].parameters()]}],
                            lr=0.25, weight_decay=0.5)
    assert bound(model, ms.AdamW(0.25, weight_decay=0.5, groups=own.param_groups)) == [
        {"tensors": ["0.weight", "0.bias"], "rate": 0.5}]
    named = [{"params": list(model.named_parameters()), "lr": 0.0}]
    assert bound(model, ms.SGD(1, groups=named)) == [
        {"tensors": [name for name, _ in model.named_parameters()], "frozen": True}]


def test_what_torch_would_not_move_is_frozen_and_named():
    model = net()
    with pytest.warns(UserWarning, match="1.weight, 1.bias, 2.weight, 2.bias of the model are in "
                                         "no group of parameters: they are frozen"):
        assert bound(model, ms.SGD(1, groups=[{"params": model[0].parameters(), "lr": 0.5}])) == [
            {"tensors": ["0.weight", "0.bias"], "rate": 0.5},
            {"tensors": ["1.weight", "1.bias", "2.weight", "2.bias"], "frozen": True}]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a Group says something of its tensors alone
        bound(model, ms.SGD(1, groups=[ms.Group(model[0], lr=0.5)]))


def test_what_needs_no_gradient_stays_in_the_process():
    model = net()
    model[0].weight.requires_grad_(False)
    given = [{"params": model[0].parameters(), "lr": 0.5}, {"params": model[1].parameters()},
             {"params": model[2].parameters(), "lr": 1.0}]
    assert bound(model, ms.SGD(1, groups=given)) == [{"tensors": ["0.bias"], "rate": 0.5}]


def test_an_alias_stands_for_its_tensor():
    torch = pytest.importorskip("torch")

    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.wte = torch.nn.Embedding(5, 4)
            self.head = torch.nn.Linear(4, 5, bias=False)
            self.head.weight = self.wte.weight

    model = Tied()
    assert bound(model, ms.SGD(1, groups=[ms.Group("head.*", lr=0.5)])) == [
        {"tensors": ["wte.weight"], "rate": 0.5}]
    assert bound(model, ms.SGD(1, groups=[ms.Group(model.head, lr=0.5)])) == [
        {"tensors": ["wte.weight"], "rate": 0.5}]


def test_a_name_with_characters_of_patterns_is_itself():
    torch = pytest.importorskip("torch")
    model = torch.nn.ModuleDict({"a[0]": torch.nn.Linear(2, 2), "b*": torch.nn.Linear(2, 2)})
    groups = [ms.Group(model["a[0]"], lr=0.5), ms.Group("b*.bias", lr=0.25)]
    assert bound(model, ms.SGD(1, groups=groups)) == [
        {"tensors": ["a[[]0].weight", "a[[]0].bias"], "rate": 0.5},
        {"tensors": ["b[*].bias"], "rate": 0.25}]
    assert bound(model, ms.SGD(1, groups=[ms.Group("a[0].weight", lr=0.5)])) == [
        {"tensors": ["a[[]0].weight"], "rate": 0.5}]


def test_local_has_groups_outside():
    local = ms.Local(None, every=5, outer=ms.SGD(0.5, groups=[ms.Group("embed", lr=0.25)]))
    local.bind(layouts.of_arrays(arrays()))
    assert local.text()["optimizer"]["group"][0]["tensors"] == ["embed"]
    ms.Local(None, every=5).bind(layouts.of_arrays(arrays()))


@pytest.mark.parametrize("make, message", [
    (lambda: ms.Group(lr=1), "has no tensors"),
    (lambda: ms.Group("a"), "nothing of its own"),
    (lambda: ms.Group("a", lr=1, frozen=True), "is frozen"),
    (lambda: ms.Group("a", lr=1, rate=1), "lr and rate"),
    (lambda: ms.Group("a", lr=1, factor=1), "in place of lr"),
    (lambda: ms.SGD(1, groups=ms.Group("a", lr=1)), "groups is a list"),
    (lambda: ms.SGD(1, groups=["*.bias"]), "groups has a str"),
    (lambda: ms.SGD(1, groups=[{"lr": 1}]), "groups has a dict"),
    (lambda: ms.SGD(1, groups=[ms.Group("embed", lr=1)]).text(), "of a model"),
    (lambda: bound(arrays(), ms.SGD(1, groups=[ms.Group("emb", lr=1)])),
     "'emb' names no tensor of the model, which has embed, out.weight, out.bias"),
    (lambda: bound(arrays(), ms.SGD(1, groups=[ms.Group(object(), lr=1)])), "has a object"),
    (lambda: bound(arrays(), ms.SGD(1, groups=[{"params": ["embed"], "momentum": 0.9}])),
     "momentum=0.9, which the optimizer does not have"),
    (lambda: bound(arrays(), ms.SGD(1, groups=[{"params": ["embed"], "amsgrad": True}])),
     "amsgrad=True"),
])
def test_what_cannot_be(make, message):
    with pytest.raises(ms.InvalidArgument, match=message):
        make()


def test_a_parameter_of_another_model():
    numpy = pytest.importorskip("numpy")
    with pytest.raises(ms.InvalidArgument, match=r"ndarray of shape \(4, 2\) that is none"):
        bound(arrays(), ms.SGD(1, groups=[ms.Group(numpy.zeros((4, 2)), lr=1)]))
    with pytest.raises(ms.InvalidArgument, match=r"shape \(3, 4\) that is none of the model's"):
        bound(net(), ms.SGD(1, groups=[ms.Group(net()[0].weight, lr=1)]))
