"""What a program does to its model within the block, on a fake library: it goes on, or is told."""

import numpy
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

import monsoon as ms  # noqa: E402
from monsoon import binding, witness  # noqa: E402
from test_torch_loop import X, Y, join, make_model  # noqa: E402


def steps(job, model, count=4):
    for number, ids in enumerate(job.blocks(20, batch=2)):
        F.cross_entropy(model(X[ids]), Y[ids]).backward()
        yield number
        job.step()
        if number + 1 == count:
            return


def alone(count=4, scale=1.0):
    model = make_model()
    for number in range(count):
        ids = [2 * number, 2 * number + 1]
        model.zero_grad()
        F.cross_entropy(model(X[ids]), Y[ids]).backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.1 * scale * p.grad
    return [p.detach() for p in model.parameters()]


def agrees(model, expected):
    return all(torch.allclose(p, q, atol=1e-6) for p, q in zip(model.parameters(), expected))


@pytest.mark.parametrize("cast", [
    lambda m: m.double().float(), lambda m: m.share_memory(), lambda m: m.bfloat16().float(),
    lambda m: [setattr(p, "data", p.data.clone()) for p in m.parameters()]])
@pytest.mark.parametrize("local", [False, True])
def test_a_cast_or_move_is_counted_and_training_goes_on(library, cast, local):
    model, name = make_model(), "parameter:"
    optimizer = ms.Local(torch.optim.SGD(model.parameters(), lr=0.1), every=1) if local else (
        ms.SGD(0.1))
    with join(model, optimizer=optimizer) as job:
        for number in steps(job, model):
            if number == 1:
                cast(model)
        assert any(path.startswith(name) for path in job.stats.bytes_copied)
        assert job.stats.missing_gradients == 0
        values = library.jobs["gpt"].values
        for offset, p in zip(library.replicas[0].offsets, model.parameters()):
            assert numpy.allclose(values[offset:offset + p.numel()],
                                  p.detach().numpy().ravel(), atol=1e-6)
    assert all(torch.allclose(p, q, atol=1e-2) for p, q in zip(model.parameters(), alone()))


def test_shared_memory_stays_where_others_have_mapped_it(library):
    model = make_model()
    model.share_memory()
    before = [p.data_ptr() for p in model.parameters()]
    with join(model) as job:
        for _ in steps(job, model):
            pass
    assert [p.data_ptr() for p in model.parameters()] == before and agrees(model, alone())
    assert set(job.stats.bytes_copied) == {"parameter:shared"}


@pytest.mark.parametrize("change", [
    lambda p: setattr(p.grad, "data", p.grad.data * 0.5),
    lambda p: p.grad.set_((p.grad * 0.5).detach()),
    lambda p: setattr(p, "grad", p.grad * 0.5),
    lambda p: p.grad.data.mul_(0.5)])
def test_gradients_of_other_memory_are_those_that_count(library, change):
    model = make_model()
    with join(model) as job:
        for _ in steps(job, model):
            for p in model.parameters():
                change(p)
    assert agrees(model, alone(scale=0.5)) and job.stats.missing_gradients == 0


def test_gradients_that_change_places_are_read_before_they_are_written(library):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 4))
    with join(model, optimizer=ms.SGD(1.0)) as job:
        a, b = model[0].bias, model[1].bias
        for _ in job.blocks(4, batch=2):
            before = a.detach().clone(), b.detach().clone()
            a.grad.fill_(1.0)
            b.grad.fill_(2.0)
            a.grad, b.grad = b.grad, a.grad
            job.step()
            assert torch.equal(a, before[0] - 2) and torch.equal(b, before[1] - 1)


@pytest.mark.parametrize("change", [
    lambda m: m[0].weight.data.clamp_(-0.1, 0.1), lambda m: torch.nn.init.zeros_(m[0].weight),
    lambda m: setattr(m[0].weight, "data", torch.zeros(5, 3)),
    lambda m: m[0].weight.detach().numpy().fill(1)])
