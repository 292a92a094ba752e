"""Local steps, and tensors that cannot be views."""

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

import monsoon as ms  # noqa: E402
from test_torch_loop import X, Y, join, loop, make_model  # noqa: E402


@pytest.mark.parametrize("every", [1, 3])
def test_local_steps_are_those_of_the_optimizer_alone(library, every):
    model, alone = make_model(), make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    own = torch.optim.AdamW(alone.parameters(), lr=0.01)
    with join(model, optimizer=ms.Local(optimizer, every=every)) as job:
        loop(job, model)
    for _ in range(2):
        for ids in (list(range(0, 8)), list(range(8, 16)), list(range(16, 20))):
            own.zero_grad()
            F.cross_entropy(alone(X[ids]), Y[ids]).backward()
            own.step()
    for p, q in zip(model.parameters(), alone.parameters()):
        assert torch.allclose(p, q, atol=1e-6)
    assert f"local {{ steps: {every} }}" in " ".join(library.jobs["gpt"].text.split())
    assert "optimizer" not in library.jobs["gpt"].text
    assert job.stats.bytes_copied == {}


def test_a_scheduler_and_steps_of_the_program_itself(library):
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    local = ms.Local(optimizer, every=2, scheduler=scheduler)
    with join(model, optimizer=local, epochs=1) as job:
        for number, ids in enumerate(job.blocks(20, batch=5)):
            F.cross_entropy(model(X[ids]), Y[ids]).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            if number < 2:
                job.step()
            else:
                before = model[0].weight.detach().clone()
                optimizer.step()
                optimizer.zero_grad()
                moved = model[0].weight.detach().clone()
                job.step(optimizer_stepped=True)
                assert not torch.equal(before, moved)
                assert torch.allclose(model[0].weight, moved, atol=1e-7)
    assert optimizer.param_groups[0]["lr"] == 0.25


def test_a_scaler_steps_the_optimizer():
    calls = []

    class Scaler:
        def step(self, optimizer):
            calls.append("step")
            optimizer.step()

        def update(self):
            calls.append("update")

    class Optimizer:
        def step(self):
            calls.append("optimizer")

        def zero_grad(self):
            calls.append("zero")

    ms.Local(Optimizer(), every=2, scaler=Scaler()).step()
    assert calls == ["step", "optimizer", "update", "zero"]


def transposed():
    model = make_model()
    with torch.no_grad():
        model[0].weight.data = model[0].weight.data.t().contiguous().t()
    assert not model[0].weight.is_contiguous()
    return model


@pytest.mark.parametrize("make, path, tolerance", [
    (transposed, "transposed", 0),
    (lambda: make_model().double(), "float64", 1e-6),
    (lambda: make_model().bfloat16(), "bfloat16", 2e-2),
])
@pytest.mark.parametrize("local", [False, True])
def test_what_is_no_view_is_copied_by_a_named_path(library, make, path, tolerance, local):
    model, alone = make(), make()
    dtype = model[2].weight.dtype
    optimizer = ms.Local(torch.optim.SGD(model.parameters(), lr=0.1)) if local else ms.SGD(0.1)
    with join(model, optimizer=optimizer, epochs=1) as job:
        for ids in job.blocks(20, batch=20):
            F.cross_entropy(model(X.to(dtype)[ids]).float(), Y[ids]).backward()
            job.step()
    F.cross_entropy(alone(X.to(dtype)).float(), Y).backward()
    for p, q in zip(model.parameters(), alone.parameters()):
        expected = q.detach().float() - 0.1 * q.grad.float()
        assert torch.allclose(p.detach().float(), expected, atol=tolerance, rtol=0)
    assert job.stats.bytes_copied["parameter:" + path] > 0
    assert ("gradient:" + path in job.stats.bytes_copied) == (not local)
    if path == "transposed":
        assert not model[0].weight.is_contiguous()


@pytest.mark.parametrize("programs, local, count", [
    (None, {}, 1), (3, {}, 1), (2, {}, 1),
    (None, {"outer": ms.SGD(0.5)}, 0), (None, {"rounds": ms.Rounds()}, 0), (4, {}, 0),
])
def test_differences_that_add_up_are_warned_of_once(library, recwarn, programs, local, count):
    library.programs = 1
    model = torch.nn.Linear(3, 2)
    optimizer = ms.Local(torch.optim.SGD(model.parameters(), lr=0.1), every=1, **local)
    with join(model, optimizer=optimizer, epochs=3, programs=programs) as job:
        for _ in job.blocks(4, batch=1):
            library.programs = 4  # others came
            model(torch.ones(2, 3)).sum().backward()
            job.step()
    found = [str(w.message) for w in recwarn if "add up" in str(w.message)]
    assert len(found) == count
    assert all("4 programs train job gpt" in text and "programs=4" in text for text in found)


