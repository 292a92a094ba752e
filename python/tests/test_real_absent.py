"""Parameters without a gradient in some steps, on the built library and a cluster of real
processes, beside torch.optim, which leaves them and their state alone. Skipped unless a build is
named, as test_real.py."""

import monsoon as ms
import numpy
import pytest
from test_real import cluster, net, pytestmark, torch_parts  # noqa: F401

OPTIMIZERS = {
    "momentum": (ms.Momentum(0.05, momentum=0.9, weight_decay=0.1),
                 lambda torch, w: torch.optim.SGD(w, lr=0.05, momentum=0.9, weight_decay=0.1)),
    "adagrad": (ms.Adagrad(0.05, eps=1e-4, weight_decay=0.1),
                lambda torch, w: torch.optim.Adagrad(w, lr=0.05, eps=1e-4, weight_decay=0.1)),
    "adam": (ms.Adam(0.02, eps=1e-4, weight_decay=0.1),
             lambda torch, w: torch.optim.Adam(w, lr=0.02, eps=1e-4, weight_decay=0.1)),
    "adam_w": (ms.AdamW(0.02, eps=1e-4, weight_decay=0.1),
               lambda torch, w: torch.optim.AdamW(w, lr=0.02, eps=1e-4, weight_decay=0.1)),
    "rms_prop": (ms.RMSProp(0.01, alpha=0.9, eps=1e-4, momentum=0.9, weight_decay=0.1),
                 lambda torch, w: torch.optim.RMSprop(w, lr=0.01, alpha=0.9, eps=1e-4,
                                                      momentum=0.9, weight_decay=0.1)),
}


def loss_of(torch, model, x, y, step):
    """Each second step goes around the first layer: what it has is fed as it is."""
    out = model(x) if step % 2 == 0 else model[2](torch.nn.functional.pad(x, (0, 10)))
    return torch.nn.functional.cross_entropy(out, y)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("together", [1, 2])
def test_what_has_no_gradient_moves_as_by_torch(cluster, name, together):  # noqa: F811
    """`together`: pushes are sums of so many steps, of which only one has all gradients."""
    torch, x, y = torch_parts()
    model, alone = net(torch), net(torch)
    on_shards, make = OPTIMIZERS[name]
    own = make(torch, alone.parameters())
    with ms.join(cluster.address, job=f"absent-{name}-{together}", model=model, epochs=3,
                 optimizer=on_shards, overlap=False, n_push=together, n_fetch=together) as job:
        for step, ids in enumerate(job.blocks(len(x), batch=10)):
            loss_of(torch, model, x[ids], y[ids], step).backward()
            job.step()
            loss_of(torch, alone, x[ids], y[ids], step).backward()
            if (step + 1) % together == 0:
                own.step()
                own.zero_grad(set_to_none=True)
    assert job.stats.missing_gradients == 2 * 15
    for p, q in zip(model.parameters(), alone.parameters()):
        assert torch.allclose(p, q, atol=1e-4), (p - q).abs().max()
    before = dict(net(torch).named_parameters())
    arrays = ms.Client(cluster.address).load(job.id)
    for key, p in alone.named_parameters():
        assert numpy.allclose(arrays[key], p.detach().numpy(), atol=1e-4)
        assert not numpy.allclose(arrays[key], before[key].detach().numpy(), atol=1e-2)


@pytest.mark.parametrize("name, push_format", [("adam_w", "int8"), ("momentum", "bfloat16")])
def test_a_parameter_that_never_has_a_gradient_keeps_its_bits(cluster, name, push_format):  # noqa: F811
    torch, x, y = torch_parts()
    model = net(torch)
    before = [p.detach().clone() for p in model.parameters()]
    with ms.join(cluster.address, job=f"never-{name}", model=model, epochs=2,
                 optimizer=OPTIMIZERS[name][0], push_format=push_format) as job:
        for ids in job.blocks(len(x), batch=10):
            loss_of(torch, model, x[ids], y[ids], 1).backward()
            job.step()
    for p, q in zip(list(model.parameters())[:2], before):
        assert torch.equal(p, q)
    assert not torch.equal(model[2].weight, before[2])