@pytest.mark.parametrize("way", ["shards", "local", "ignore"])
def test_what_the_program_writes_is_kept_or_refused_by_name(library, change, way):
    model = make_model()
    how = {"ignore": {"in_place": "ignore"}, "shards": {}, "local": {
        "optimizer": ms.Local(torch.optim.SGD(model.parameters(), lr=0.0), every=1)}}[way]

    def run():
        with join(model, **how) as job:
            for number in steps(job, model):
                if number == 1:
                    change(model)
                    written = model[0].weight.detach().clone()
        return torch.allclose(model[0].weight, written, atol=1e-6)

    if way == "shards":
        with pytest.raises(ms.ModelChanged, match=r"^0\.weight was changed by the program.*Local"):
            run()
    else:
        assert run() == (way == "local")


def test_a_change_is_told_before_a_draw_may_land(library):
    model = make_model()
    with pytest.raises(ms.ModelChanged, match=r"0\.bias"):
        with join(model) as job:
            for _ in steps(job, model):
                library.lost_draw = library.calls.count("draw") + 2
                model[0].bias.data.add_(1)
                job.step = lambda: None
    assert library.calls.count("draw") < library.lost_draw


def test_a_value_that_stays_is_no_change(library):
    model = make_model()
    with join(model) as job:
        for _ in steps(job, model):
            with torch.no_grad():
                model[0].weight.clamp_(-100, 100)
    assert agrees(model, alone())


