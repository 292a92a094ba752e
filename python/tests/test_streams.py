"""Positions of streams: steps(state=...)."""

import math

import pytest
import torch
import torch.nn.functional as F

import monsoon as ms
from monsoon import streams
from monsoon.streams import packed, unpacked

X, Y = torch.randn(8, 4), torch.arange(8) % 2


class Numbers:
    """0, 1, 2, ... `count` of them, that can go on anywhere, as torchdata's StatefulDataLoader."""

    def __init__(self, count=50, at=0):
        self.count, self.at, self.loaded = count, at, []

    def __iter__(self):
        while self.at < self.count:
            self.at += 1
            yield self.at - 1

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.loaded.append(state)
        self.at = state["at"]


@pytest.fixture(autouse=True)
def every_item(monkeypatch):
    """The state is read after each item, however long that takes."""
    monkeypatch.setattr(streams, "_FAST_S", math.inf)


def join(model, job="stream", **settings):
    torch.manual_seed(0)
    return ms.join("127.0.0.1:2222", job=job, model=model, max_steps=100,
                   optimizer=settings.pop("optimizer", ms.SGD(0.1)), **settings)


def backward(model):
    F.cross_entropy(model(X), Y).backward()


def at(library, name="part-0"):
    state = library.jobs["stream"].streams.get(name)
    return None if state is None else unpacked(state)["at"]


def test_a_position_is_told_with_the_step_that_counts_its_item(library):
    model, told = torch.nn.Linear(4, 2), []
    with join(model) as job:
        for item in job.steps(Numbers(3), batch=8, state="part-0"):
            told.append(at(library))
            backward(model)
            job.step()
    assert told == [None, 1, 2] and at(library) == 3
    # Before the step itself.
    assert library.calls.index("note_position") == library.calls.index("step") - 1


def test_another_program_goes_on_there(library, capsys):
    library.stream_again = 2
    numbers = Numbers()
    for expected in ([0, 1, 2], [3, 4, 5]):
        model, seen = torch.nn.Linear(4, 2), []
        with join(model) as job:
            for item in job.steps(numbers, batch=8, state="part-0"):
                seen.append(item)
                backward(model)
                job.step()
                if len(seen) == 3:
                    break
        assert seen == expected
        numbers = Numbers()
    assert capsys.readouterr().err == ("monsoon: stream part-0 of stream-1 goes on where worker/3 "
                                       "was at its push 5; 2 pushes of what follows are read "
                                       "again\n")


def test_what_was_looked_ahead_at_is_not_counted(library):
    model = torch.nn.Linear(4, 2)
    with join(model) as job:
        for item, last in job.accumulate(job.steps(Numbers(5), batch=8, state="part-0"), 2):
            backward(model)
            if last:
                job.step()
                # The last group is known to be the last after a look at what comes.
                assert at(library) == item + 1
    assert at(library) == 5


def test_steps_that_count_fewer_items_than_were_read(library):
    model, told = torch.nn.Linear(4, 2), []
    with join(model) as job:
        for item in job.steps(Numbers(4), batch=8, state="part-0"):
            if item % 2 == 0:
                continue
            backward(model)
            job.step(batches=1)
            told.append(at(library))
    assert told == [1, 2]
    assert at(library) == 4  # at the stream's end the rest is counted


def test_positions_of_a_lost_session_are_not_told(library):
    library.events = {2: (0, 1)}
    model, told = torch.nn.Linear(4, 2), []
    with join(model) as job:
        for item in job.steps(Numbers(4), batch=8, state="part-0"):
            backward(model)
            job.step()
            told.append(at(library))
    assert told == [1, 1, 3, 4]


def test_a_second_loop_over_it_goes_on_where_this_program_is(library):
    model, numbers = torch.nn.Linear(4, 2), Numbers()
    with join(model) as job:
        for item in job.steps(numbers, batch=8, state="part-0"):
            backward(model)
            job.step()
            if item == 1:
                break
        for item in job.steps(numbers, batch=8, state="part-0"):
            assert item >= 2
            backward(model)
            job.step()
            if item == 3:
                break
    assert numbers.loaded == [] and at(library) == 4
    assert library.calls.count("take_stream") == 1


def test_the_state_of_something_else(library):
    model, keeper = torch.nn.Linear(4, 2), Numbers()
    items = iter(keeper)
    with join(model) as job:
        for item in job.steps((next(items) for _ in range(3)), batch=8, state="part-1",
                              state_of=keeper):
            backward(model)
            job.step()
    assert at(library, "part-1") == 3


def test_with_local_steps(library):
    model = torch.nn.Linear(4, 2)
    local = ms.Local(torch.optim.SGD(model.parameters(), lr=0.1), every=2)
    with join(model, optimizer=local) as job:
        for item in job.steps(Numbers(5), batch=8, state="part-0"):
            backward(model)
            job.step()
    assert at(library) == 5


def test_the_state_is_read_as_often_as_it_costs_little(library, monkeypatch):
    monkeypatch.setattr(streams, "_FAST_S", 0)
    monkeypatch.setattr(streams, "_SHARE", 1e-9)
    model = torch.nn.Linear(4, 2)
    with join(model) as job:
        for item in job.steps(Numbers(5), batch=8, state="part-0"):
            backward(model)
            job.step()
    assert at(library) == 1  # the first, and none after it within a second


def test_what_cannot_be_kept_is_refused_before_anything_is_read(library):
    model = torch.nn.Linear(4, 2)
    for wrong, message in (({"state": "part-0"}, "list without state_dict()"),
                           ({"state": ""}, "state=''"), ({"state": 3}, "state=3"),
                           ({"state": "p", "state_of": object()}, "object without state_dict()")):
        with join(model, job="wrong") as job, pytest.raises(ms.InvalidArgument) as error:
            job.steps([1, 2], batch=8, **wrong)
        assert message in str(error.value)

    class Strange(Numbers):
        def state_dict(self):
            return {"at": object()}

    strange = Strange()
    with join(model, job="strange") as job, pytest.raises(ms.InvalidArgument) as error:
        next(iter(job.steps(strange, batch=8, state="part-0")))
    assert "part-0 can be kept neither as JSON" in str(error.value)
    assert strange.at == 0


def test_states_are_json_where_that_gives_them_back():
    for state in ({"at": 3, "of": [1.5, "x", None, True]}, [], 7, "text"):
        assert packed(state, "s")[:1] == b"J" and unpacked(packed(state, "s")) == state
    other = {3: (1, 2), "rng": torch.arange(3)}
    text = packed(other, "s")
    assert text[:1] == b"T"
    back = unpacked(text)
    assert back[3] == (1, 2) and torch.equal(back["rng"], other["rng"])
