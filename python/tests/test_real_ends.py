"""Ends of jobs as programs and clients see them, on the built library and a cluster of real
processes. Skipped unless a build is named, as test_real.py."""

import numpy
import pytest

import monsoon as ms
from test_real import cluster, client, net, pytestmark, torch_parts  # noqa: F401


def train(address, name, seed=1, epochs=1, **settings):
    torch, x, y = torch_parts()
    model = net(torch, seed)
    steps = 0
    with ms.join(address, job=name, model=model, optimizer=ms.SGD(0.1), epochs=epochs,
                 overlap=False, **settings) as job:
        for ids in job.blocks(len(x), batch=10):
            torch.nn.functional.cross_entropy(model(x[ids]), y[ids]).backward()
            job.step()
            steps += 1
    return job, model, steps


def test_a_late_program_gets_the_result(cluster, client, capfd, tmp_path):  # noqa: F811
    first, model, steps = train(cluster.address, "late")
    assert steps == 10
    late, loaded, steps = train(cluster.address, "late", seed=5)
    assert steps == 0 and late.ended and late.id == first.id
    assert all((p == q).all() for p, q in zip(model.parameters(), loaded.parameters()))
    said = capfd.readouterr().err
    assert f"job {first.id} has ended (SUCCEEDED)" in said
    with numpy.load(late.export(str(tmp_path / "late.npz"))) as file:
        assert numpy.array_equal(file["0.weight"], model[0].weight.detach().numpy())
    by_id, _, steps = train(cluster.address, first.id, seed=5)
    assert steps == 0 and by_id.id == first.id
    with pytest.raises(ms.JobEnded, match=f"job {first.id} has ended: SUCCEEDED"):
        train(cluster.address, "late", on_ended="raise")
    again, _, steps = train(cluster.address, "late", on_ended="new")
    assert steps == 10 and again.id != first.id
    assert [told["job"] for told in client.jobs() if told["name"] == "late"] == [first.id, again.id]


def test_a_client_takes_names(cluster, client, tmp_path):  # noqa: F811
    first, _, _ = train(cluster.address, "named")
    second, model, _ = train(cluster.address, "named", on_ended="new")
    assert client.describe("named")["job"] == second.id
    assert client.describe(first.id)["job"] == first.id
    assert list(client.watch("named"))[-1]["job"] == second.id
    assert numpy.array_equal(client.load("named")["0.weight"], model[0].weight.detach().numpy())
    assert client.export("named", str(tmp_path / "m.npz")).endswith("m.npz")
    resumed = client.resume("named", settings={"stop.epochs": 2})
    assert resumed not in (first.id, second.id) and client.describe("named")["job"] == resumed
    client.cancel("named", wait=True)
    assert client.describe(resumed)["state"] == "CANCELLED"
    with pytest.raises(ms.JobNotFound, match='no job "nobody"'):
        client.describe("nobody")
    with pytest.raises(ms.JobNotFound):
        client.delete("named")


def test_an_early_stop_ends_and_a_plateau_lowers_the_rate(cluster, client):  # noqa: F811
    losses = iter([0.5] + [0.6] * 20)
    _, _, steps = train(cluster.address, "early", epochs=None, evaluate=lambda model: next(losses),
                        evaluate_every=1, early_stop=ms.EarlyStop(patience=4),
                        plateau=ms.Plateau(0.5, patience=2, min_factor=0.25))
    told = client.describe("early")
    assert told["state"] == "SUCCEEDED" and steps == 50
    assert "has not become better in 4 evaluations" in told["reason"]
    assert [event for event in told["events"] if event["kind"] == "rate_reduced"]


def test_a_share_in_per_cent_ends_the_job_by_name(cluster, client):  # noqa: F811
    with pytest.raises(ms.InvalidArgument, match="accuracy=87.5, and target_accuracy needs"):
        train(cluster.address, "percent", epochs=5, evaluate=lambda model: {"accuracy": 87.5},
              evaluate_every=1, target_accuracy=0.9)
    told = client.describe("percent")
    assert told["state"] == "FAILED" and "needs a share in [0, 1]" in told["reason"]


def test_the_best_state_is_exported_by_address_alone(cluster, client, tmp_path):  # noqa: F811
    seen = []

    def evaluate(model):
        seen.append(model[0].weight.detach().numpy().copy())
        return {"loss": 1.0, "accuracy": float("nan") if len(seen) == 2 else 1 / len(seen)}

    # Where checkpoints are slow, a number of epochs would end with fewer evaluations than that.
    job, _, _ = train(cluster.address, "best", epochs=None, evaluate=evaluate, evaluate_every=1,
                      early_stop=ms.EarlyStop(patience=2),
                      checkpoint=ms.Checkpoint(keep_best="accuracy"))
    with numpy.load(job.export(str(tmp_path / "best.npz"), best=True)) as file:
        assert len(seen) > 2 and numpy.array_equal(file["0.weight"], seen[0])
    assert numpy.array_equal(client.load("best", best=True)["0.weight"], seen[0])
    assert not numpy.array_equal(client.load("best")["0.weight"], seen[0])