def test_rounding_to_half_is_nobodys_progress(library):
    model = torch.nn.Linear(3, 2).bfloat16()
    optimizer = ms.Local(torch.optim.SGD(model.parameters(), lr=0.0), every=1)
    with join(model, optimizer=optimizer, epochs=2) as job:
        for step, _ in enumerate(job.blocks(4, batch=1)):
            if step == 2:
                before = library.jobs["gpt"].values.copy()
            if step == 1:
                # Others have moved the job by less than bfloat16 can tell.
                library.jobs["gpt"].values += 1e-5
            model(torch.ones(2, 3).bfloat16()).sum().backward()
            job.step()
    assert (library.jobs["gpt"].values == before).all()


def test_a_model_that_is_moved_after_the_join_is_followed(library):
    model = make_model()
    optimizer = ms.Local(torch.optim.SGD(model.parameters(), lr=0.1), every=1)
    with join(model, optimizer=optimizer, epochs=1) as job:
        for step, ids in enumerate(job.blocks(20, batch=5)):
            if step == 1:
                for p in model.parameters():
                    p.data = p.data.clone()
            F.cross_entropy(model(X[ids]), Y[ids]).backward()
            model_before = model[0].weight.detach().clone()
            gradient = model[0].weight.grad.clone()
            job.step()
            assert torch.allclose(model[0].weight, model_before - 0.1 * gradient, atol=1e-7)
        fake = library.replicas[0]
        assert model[0].weight.data_ptr() == fake.parameters.ctypes.data
    assert job.stats.bytes_copied["parameter:replaced"] > 0


def test_state_dict_has_the_inner_optimizer(library):
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    with join(model, optimizer=ms.Local(optimizer, every=2), epochs=1) as job:
        loop(job, model)
        state = job.state_dict()
    assert state["job"] == "gpt-1" and state["steps"] == 3
    fresh = torch.optim.Adam(make_model().parameters(), lr=0.5)
    again = join(make_model(), optimizer=ms.Local(fresh, every=2))
    again.load_state_dict(state)
    assert fresh.param_groups[0]["lr"] == 0.01 and len(fresh.state) == 4


def parts_of(model):
    """As Muon and AdamW share a model: matrices, and the rest."""
    matrices = [p for p in model.parameters() if p.ndim == 2]
    return [torch.optim.SGD(matrices, lr=0.1),
            torch.optim.Adam([p for p in model.parameters() if p.ndim < 2], lr=0.01)]


def test_several_optimizers_are_one(library):
    model, alone = make_model(), make_model()
    own = parts_of(alone)
    several = parts_of(model)
    schedulers = [torch.optim.lr_scheduler.ExponentialLR(part, 0.5) for part in several]
    local = ms.Local(several, every=1, scheduler=schedulers)
    assert repr(local) == "Local(SGD+Adam, every=1)"
    with join(model, optimizer=local, epochs=1) as job:
        for step, ids in enumerate(job.blocks(20, batch=5)):
            F.cross_entropy(model(X[ids]), Y[ids]).backward()
            job.step()
            F.cross_entropy(alone(X[ids]), Y[ids]).backward()
            for part, rate in zip(own, (0.1, 0.01)):
                part.param_groups[0]["lr"] = rate * 0.5 ** step
                part.step()
                part.zero_grad()
        state = job.state_dict()
    for p, q in zip(model.parameters(), alone.parameters()):
        assert torch.allclose(p, q, atol=1e-6)
    assert several[1].param_groups[0]["lr"] == 0.01 * 0.5 ** 4
    fresh = parts_of(make_model())
    again = ms.Local(fresh, every=1)
    again.load_state(state["local"])
    assert fresh[1].param_groups[0]["lr"] == several[1].param_groups[0]["lr"]
    assert len(fresh[1].state) == len(several[1].state) == 2
    with pytest.raises(ms.InvalidArgument, match="of 2 optimizers, and there are 3"):
        ms.Local(parts_of(make_model()) + [torch.optim.SGD([torch.zeros(1)], lr=1)]).load_state(
            state["local"])


def test_what_several_cannot_be(library):
    model = make_model()
    with pytest.raises(ms.InvalidArgument, match="two of them step one parameter"):
        ms.Local([torch.optim.SGD(model.parameters(), lr=1)] * 2)
    with pytest.raises(ms.InvalidArgument, match="optimizer has a int; each needs a step"):
        ms.Local([torch.optim.SGD(model.parameters(), lr=1), 3])
    with pytest.raises(ms.InvalidArgument, match="optimizer is an empty list"):
        ms.Local([])
    one = torch.optim.SGD(model.parameters(), lr=1)
    assert ms.Local([one]).optimizer is one
    strange = torch.optim.SGD([torch.zeros(3)], lr=1)
    with pytest.warns(UserWarning, match="steps 1 parameters that the model does not"):
        with join(model, optimizer=ms.Local([one, strange], every=2), epochs=1) as job:
            loop(job, model)


def test_a_loss_tensor_is_read_at_most_once_a_second(library):
    model = make_model()

    class Loss:
        reads = 0

        def detach(self):
            Loss.reads += 1
            return 0.5

    with join(model, epochs=1) as job:
        for ids in job.blocks(20, batch=1):
            model(X[ids]).sum().backward()
            job.step(Loss())
    assert Loss.reads == 1
    assert [loss for _, loss in library.steps] == [0.5] + [None] * 19
