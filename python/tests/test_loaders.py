"""DataLoader on a job's sampler, and data of unknown length."""

import pytest

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

import monsoon as ms  # noqa: E402
from fake_library import GO  # noqa: E402
from test_torch_loop import X, Y, join, make_model  # noqa: E402

DATA = TensorDataset(X, Y)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_with_workers_counts_each_sample_once(library, workers):
    model = make_model()
    job = join(model, data=DATA, epochs=3)
    loader = DataLoader(DATA, batch_sampler=job.sampler(4), num_workers=workers)
    assert len(loader) == 5
    epochs, steps = [], 0
    with job:
        for epoch in job.epochs():
            epochs.append(epoch)
            for x, _ in loader:
                model(x).sum().backward()
                job.step()
                steps += 1
    assert epochs == [0, 1, 2] and steps == 15 and job.ended
    assert library.jobs["gpt"].done == list(range(20)) * 3


def test_a_batch_is_done_when_it_is_counted(library):
    model = make_model()
    job = join(model, data=DATA, epochs=1)
    loader = DataLoader(DATA, batch_sampler=job.sampler(4), num_workers=2)
    with job:
        for x, _ in loader:
            model(x).sum().backward()
            job.step()
            break
        assert library.jobs["gpt"].done == [0, 1, 2, 3]
        # The loop was left early: what the loader had drawn comes again.
        for x, _ in loader:
            model(x).sum().backward()
            job.step()
    assert library.jobs["gpt"].done == list(range(20))


def test_what_a_loader_holds_of_a_lost_session_is_not_counted(library):
    model = make_model()
    library.events[2] = (GO, 1)
    job = join(model, data=DATA, epochs=1)
    loader = DataLoader(DATA, batch_sampler=job.sampler(2), num_workers=2)
    with job:
        for _ in job.epochs():
            for x, _ in loader:
                model(x).sum().backward()
                job.step()
    assert sorted(library.jobs["gpt"].done) == list(range(20)) and job.ended
    assert job.stats.discarded > 1


def test_data_of_unknown_length(library):
    model = make_model()
    with join(model, epochs=None) as job:
        for x in job.steps(iter([X[:4], X[4:8], X[8:9]]), batch=4):
            model(x).sum().backward()
            job.step(examples=len(x))
    assert len(library.steps) == 3 and "no_more_samples" in library.calls and job.ended
    assert "unnumbered: true" in library.jobs["gpt"].text
    with pytest.raises(ms.InvalidArgument, match="20 numbered samples"):
        with join(model, data=DATA) as numbered:
            next(numbered.steps([X], batch=4))


# As accelerate's, which tells where the loader ends.
SHARD = """
class DataLoaderShard:
    def __init__(self, loader):
        self.loader, self.end_of_dataloader = loader, False

    def __iter__(self):
        self.end_of_dataloader = False
        items = iter(self.loader)
        item = next(items)
        for following in items:
            yield item
            item = following
        self.end_of_dataloader = True
        yield item
"""


@pytest.mark.parametrize("workers", [0, 2])
def test_accelerates_loader_holds_one_back(library, workers):
    names = {"__name__": "accelerate.data_loader"}
    exec(SHARD, names)
    model = make_model()
    job = join(model, data=DATA, epochs=2)
    loader = names["DataLoaderShard"](
        DataLoader(DATA, batch_sampler=job.sampler(2), num_workers=workers))
    with job:
        for _ in job.epochs():
            for number, (x, _) in enumerate(loader, 1):
                model(x).sum().backward()
                if number % 4 == 0 or loader.end_of_dataloader:
                    job.step()
    assert [batches for batches, _ in library.steps] == [4, 4, 2] * 2 and job.ended