@pytest.mark.parametrize("size, calls", [(1000, 1), (200_000, 4)])
def test_each_value_is_compared_in_its_turn(size, calls):
    vector = numpy.zeros(size, "f4")
    bounds = [("a", 0, size // 2), ("b", size // 2, size)]
    told = witness.Witness(vector, bounds)
    assert told.sees_all == (calls == 1)
    for at in (0, 777, size // 2, size - size // 4, size - 1):
        found = []
        for _ in range(calls):
            told.keep()
            vector[at] += 1
            found += told.changed()
        assert set(found) == {"a" if at < size // 2 else "b"}, at
    told.keep()
    assert told.changed() == []
    vector[:] = 7  # all of it is seen at once
    assert told.changed() == ["a", "b"]


def grow(model):
    model.add_module("more", torch.nn.Linear(2, 2))


def replace(model):
    model[2].weight = torch.nn.Parameter(model[2].weight.detach().clone())


@pytest.mark.parametrize("change, said", [
    (grow, r"more\.weight, more\.bias came after join"),
    (replace, r"2\.weight: another Parameter"),
    (lambda m: m[2].register_parameter("bias", None), r"2\.bias went after join"),
    (lambda m: m.__setitem__(2, torch.nn.Identity()), r"2\.weight, 2\.bias went after join"),
    (lambda m: m[0].bias.requires_grad_(True), r"0\.bias needed no gradient at join.*frozen="),
])
@pytest.mark.parametrize("local", [False, True])
def test_another_model_is_told_by_name(library, change, said, local):
    model = make_model()
    model[0].bias.requires_grad_(False)
    optimizer = ms.Local(torch.optim.SGD(model[2].parameters(), lr=0.1), every=100) if local else (
        ms.SGD(0.1))
    with pytest.raises(ms.ModelChanged, match=said):
        with join(model, optimizer=optimizer) as job:
            for number in steps(job, model):
                if number == 1:
                    change(model)


@pytest.mark.parametrize("local", [False, True])
def test_another_model_is_told_before_a_push_of_it_where_looks_are_rare(library, monkeypatch, local):
    monkeypatch.setattr(binding, "_LOOKS", 0)
    monkeypatch.setattr(binding, "_LOOK_EVERY", 10**9)
    model = make_model()
    optimizer = ms.Local(torch.optim.SGD(model.parameters(), lr=0.1), every=1) if local else (
        ms.SGD(0.1))
    with join(model, optimizer=optimizer) as job, pytest.raises(ms.ModelChanged):
        for number, ids in enumerate(job.blocks(20, batch=2)):
            if number == 2:
                model[0].weight = torch.nn.Parameter(model[0].weight.detach().clone())
            F.cross_entropy(model(X[ids]), Y[ids]).backward()
            job.step()
    assert number == 2 and library.steps[2:] == [] and job.stats.steps == 2


def test_what_can_be_taken_over_is(library):
    model = make_model()
    with join(model) as job, pytest.warns(UserWarning, match="ours.scale came after join"):
        for number in steps(job, model, 8):
            if number == 1:
                model.add_module("more", torch.nn.Dropout(0.0))
            if number == 2:
                model.add_module("ours", torch.nn.Linear(2, 2).requires_grad_(False))
            if number == 3:
                model.ours.register_buffer("scale", torch.ones(2))
        assert {"ours.weight", "ours.bias", "ours.scale"} <= set(job.stats.local)


def test_what_is_frozen_has_no_gradient_and_may_be_thawed(library):
    model = make_model()
    model[0].requires_grad_(False)
    with join(model, frozen="shards") as job:
        assert job.stats.local == []
        for number in steps(job, model):
            if number == 1:
                model[0].requires_grad_(True)
    # Only that between backward and step is missed: what is frozen has none to miss.
    assert library.absent == [[0, 1], [0, 1], [], []] and job.stats.missing_gradients == 2


@pytest.mark.parametrize("others", [0, 1])
def test_parameters_that_only_the_optimizer_has_are_warned_of(library, recwarn, others):
    model, extra = make_model(), [torch.nn.Parameter(torch.ones(7))] * others
    optimizer = torch.optim.SGD([*model.parameters(), *extra], lr=0.1)
    with join(model, optimizer=ms.Local(optimizer), examples=20, batch=2):
        pass
    found = [str(w.message) for w in recwarn if "does not have" in str(w.message)]
    assert len(found) == others and all("of shape (7,)" in text for text in found)


@pytest.mark.parametrize("how, said", [
    ({"frozen": "no"}, "frozen='no': there are local, shards"),
    ({"in_place": "keep"}, "in_place='keep': there are refuse, ignore"),
    ({"replay_window": 0}, "replay_window is 0; it must be a number of bytes"),
    ({"replay_window": "1 GiB"}, "replay_window is '1 GiB'; it must be"),
    ({"in_place": "ignore", "optimizer": ms.Local(None)}, "means nothing with Local"),
])
def test_words_that_mean_nothing_are_refused(how, said):
    with pytest.raises(ms.InvalidArgument, match=said):
        join(make_model(), **how)


def test_arrays_that_the_loop_writes_to_are_refused_on_shards(library):
    for change in (lambda m: m["w"].fill(3), lambda m: m.update(w=numpy.ones(20, "f4")),
                   lambda m: m["d"].fill(3)):
        model = {"w": numpy.zeros(20, "f4"), "d": numpy.zeros(5)}
        with pytest.raises(ms.ModelChanged, match="[wd] was changed by the program.*Local"):
            with ms.join("host:1", job=f"n{len(library.jobs)}", model=model, epochs=2,
                         optimizer=ms.SGD(0.1)) as job:
                for _ in job.blocks(4, batch=2):
                    job.step()
                    change(model)


class OptimizedModule(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self._orig_mod = module


def test_wraps_are_no_part_of_names(library):
    model = torch.nn.Sequential(OptimizedModule(torch.nn.Linear(3, 2)), torch.nn.BatchNorm1d(2))
    wrapped = torch.nn.DataParallel(OptimizedModule(model))
    with join(wrapped, examples=20, batch=2):
        assert [name for name, *_ in library.jobs["gpt"].tensors] == [
            "0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var"]
