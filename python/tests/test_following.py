"""Learning-rate schedules of loops of one's own that count the steps of all programs."""

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

import monsoon as ms  # noqa: E402
from monsoon import following  # noqa: E402
from test_torch_loop import X, Y, join, make_model  # noqa: E402


@pytest.fixture
def told(monkeypatch):
    """What a coordinator tells of the job's place, in epochs."""
    place = {"epochs": 0.0}
    monkeypatch.setattr(following, "place_of", lambda job: place["epochs"])
    return place


def halving(optimizer):
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)


def train(job, model, optimizer=None, scheduler=None):
    """The rate of each step."""
    rates = []
    for ids in job.blocks(20, batch=4):
        F.cross_entropy(model(X[ids]), Y[ids]).backward()
        own = job._local.optimizer if optimizer is None else optimizer
        rates.append(own.param_groups[0]["lr"])
        if optimizer is not None:
            optimizer.step()
            optimizer.zero_grad()
        job.step(optimizer_stepped=optimizer is not None)
        if scheduler is not None:
            scheduler.step()
    return rates


def local_of(model, **more):
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    return ms.Local(optimizer, every=2, scheduler=halving(optimizer), **more)


def test_of_one_program_it_is_its_own(library, told):
    for schedules in ("own", "job"):
        model = make_model()
        with join(model, job=schedules, optimizer=local_of(model, schedules=schedules),
                  epochs=2) as job:
            assert train(job, model) == [0.5 ** i for i in range(10)]


def test_the_steps_of_all_programs_count(library, told):
    told["epochs"], library.programs = None, 2  # it does not answer
    model = make_model()
    with join(model, optimizer=local_of(model, schedules="job"), epochs=4) as job:
        rates = train(job, model)
    # Two steps of the job for one of ours.
    assert rates[:4] == [1, 0.5 ** 2, 0.5 ** 4, 0.5 ** 5]  # and no further than the epoch
    model = make_model()
    with join(model, job="own", optimizer=local_of(model), epochs=4) as job:
        assert train(job, model) == [0.5 ** i for i in range(20)]


def test_a_late_program_begins_where_the_job_is(library, told):
    told["epochs"] = 1.4
    model = make_model()
    with join(model, optimizer=local_of(model, schedules="job"), epochs=4) as job:
        assert train(job, model)[0] == 0.5 ** 7


def test_a_loop_that_steps_by_itself(library, told):
    told["epochs"] = 1.0
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    with join(model, optimizer=ms.Local(optimizer, every=2), epochs=3, examples=20,
              batch=4) as job:
        scheduler = job.following(halving(optimizer))
        rates = train(job, model, optimizer, scheduler)
        assert rates[0] == 0.5 ** 5
        # Not past the last step's rate, of 15.
        assert optimizer.param_groups[0]["lr"] == 0.5 ** 14
        grouped = job.following(halving(torch.optim.SGD(make_model().parameters(), lr=1.0)),
                                accumulate=5)
        assert grouped.last_epoch == 2


def test_lists_and_jobs_one_after_another(library, told):
    model = make_model()
    parts = [torch.optim.SGD([p], lr=1.0) for p in model.parameters()]
    local = ms.Local(parts, every=2, scheduler=[halving(part) for part in parts], schedules="job")
    with join(model, optimizer=local, epochs=1) as job:
        train(job, model)
    assert {part.param_groups[0]["lr"] for part in parts} == {0.5 ** 4}
    told["epochs"] = 0.0
    with join(model, job="again", optimizer=local, epochs=2) as job:
        assert train(job, model)[-1] == 0.5 ** 9


def test_what_cannot_follow(library, told):
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    with join(model, optimizer=ms.Local(optimizer, every=2), epochs=1, examples=20,
              batch=4) as job:
        with pytest.raises(ms.InvalidArgument, match="ReduceLROnPlateau counts no steps"):
            job.following(torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer))
    with pytest.raises(ms.InvalidArgument, match="schedules='each': there are job, own"):
        local_of(model, schedules="each")
    with pytest.raises(ms.InvalidArgument, match="means nothing without scheduler="):
        ms.Local(optimizer, schedules="job")
    with join(model, job="stream", optimizer=ms.Local(optimizer, every=2), batch=4,
              epochs=None) as job:
        for _ in job.steps([X[:4]]):
            with pytest.raises(ms.InvalidArgument, match="data of unknown length"):
                job.following(halving(optimizer))
