"""Tables of rows: what a loop fetches and pushes, and the torch module on top of it."""

import copy
import pickle

import numpy
import pytest

import monsoon as ms
from fake_library import GO

WORDS = ms.Table("words", 100, 4, lr=0.5)


def join(model=None, **changed):
    model = {"w": numpy.zeros(2, numpy.float32)} if model is None else model
    return ms.join("host:1", **{**dict(job="rows", model=model, epochs=1, optimizer=ms.SGD(0.1),
                                       tables=[WORDS]), **changed})


def test_a_table_is_text_of_the_model():
    assert ms.Table("t", 5, 2, normal=0.1).text() == {
        "name": "t", "rows": 5, "columns": 2, "initializer": {"normal": 0.1},
        "optimizer": {"learning_rate": 0.01, "epsilon": 1e-8, "initial_sum": 0.0}}
    assert WORDS.text()["initializer"] is None


@pytest.mark.parametrize("wrong, text", [
    (dict(rows=0), "0 rows"), (dict(columns=0), "0 columns"), (dict(lr=-1.0), "lr is -1.0"),
    (dict(lr=0.0), "above 0"), (dict(normal=1.0, constant=2.0), "normal and constant"),
    (dict(uniform=float("nan")), "must be finite")])
def test_a_table_that_cannot_be_is_refused(wrong, text):
    with pytest.raises(ms.InvalidArgument, match=text):
        ms.Table(**{**dict(name="t", rows=5, columns=2), **wrong})


def test_rows_are_fetched_in_order_and_pushed_with_the_step(library):
    with join() as job:
        for _ in job.blocks(8, batch=8):
            assert 'name: "words"' in library.replicas[0].job.tables
            values = job.fetch_rows("words", [7, 3, 7])
            assert values.dtype == numpy.float32
            assert values.tolist() == [[7.0] * 4, [3.0] * 4, [7.0] * 4]
            job.push_rows("words", [7, 7], numpy.ones((2, 4)))
            assert library.replicas[0].job.rows[0, 7][0] == 7  # nothing leaves before the step
            job.step()
        assert library.replicas[0].job.rows[0, 7].tolist() == pytest.approx([6.8] * 4)
        assert job.fetch_rows("words", numpy.array([7]))[0, 0] == pytest.approx(6.8)
    with pytest.raises(ms.NotNow, match="left"):
        job.fetch_rows("words", [1])


@pytest.mark.parametrize("rows, text", [([100], "row 100 of 100"), ([-1], "row -1 of 100"),
                                        ([0.5], "numbers"), ([[1]], "shape")])
def test_rows_that_are_not_there(library, rows, text):
    with join() as job:
        for _ in job.blocks(8, batch=8):
            with pytest.raises(ms.InvalidArgument, match=text):
                job.fetch_rows("words", rows)
            with pytest.raises(ms.InvalidArgument, match="no table 'word'"):
                job.fetch_rows("word", [1])
            with pytest.raises(ms.InvalidArgument, match="gradients of shape"):
                job.push_rows("words", [1], numpy.zeros(4))
            job.step()


def test_tables_need_gradients(library):
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(2, 2)
    with pytest.raises(ms.InvalidArgument, match="Local cannot be with 'words'"):
        join(model, optimizer=ms.Local(torch.optim.SGD(model.parameters(), 0.1), every=5))


# What a fetch tells of a lost session waits for the step, within which alone anything changes.
def test_a_session_that_is_lost_within_a_fetch(library):
    counted = []
    with join() as job:
        for number, ids in enumerate(job.blocks(16, batch=8)):
            if number == 0:
                library.row_events = [(GO, 1, 1)]
            job.fetch_rows("words", [1])
            job.push_rows("words", [1], numpy.ones((1, 4)))
            before = len(library.steps)
            job.step()
            counted.append(len(library.steps) - before)
    assert counted[0] == 0 and sum(counted) == 2
    assert sorted(library.replicas[0].job.done) == list(range(16))
    assert job.stats.discarded == 1


# ---- the torch module --------------------------------------------------------------------

def module(torch, **changed):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words = ms.Embedding(100, 4, **changed)
            self.out = torch.nn.Linear(4, 1, bias=False)
            torch.nn.init.ones_(self.out.weight)

        def forward(self, ids):
            return self.out(self.words(ids).sum(1))
    return Model()


def test_an_embedding_moves_as_torchs(library):
    torch = pytest.importorskip("torch")
    model = module(torch)
    own = torch.nn.Embedding(100, 4)
    with torch.no_grad():
        own.weight.copy_(torch.arange(100.0)[:, None].expand(100, 4))
    out = torch.nn.Linear(4, 1, bias=False)
    torch.nn.init.ones_(out.weight)
    sgd = torch.optim.SGD([*own.parameters(), *out.parameters()], 1e-4)
    ids = torch.tensor([[1, 2, 2], [5, 1, 99]])
    with join(model, tables=(), optimizer=ms.SGD(1e-4)) as job:
        assert model.words.monsoon_table.name == "words"
        for _ in job.blocks(32, batch=8):
            for _ in range(2):  # accumulation
                (model(ids) ** 2).mean().backward()
                (out(own(ids).sum(1)) ** 2).mean().backward()
            assert torch.allclose(model.out.weight.grad, out.weight.grad)
            with torch.no_grad():
                model(ids)  # leaves nothing
            job.step()
            sgd.step()
            sgd.zero_grad()
    rows = library.replicas[0].job.rows
    for row in (1, 2, 5, 99):
        assert rows[0, row] == pytest.approx(own.weight[row].detach().numpy(), rel=1e-5)


def test_a_row_of_padding_is_zero_and_stays(library):
    torch = pytest.importorskip("torch")
    model = module(torch, padding_idx=0, name="tokens")
    with join(model, tables=()) as job:
        for _ in job.blocks(8, batch=8):
            assert model.words(torch.tensor([0])).tolist() == [[0.0] * 4]
            model(torch.tensor([[0, 3]])).sum().backward()
            job.step()
    assert library.replicas[0].job.rows[0, 0].tolist() == [0.0] * 4
    assert library.replicas[0].job.rows[0, 3][0] == pytest.approx(2.9)
    assert 'name: "tokens"' in library.replicas[0].job.tables


def test_an_embedding_says_what_is_wrong(library):
    torch = pytest.importorskip("torch")
    model = module(torch)
    with pytest.raises(ms.NotNow, match="within `with job:`"):
        model(torch.tensor([[1]]))
    with pytest.raises(ms.InvalidArgument, match="padding_idx is 100"):
        ms.Embedding(100, 4, padding_idx=100)
    with join(model, tables=()) as job:
        for _ in job.blocks(8, batch=8):
            with pytest.raises(ms.InvalidArgument, match="row 100 of 100"):
                model(torch.tensor([[100]]))
            with pytest.raises(ms.InvalidArgument, match="float32"):
                model(torch.tensor([[1.0]]))
            for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model.words))):
                with pytest.raises(ms.NotNow):
                    copied(torch.tensor([[1]]))
            job.step()
    with pytest.raises(ms.NotNow, match="left"):
        model(torch.tensor([[1]]))
