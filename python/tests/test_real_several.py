"""Local steps by several optimizers at once, as Muon for matrices beside AdamW, on the built library
and a cluster of real processes. Skipped unless a build is named, as test_real.py."""

import monsoon as ms
import pytest
from test_real import cluster, net, pytestmark, torch_parts  # noqa: F401


def parts_of(torch, model, kind):
    matrices = [p for p in model.parameters() if p.ndim == 2]
    rest = [p for p in model.parameters() if p.ndim < 2]
    first = (torch.optim.Muon(matrices, lr=0.02) if kind == "muon"
             else torch.optim.SGD(matrices, lr=0.1, momentum=0.9))
    return [first, torch.optim.AdamW(rest, lr=0.01)]


@pytest.mark.parametrize("kind", ["sgd", "muon"])
@pytest.mark.parametrize("outer", [None, ms.SGD(1.0)])
def test_one_program_steps_as_alone(cluster, kind, outer):  # noqa: F811
    torch, x, y = torch_parts()
    if kind == "muon" and not hasattr(torch.optim, "Muon"):
        pytest.skip("this torch has no Muon")
    model, alone = net(torch), net(torch)
    own = parts_of(torch, alone, kind)
    local = ms.Local(parts_of(torch, model, kind), every=5, outer=outer)
    losses = []
    with ms.join(cluster.address, job=f"several-{kind}-{outer is None}", model=model, epochs=6,
                 optimizer=local, overlap=False) as job:
        for ids in job.blocks(len(x), batch=10):
            loss = torch.nn.functional.cross_entropy(model(x[ids]), y[ids])
            loss.backward()
            losses.append(loss.item())
            job.step(loss)
            torch.nn.functional.cross_entropy(alone(x[ids]), y[ids]).backward()
            for part in own:
                part.step()
                part.zero_grad()
    assert len(losses) == 60 and losses[-1] < losses[0]
    for p, q in zip(model.parameters(), alone.parameters()):
        assert torch.allclose(p, q, atol=1e-4), (p - q).abs().max()
