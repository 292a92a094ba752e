"""A program ends its job: job.finish(), on a fake library."""

import os

import numpy
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

import monsoon as ms  # noqa: E402
from fake_library import EVALUATE, GO  # noqa: E402
from test_torch_loop import X, Y, join, make_model  # noqa: E402


def train(job, model, ids):
    loss = F.cross_entropy(model(X[ids]), Y[ids])
    loss.backward()
    job.step(loss)


def test_a_loop_ends_by_itself_or_by_break(library):
    for breaks in (True, False):
        model = make_model()
        with join(model) as job:
            steps = 0
            for ids in job.blocks(len(X), batch=8):
                train(job, model, ids)
                steps += 1
                if steps == 2:
                    job.finish()
                    assert job.ended
                    values = [p.detach().clone() for p in model.parameters()]
                    if breaks:
                        break
            calls = list(library.calls)
            job.step()
            job.finish()
            assert all(torch.equal(p, q) for p, q in zip(model.parameters(), values))
        assert steps == 2 and library.jobs["gpt"].done == list(range(16))
        job.finish()  # of a job that was left, too
        assert library.calls == calls + ["leave"] and library.calls.count("finish") == 1
        library.calls.clear()
        library.jobs.clear()


def test_what_no_step_has_counted_does_not_count(library):
    model = make_model()
    with join(model) as job:
        for ids in job.blocks(len(X), batch=8):
            F.cross_entropy(model(X[ids]), Y[ids]).backward()
            job.finish()
    job = library.jobs["gpt"]
    assert job.done == [] and library.steps == []
    assert (library.replicas[0].parameters == job.values).all()


def test_with_local_steps_the_rest_of_a_difference_is_pushed(library):
    model = {"w": numpy.zeros((3, 2), numpy.float32)}
    with join(model, optimizer=ms.Local(None, every=4)) as job:
        for steps, _ in enumerate(job.blocks(20, batch=5), 1):
            model["w"] -= 1
            job.step()
            if steps == 3:
                model["w"] = numpy.full((3, 2), -7, numpy.float32)  # anything of its own
                job.finish()
    assert library.differences == [3]
    assert (library.jobs["gpt"].values[:6] == -7).all() and (model["w"] == -7).all()


def test_a_loader_an_accumulation_and_a_stream_end(library):
    model, passes = make_model(), []
    with join(model) as job:
        loader = torch.utils.data.DataLoader(list(range(20)), batch_sampler=job.sampler(8, 20))
        for epoch in job.epochs():
            for ids in loader:
                train(job, model, ids)
                passes.append(epoch)
                job.finish()
    assert passes == [0]
    model, seen = make_model(), []
    with join(model, job="groups") as job:
        for ids, last in job.accumulate(job.blocks(20, batch=4), 2):
            F.cross_entropy(model(X[ids]), Y[ids]).backward()
            seen.append(last)
            if last:
                job.step()
                job.finish()
    assert seen == [False, True]
    model, items = make_model(), []
    with join(model, job="stream", epochs=None, max_steps=100) as job:
        for item in job.steps(range(50), batch=4):
            items.append(item)
            model(X[:4]).sum().backward()
            job.step()
            if item == 2:
                job.finish()
    assert items == [0, 1, 2] and job.ended


def test_a_lost_session_and_an_interrupt_are_gone_through(library):
    library.finishing = [(GO, 1), (GO, 1)]
    library.interrupt.add("finish")
    model = make_model()
    with join(model) as job:
        for ids in job.blocks(len(X), batch=8):
            train(job, model, ids)
            job.finish()
    assert job.ended and library.calls.count("finish") == 3


def test_the_end_is_evaluated_within_it(library):
    library.finishing = [(EVALUATE, 0)]
    model, seen = make_model(), []
    with join(model, evaluate=lambda m: seen.append(job.ended) or 0.5) as job:
        for ids in job.blocks(len(X), batch=8):
            train(job, model, ids)
            job.finish()
    assert seen == [False] and library.reports == [({"loss": 0.5}, None)] and job.ended


def test_within_an_evaluation_it_comes_after_that(library):
    library.events[2] = (EVALUATE, 0)
    model, told = make_model(), []

    def evaluate(_):
        job.finish()
        told.append((list(library.reports), job.ended))
        return 0.25

    with join(model, evaluate=evaluate) as job:
        steps = 0
        for ids in job.blocks(len(X), batch=8):
            train(job, model, ids)
            steps += 1
    assert told == [([], False)] and library.reports == [({"loss": 0.25}, None)]
    assert steps == 2 and job.ended and library.calls.count("finish") == 1


def test_what_has_ended_the_job_otherwise_is_raised(library):
    for code, error in ((10, ms.JobFailed), (1, ms.JobCancelled)):
        model = make_model()
        with pytest.raises(error, match="the reason"):
            with join(model) as job:
                for ids in job.blocks(len(X), batch=8):
                    library.fail["finish"] = (code, "the reason")
                    job.finish()
        library.jobs.clear()


def test_not_before_the_job_nor_of_one_that_was_left(library):
    job = join(make_model())
    with pytest.raises(ms.NotNow, match="job gpt is not entered yet"):
        job.finish()
    with job:
        with pytest.raises(ms.NotNow, match="job gpt is not entered yet"):
            job.finish()
        next(job.blocks(len(X), batch=8))
    with pytest.raises(ms.NotNow, match="job gpt was left"):
        job.finish()
    assert "finish" not in library.calls


def test_a_fork_does_not_end_it(library):
    with join(make_model(), examples=20, batch=8) as job:
        child = os.fork()
        if child == 0:
            try:
                job.finish()
            except ms.Forked:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert "finish" not in library.calls


def test_a_model_that_was_changed_is_refused_as_by_a_step(library):
    model = make_model()
    with pytest.raises(ms.ModelChanged):
        with join(model) as job:
            for ids in job.blocks(len(X), batch=8):
                train(job, model, ids)
                with torch.no_grad():
                    model[0].weight.clamp_(-0.001, 0.001)
                job.finish()
    assert "finish" not in library.calls


def test_of_a_job_that_had_ended_before_it_does_nothing(library, monkeypatch):
    model = make_model()
    with join(model) as job:
        for ids in job.blocks(len(X), batch=8):
            train(job, model, ids)
    arrays = {name: p.detach().numpy().copy() for name, p in model.named_parameters()}
    monkeypatch.setattr(ms.Client, "load", lambda self, job: arrays)
    with join(make_model(9), examples=20, batch=8) as job:
        job.finish()
    assert job.ended and "finish" not in library.calls
