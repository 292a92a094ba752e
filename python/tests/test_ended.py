"""A program that comes when the job of its name has ended."""

import numpy
import pytest

torch = pytest.importorskip("torch")

import monsoon as ms  # noqa: E402
from monsoon.client import Client  # noqa: E402
from test_torch_loop import join, loop, make_model  # noqa: E402


@pytest.fixture
def ended(library, monkeypatch):
    """A fake library whose job "gpt" has ended, and what a client loads of it."""
    model = make_model()
    with join(model) as job:
        loop(job, model)
    arrays = {name: p.detach().numpy().copy() for name, p in model.named_parameters()}
    monkeypatch.setattr(Client, "load", lambda self, job: dict(arrays, asked=job))
    return library, arrays


def test_it_gets_the_result_and_trains_nothing(ended, capsys):
    library, arrays = ended
    steps, model = len(library.steps), make_model(seed=9)
    before = list(model.parameters())
    with join(model) as job:
        loop(job, model)
        job.step()
        for _ in job.epochs():
            raise AssertionError("an epoch of a job that has ended")
    assert job.ended and job.id == "gpt-1" and len(library.steps) == steps
    assert all(p is q for p, q in zip(before, model.parameters()))
    for name, p in model.named_parameters():
        assert numpy.array_equal(p.detach().numpy(), arrays[name])
    said = capsys.readouterr().err
    assert "job gpt-1 has ended (SUCCEEDED): its model is loaded" in said and "on_ended=" in said
    assert said.count("\n") == 1 and job.stats.steps == 0


def test_its_export_is_of_that_job(ended, monkeypatch):
    asked = []
    monkeypatch.setattr(Client, "export",
                        lambda self, job, path, best=False: asked.append((job, path, best)))
    model = make_model()
    with join(model) as job:
        loop(job, model)
    job.export("model.npz")
    assert asked == [("gpt-1", "model.npz", False)]


def test_arrays_of_numpy_and_local_steps_get_it_too(ended):
    library, arrays = ended
    model = {name: numpy.zeros_like(array) for name, array in arrays.items()}
    with join(model, optimizer=ms.Local(None, every=3)) as job:
        for _ in job.blocks(20, batch=8):
            raise AssertionError("a batch of a job that has ended")
    assert all(numpy.array_equal(model[name], arrays[name]) for name in arrays)


def test_new_makes_another(ended):
    library, _ = ended
    model = make_model(seed=9)
    with join(model, on_ended="new") as job:
        loop(job, model)
    assert len(library.joined) == 2 and library.jobs["gpt"].done == list(range(20)) * 2


def test_raise_raises(ended):
    library, _ = ended
    with pytest.raises(ms.JobEnded, match="job gpt-1 has ended: SUCCEEDED"):
        with join(make_model(), on_ended="raise", examples=20, batch=8):
            raise AssertionError("entered")
    with pytest.raises(ms.InvalidArgument, match="there are load, new, raise"):
        join(make_model(), on_ended="again")


@pytest.mark.parametrize("end", ["FAILED: a worker diverged", "CANCELLED"])
def test_of_one_that_did_not_succeed_nothing_is_loaded(ended, end):
    library, _ = ended
    library.end = end
    with join(make_model(), examples=20, batch=8) as job:
        assert not job.ended and len(library.joined) == 2
    library.jobs["gpt"].ended = True
    with pytest.raises(ms.JobEnded, match="gpt-1 has ended: " + end[:6]):
        with join(make_model(), examples=20, batch=8, create=False):
            raise AssertionError("entered")


def test_another_model_is_told_by_name(ended):
    other = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))
    with pytest.raises(ms.JobEnded, match=r"2\.weight is of \(3, 5\) here, and it has one of "
                                          r"\(2, 5\)"):
        with join(other, examples=20, batch=8):
            raise AssertionError("entered")


def test_what_cannot_be_loaded_is_told(ended, monkeypatch):
    def refuse(self, job):
        raise ms.MonsoonError("a worker may not ask for it")
    monkeypatch.setattr(Client, "load", refuse)
    with pytest.raises(ms.JobEnded, match="cannot be loaded here: a worker may not ask"):
        with join(make_model(), examples=20, batch=8):
            raise AssertionError("entered")


def test_what_only_would_enter_hears_that_there_is_none(library):
    with pytest.raises(ms.JobNotFound, match='no job "gpt" is there'):
        with join(make_model(), examples=20, batch=8, create=False):
            raise AssertionError("entered")
    assert library.joined == []
