"""Groups of parameters, on the built library and a cluster of real processes, beside torch.optim.
Skipped unless a build is named, as test_real.py."""

import monsoon as ms
import numpy
import pytest
from test_real import cluster, net, pytestmark, torch_parts  # noqa: F401


def groups_of(model):
    """As GPT recipes have them: one does not decay, one goes slowly, and one stays."""
    decay = [model[0].weight]
    return [{"params": decay, "weight_decay": 0.2},
            {"params": [model[0].bias], "weight_decay": 0.0},
            {"params": [model[2].weight], "lr": 0.005},
            {"params": [model[2].bias], "lr": 0.0}]


OPTIMIZERS = {
    "adam_w": (lambda model: ms.AdamW(0.02, eps=1e-4, weight_decay=0.1, groups=groups_of(model)),
               lambda torch, model: torch.optim.AdamW(groups_of(model), lr=0.02, eps=1e-4,
                                                      weight_decay=0.1)),
    "momentum": (lambda model: ms.Momentum(0.05, momentum=0.9, weight_decay=0.1,
                                           groups=groups_of(model)),
                 lambda torch, model: torch.optim.SGD(groups_of(model), lr=0.05, momentum=0.9,
                                                      weight_decay=0.1)),
    "own groups": (
        lambda model: ms.AdamW(0.02, eps=1e-4, weight_decay=0.1, groups=[
            ms.Group("2.bias", frozen=True), ms.Group("*.bias", weight_decay=0),
            ms.Group(model[0], weight_decay=0.2), ms.Group("2.*", factor=0.25)]),
        lambda torch, model: torch.optim.AdamW(groups_of(model), lr=0.02, eps=1e-4,
                                               weight_decay=0.1)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_each_group_moves_as_by_torch(cluster, name):  # noqa: F811
    torch, x, y = torch_parts()
    model, alone = net(torch), net(torch)
    on_shards, make = OPTIMIZERS[name]
    own = make(torch, alone)
    with ms.join(cluster.address, job=f"groups-{name.replace(' ', '-')}", model=model, epochs=3,
                 optimizer=on_shards(model), overlap=False) as job:
        for ids in job.blocks(len(x), batch=10):
            torch.nn.functional.cross_entropy(model(x[ids]), y[ids]).backward()
            job.step()
            torch.nn.functional.cross_entropy(alone(x[ids]), y[ids]).backward()
            own.step()
            own.zero_grad()
    for p, q in zip(model.parameters(), alone.parameters()):
        assert torch.allclose(p, q, atol=1e-4), (p - q).abs().max()
    before = dict(net(torch).named_parameters())
    arrays = ms.Client(cluster.address).load(job.id)
    for key, p in alone.named_parameters():
        assert numpy.allclose(arrays[key], p.detach().numpy(), atol=1e-4), key
    assert numpy.array_equal(arrays["2.bias"], before["2.bias"].detach().numpy())
    assert not numpy.allclose(arrays["2.weight"], before["2.weight"].detach().numpy(), atol=1e-2)


def test_the_coordinator_names_what_no_group_may_have(cluster):  # noqa: F811
    torch, _, _ = torch_parts()
    model = net(torch)
    job = ms.join(cluster.address, job="groups-bad", model=model, epochs=1, batch=10, examples=100,
                  optimizer=ms.SGD(0.1, groups=[ms.Group("*", lr=0.5), ms.Group("0.*", lr=1)]))
    with pytest.raises(ms.InvalidArgument, match='group.1..tensors: "0.*" names tensors of earlier'):
        job.__enter__()
