"""Models that are a dict of arrays: NumPy loops, and JAX's by copies."""

import subprocess
import sys

import numpy
import pytest

import monsoon as ms
from fake_library import EVALUATE

RANDOM = numpy.random.default_rng(1)
X = RANDOM.standard_normal((20, 3)).astype(numpy.float32)
Y = RANDOM.standard_normal(20).astype(numpy.float32)


def make_model(dtype=numpy.float32):
    return {"w": numpy.array([1, 2, 3], dtype), "b": numpy.zeros((), dtype)}


def join(model, **changed):
    return ms.join("host:1", **{**dict(job="line", model=model, epochs=2,
                                       optimizer=ms.SGD(0.1)), **changed})


def gradient(model, ids):
    """Of the mean of half the squared errors."""
    wrong = X[ids] @ numpy.asarray(model["w"]) + numpy.asarray(model["b"]) - Y[ids]
    return {"w": (wrong @ X[ids] / len(ids)).astype(numpy.float32),
            "b": numpy.float32(wrong.mean())}


def expected():
    model = make_model()
    for _ in range(2):
        for begin in range(0, 20, 8):
            ids = numpy.arange(begin, min(begin + 8, 20))
            moved = gradient(model, ids)
            for name in model:
                model[name] = model[name] - numpy.float32(0.1) * moved[name]
    return model


@pytest.mark.parametrize("written", [True, False])
def test_a_loop_of_numpy_is_sgd(library, written):
    model = make_model()
    with join(model) as job:
        for ids in job.blocks(len(X), batch=8):
            assert ids.dtype == numpy.int64
            computed = gradient(model, ids)
            if written:
                for name, value in computed.items():
                    job.gradients[name][...] = value
                job.step()
            else:
                job.step(gradients=computed)
            assert not library.replicas[0].gradient.any()
    for name, value in expected().items():
        assert numpy.array_equal(model[name], value)
    assert job.stats.bytes_copied == ({} if written else {"gradient:given": 6 * 16})


def test_arrays_in_the_dict_are_views(library):
    model = make_model()
    with join(model, examples=20, batch=8):
        assert model["w"].ctypes.data == library.replicas[0].parameters.ctypes.data
        assert model["b"].shape == ()


def test_local_steps_of_numpy(library):
    model = make_model()
    with join(model, optimizer=ms.Local(None, every=2)) as job:
        for ids in job.blocks(len(X), batch=8):
            for name, value in gradient(model, ids).items():
                model[name] -= numpy.float32(0.1) * value
            job.step()
    for name, value in expected().items():
        assert numpy.allclose(model[name], value, atol=1e-6)


def test_the_job_may_ask_for_fewer_local_steps(library):
    library.told_steps = [2, 1, 0, 1]
    model, seen = make_model(), []
    with join(model, optimizer=ms.Local(None, every=3, dynamic=True)) as job:
        for ids in job.blocks(len(X), batch=8):
            seen.append(job.stats.local_steps)
            for name, value in gradient(model, ids).items():
                model[name] -= numpy.float32(0.1) * value
            job.step()
    assert "dynamic: true" in library.jobs["line"].text
    assert library.differences == [2, 1, 3]
    assert seen == [2, 2, 1, 3, 3, 3]
    for name, value in expected().items():
        assert numpy.allclose(model[name], value, atol=1e-6)


def test_arrays_that_the_loop_replaces_are_followed(library):
    """As JAX does, whose arrays cannot be written to."""
    model = make_model()
    with join(model, optimizer=ms.Local(None, every=1)) as job:
        for ids in job.blocks(len(X), batch=8):
            computed = gradient(model, ids)
            for name in list(model):
                fresh = numpy.asarray(model[name] - numpy.float32(0.1) * computed[name])
                fresh.flags.writeable = False
                model[name] = fresh
            job.step()
    for name, value in expected().items():
        assert numpy.allclose(model[name], value, atol=1e-6)
    assert job.stats.bytes_copied["parameter:replaced"] > 0


def test_other_types_are_copied_in_place(library):
    model = make_model(numpy.float64)
    before = model["w"]
    library.events[1] = (EVALUATE, 0)
    seen = []
    with join(model, evaluate=lambda m: seen.append(m["w"].copy())) as job:
        for ids in job.blocks(len(X), batch=8):
            job.step(gradients=gradient(model, ids))
            if len(library.steps) == 1:
                assert numpy.allclose(seen[0], model["w"] + 1)
    assert model["w"] is before and model["w"].dtype == numpy.float64
    for name, value in expected().items():
        assert numpy.allclose(model[name], value, atol=1e-5)
    assert job.stats.bytes_copied["parameter:float64"] > 0


def test_gradients_are_checked(library):
    with join(make_model()) as job:
        for _ in job.blocks(20, batch=8):
            with pytest.raises(ms.InvalidArgument, match=r"gradients\['v'\]: the model has no"):
                job.step(gradients={"v": 1})
            break
        for _ in job.blocks(20, batch=8):
            with pytest.raises(ms.InvalidArgument, match=r"has shape \(2,\), its tensor has"):
                job.step(gradients={"w": numpy.zeros(2)})
            break
        for _ in job.blocks(20, batch=8):
            job.step(gradients={"w": numpy.zeros(3)})
            assert job.stats.missing_gradients == 1
            break


def test_what_has_no_gradient_is_named(library):
    model = {"v": numpy.zeros(2, numpy.float32), "w": numpy.zeros(3, numpy.float32)}
    with join(model) as job:
        for step, _ in enumerate(job.blocks(20, batch=5)):
            job.step(gradients=[{"w": numpy.ones(3)}, None,
                                {"v": None, "w": numpy.ones(3)}, {"v": numpy.ones(2)}][step % 4])
            if step == 3:
                break
    # None: written to job.gradients, or zero.
    assert library.absent == [[0], [], [0], [1]]


def test_models_that_cannot_be_are_refused():
    for model, words in (({"w": numpy.zeros(2, int)}, "is of int64"), ({}, "no parameter"),
                         ({"w w": numpy.zeros(2)}, "no blank"), ({"a": {}}, "flat dict"),
                         ([1], "a torch module or a dict")):
        with pytest.raises(ms.InvalidArgument, match=words):
            join(model)


def test_the_package_needs_no_torch():
    code = "import sys, monsoon; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)},
                          check=False).returncode == 0


def test_what_trains_badly_is_warned_of(library, recwarn):
    library.warnings = b"downpour.n_push: a push is long; take less\nstop: soon; later"
    model = make_model()
    with join(model, data=X, batch=8) as job:
        assert job.id == "line-1"
    assert [str(w.message) for w in recwarn] == [
        "job line-1: downpour.n_push: a push is long; take less", "job line-1: stop: soon; later"]
