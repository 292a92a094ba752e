"""Loops over a loader on a job's sampler that do not count each batch as it comes: groups,
`continue`, `break`, several programs. The truth is a loop of plain torch."""

import numpy
import pytest

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

import monsoon as ms  # noqa: E402
from fake_library import FakeJob  # noqa: E402
from monsoon import _passes  # noqa: E402
from test_torch_loop import join  # noqa: E402

torch.set_num_threads(1)
X = torch.randn(64, 3, generator=torch.Generator().manual_seed(1))
Y = torch.randn(64, 1, generator=torch.Generator().manual_seed(2))
DATA = TensorDataset(X, Y)  # 32 batches of 2
LOADERS = [{}, {"num_workers": 2}, {"num_workers": 4, "prefetch_factor": 3},
           {"num_workers": 2, "persistent_workers": True}]


def net():
    torch.manual_seed(3)
    return torch.nn.Linear(3, 1)


def loss_of(model, x, y):
    return ((model(x) - y) ** 2).mean()


def plain(epochs, every, rate=0.1):
    """Plain torch, with the usual step on the short last group."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for _ in range(epochs):
        for number in range(32):
            ids = slice(2 * number, 2 * number + 2)
            (loss_of(model, X[ids], Y[ids]) / every).backward()
            if (number + 1) % every == 0 or number == 31:
                optimizer.step()
                optimizer.zero_grad()
    return model


def same(model, other):
    return all(torch.allclose(p, q, atol=1e-6)
               for p, q in zip(model.parameters(), other.parameters()))


def counted(library):
    return [batches for batches, _ in library.steps]


@pytest.mark.parametrize("kind", LOADERS)
@pytest.mark.parametrize("every", [3, 5])
def test_a_group_that_does_not_divide_the_epoch_is_torchs(library, kind, every):
    model = net()
    job = join(model, data=DATA, epochs=3)
    loader = DataLoader(DATA, batch_sampler=job.sampler(2), **kind)
    passes = 0
    with job:
        for _ in job.epochs():
            passes += 1
            for number, (x, y) in enumerate(loader, 1):
                (loss_of(model, x, y) / every).backward()
                if number % every == 0:
                    job.step()
    assert passes == 3 and job.ended and sum(counted(library)) == 96
    assert counted(library) == ([every] * (32 // every) + [32 % every]) * 3
    assert same(model, plain(3, every))


@pytest.mark.parametrize("kind", LOADERS)
def test_accumulate_says_which_is_the_last(library, kind):
    model = net()
    job = join(model, data=DATA, epochs=2)
    loader = DataLoader(DATA, batch_sampler=job.sampler(2), **kind)
    with job:
        for _ in job.epochs():
            for (x, y), last in job.accumulate(loader, 3):
                (loss_of(model, x, y) / 3).backward()
                if last:
                    job.step()
    assert counted(library) == ([3] * 10 + [2]) * 2 and job.ended
    assert same(model, plain(2, 3))


@pytest.mark.parametrize("optimizer", ["shards", "local"])
def test_accumulate_over_blocks(library, optimizer):
    model = net()
    own = ms.SGD(0.1) if optimizer == "shards" else ms.Local(
        torch.optim.SGD(model.parameters(), lr=0.1), every=4)
    with join(model, optimizer=own, epochs=2) as job:
        for ids, last in job.accumulate(job.blocks(64, batch=2), 5):
            (loss_of(model, X[ids], Y[ids]) / 5).backward()
            if last:
                job.step()
    assert counted(library) == ([5] * 6 + [2]) * 2 and job.ended
    assert same(model, plain(2, 5))


def test_accumulate_over_a_stream_has_a_short_last_group(library):
    model, lasts = net(), []
    with join(model, epochs=None) as job:
        stream = [X[2 * i:2 * i + 2] for i in range(5)]
        for x, last in job.accumulate(job.steps(stream, batch=2), 3):
            model(x).sum().backward()
            lasts.append(last)
            if last:
                assert "no_more_samples" not in library.calls
                job.step(examples=2)
    assert lasts == [False, False, True, False, True] and counted(library) == [3, 2] and job.ended


def test_accumulate_needs_a_group(library):
    for every in (0, -1, 1.5, True):
        with pytest.raises(ms.InvalidArgument, match="a group has at least 1 batch"):
            ms.Job.accumulate([], every)
    assert list(ms.Job.accumulate([7, 8, 9], 2)) == [(7, False), (8, True), (9, True)]
    assert list(ms.Job.accumulate([], 2)) == []


@pytest.mark.parametrize("kind", LOADERS)
@pytest.mark.parametrize("bad", [0, 13, 31])
def test_a_batch_that_is_passed_over_counts_with_the_next(library, kind, bad):
    model = net()
    job = join(model, data=DATA, epochs=2)
    loader = DataLoader(DATA, batch_sampler=job.sampler(2), **kind)
    passes, steps = 0, 0
    with job:
        for _ in job.epochs():
            passes += 1
            for number, (x, y) in enumerate(loader):
                if number == bad:
                    continue
                loss_of(model, x, y).backward()
                job.step()
                steps += 1
    assert passes == 2 and steps == 62 and job.ended and sum(counted(library)) == 64


def test_a_pass_that_ends_with_a_skipped_batch_makes_no_step_of_the_optimizer(library):
    """Of a gradient of zeros momentum and decay would move the parameters."""
    model, steps = net(), []
    own = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    inner, own.step = own.step, lambda *args, **named: steps.append(1) or inner(*args, **named)
    job = join(model, data=DATA, epochs=1, optimizer=ms.Local(own, every=100))
    loader = DataLoader(DATA, batch_sampler=job.sampler(2))
    with job:
        for _ in job.epochs():
            for number, (x, y) in enumerate(loader):
                if number < 31:
                    loss_of(model, x, y).backward()
                    job.step()
    assert len(steps) == 31 and job.ended and counted(library)[-1] == 1


@pytest.mark.parametrize("kind", LOADERS)
@pytest.mark.parametrize("after", [1, 10, 31])
def test_a_loop_that_is_left_goes_on_in_the_next_pass(library, kind, after):
    model = net()
    job = join(model, data=DATA, epochs=2)
    loader = DataLoader(DATA, batch_sampler=job.sampler(2), **kind)
    left = 0
    with job:
        for number, _ in enumerate(job.epochs()):
            for i, (x, y) in enumerate(loader, 1):
                loss_of(model, x, y).backward()
                job.step()
                if number < 3 and i == after:
                    left += 1
                    break
    assert left >= 2 and job.ended and sorted(library.jobs["gpt"].done) == sorted(
        list(range(64)) * 2)
    assert counted(library) == [1] * 64


def test_what_was_in_hand_at_a_break_comes_again(library):
    model, seen = net(), []
    job = join(model, data=DATA, epochs=1)
    loader = DataLoader(DATA, batch_sampler=job.sampler(2), num_workers=2)
    with job:
        for number, _ in enumerate(job.epochs()):
            for i, (x, y) in enumerate(loader):
                seen.append(float(x[0, 0]))
                if number == 0 and i == 3:
                    break
                loss_of(model, x, y).backward()
                job.step()
    assert job.ended and counted(library) == [1] * 32
    assert seen[4] == seen[3] and len(seen) == 33


def test_two_programs_share_an_epoch_whose_groups_are_cut(library, monkeypatch):
    """A draw that finds nothing, since the rest is with others, ends the pass and the group."""
    monkeypatch.setattr(FakeJob, "next", _short_of_data(FakeJob.next))
    model = net()
    job = join(model, data=DATA, epochs=2)
    loader = DataLoader(DATA, batch_sampler=job.sampler(2))
    passes = 0
    with job:
        for _ in job.epochs():
            passes += 1
            for number, (x, y) in enumerate(loader, 1):
                (loss_of(model, x, y) / 5).backward()
                if number % 5 == 0:
                    job.step()
    assert job.ended and passes == 22
    assert counted(library) == ([3] * 10 + [2]) * 2


def _short_of_data(inner):
    """Gives no more than three batches before all of them are counted."""
    def give(job):
        if job.given - job.counted == 3:
            return 2
        return inner(job)
    return give


def test_a_loader_that_its_package_reads_ahead_counts_one_a_step(library, monkeypatch):
    """As accelerate does: it takes a batch before it gives the one before."""
    monkeypatch.setattr(_passes, "_READ_AHEAD", (__name__,))
    model = net()
    job = join(model, data=DATA, epochs=2)
    loader = DataLoader(DATA, batch_sampler=job.sampler(2), num_workers=2)

    def read_ahead():
        items = iter(loader)
        item = next(items)
        for following in items:
            yield item
            item = following
        yield item

    with job:
        for _ in job.epochs():
            for x, y in read_ahead():
                loss_of(model, x, y).backward()
                job.step()
    assert counted(library) == [1] * 64 and job.ended


def test_a_step_that_has_nothing_to_count_says_so(library):
    model = net()
    job = join(model, data=DATA, epochs=2)
    loader = DataLoader(DATA, batch_sampler=job.sampler(2))
    with job, pytest.raises(ms.NotNow, match="batches=1"):
        for x, y in loader:
            loss_of(model, x, y).backward()
            job.step()
            job.step()


def test_one_pass_at_a_time(library):
    job = join(net(), data=DATA, epochs=1)
    sampler = job.sampler(2)
    with job:
        first, second = iter(sampler), iter(sampler)
        assert next(first) == [0, 1] and next(second) == [0, 1]
        with pytest.raises(ms.NotNow, match="one at a time"):
            next(first)


def test_the_length_of_an_epoch_is_known_of_one_program_alone(library):
    job = join(net(), data=DATA, epochs=1)
    sampler = job.sampler(2)
    assert len(sampler) == 32 and len(DataLoader(DATA, batch_sampler=sampler)) == 32
    with job:
        next(iter(sampler))
        assert len(sampler) == 32
        library.programs = 2
        with pytest.raises(TypeError, match="job gpt has 2 programs.*32 for all of them"):
            len(sampler)
        assert sampler and numpy.array_equal(list(sampler)[0], [0, 1])
    with pytest.raises(TypeError, match="3 programs"):
        len(join(net(), data=DATA, job="other", programs=3).sampler(2))
