"""Vectors of bfloat16: a 16-bit model whose gradients and parameters travel as they are, beside
float32 masters of the same gradients."""

import os

import numpy
import pytest

torch = pytest.importorskip("torch")

import monsoon as ms  # noqa: E402

from test_real import cluster, pytestmark  # noqa: E402,F401

_BOTH = {"push_format": "bfloat16", "fetch_format": "bfloat16"}


def _model(seed=3):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(8, 33), torch.nn.Tanh(),
                               torch.nn.Linear(33, 3)).bfloat16()


def _data():
    generator = torch.Generator().manual_seed(5)
    return torch.randn(96, 8, generator=generator).bfloat16()


def _loss(model, x, ids):
    return (model(x[ids]).float() ** 2).mean() * 3


@pytest.mark.parametrize("overlap", [False, True])
def test_a_16_bit_model_lies_in_the_vectors_and_trains_as_float32_masters_do(cluster, overlap,
                                                                             tmp_path):
    model, x = _model(), _data()
    masters = [p.detach().float().numpy() for p in model.parameters()]
    job = ms.join(cluster.address, job=f"halves-{overlap}", model=model, optimizer=ms.SGD(0.1), epochs=2, batch=16,
                  examples=len(x), overlap=overlap, **_BOTH)
    with job:
        vector = job._training.replica.parameters
        assert vector.dtype == numpy.int16
        begin = vector.ctypes.data
        assert all(begin <= p.data_ptr() < begin + vector.nbytes and p.dtype == torch.bfloat16
                   for p in model.parameters())
        for ids in job.blocks():
            loss = _loss(model, x, ids)
            loss.backward()
            for master, p in zip(masters, model.parameters()):
                master -= numpy.float32(0.1) * p.grad.float().numpy()
            job.step(loss)
            if not overlap:  # where it is, what the shards have may come a step later
                for master, p in zip(masters, model.parameters()):
                    assert torch.equal(p, torch.from_numpy(master).bfloat16())
    assert job.stats.steps == 12
    copied = job.stats.bytes_copied
    assert not [path for path in copied if path.startswith("parameter")], copied
    exported = ms.Client(cluster.address).export(job.id, str(tmp_path / "halves.npz"))
    with numpy.load(exported) as file:
        for (name, p), master in zip(model.named_parameters(), masters):
            numpy.testing.assert_array_equal(file[name], master)
            assert torch.equal(p, torch.from_numpy(master).bfloat16())


def test_an_evaluation_and_absent_tensors_are_as_with_float32_vectors(cluster):  # noqa: F811
    model, x = _model(), _data()
    model.unused = torch.nn.Parameter(torch.ones(5, dtype=torch.bfloat16))
    seen = []

    def evaluate(m):
        assert all(p.dtype == torch.bfloat16 for p in m.parameters())
        seen.append([p.clone() for p in m.parameters()])
        return {"loss": float(_loss(m, x, slice(None)))}

    job = ms.join(cluster.address, job="absent", model=model, epochs=2, batch=16, examples=len(x),
                  optimizer=ms.AdamW(1e-2, weight_decay=0.5), overlap=False, evaluate=evaluate,
                  evaluate_every=1, **_BOTH)
    with job:
        for ids in job.blocks():
            loss = _loss(model, x, ids)
            loss.backward()
            job.step(loss)
    assert torch.equal(model.unused, torch.ones(5, dtype=torch.bfloat16)), "decay leaves it alone"
    assert job.stats.missing_gradients == 12
    assert seen
    for p, last in zip(model.parameters(), seen[-1]):
        assert torch.equal(p, last), "the last evaluation is of the final parameters"


def test_an_infinite_gradient_is_refused_by_name(cluster):  # noqa: F811
    model, x = _model(), _data()
    job = ms.join(cluster.address, job="sick", model=model, epochs=1, batch=16, examples=len(x),
                  optimizer=ms.SGD(0.1), divergence="halt", overlap=False, **_BOTH)
    with pytest.raises(ms.JobFailed, match=r"not finite"):
        with job:
            for ids in job.blocks():
                _loss(model, x, ids).backward()
                model[2].weight.grad[0, 1] = float("inf")
                job.step()


@pytest.mark.parametrize("changed", [{"n_push": 2}, {"fetch_format": "float32"},
                                     {"optimizer": ms.SGD(0.1, clip_norm=1.0)}])
def test_where_something_is_computed_from_float32_the_vectors_are(cluster, changed):  # noqa: F811
    model, x = _model(), _data()
    settings = {**_BOTH, "optimizer": ms.SGD(0.1), **changed}
    job = ms.join(cluster.address, job="floats", model=model, epochs=1, batch=16, examples=len(x),
                  **settings)
    with job:
        assert job._training.replica.parameters.dtype == numpy.float32
        for ids in job.blocks():
            _loss(model, x, ids).backward()
            job.step()
    assert job.stats.bytes_copied["parameter:bfloat16"] > 0


def test_a_helper_that_dies_leaves_the_vectors_to_the_next(cluster):  # noqa: F811
    import signal
    model, x = _model(), _data()
    job = ms.join(cluster.address, job="helper", model=model, epochs=4, batch=16, examples=len(x),
                  optimizer=ms.SGD(0.1), overlap=False, **_BOTH)
    with job:
        for number, ids in enumerate(job.blocks()):
            if number == 5:
                os.kill(job._training.replica.stats()["sidecar_pid"], signal.SIGKILL)
            _loss(model, x, ids).backward()
            job.step()
    assert job.ended and job.stats.sessions == 2
    assert all(p.isfinite().all() for p in model.parameters())
