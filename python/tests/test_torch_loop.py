"""Training loops of torch on a fake library: views, steps, landings."""

import gc

import numpy
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

import monsoon as ms  # noqa: E402

X = torch.randn(20, 3, generator=torch.Generator().manual_seed(1))
Y = torch.randint(0, 2, (20,), generator=torch.Generator().manual_seed(2))


def make_model(seed=3):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))


def join(model, **changed):
    settings = dict(job="gpt", model=model, epochs=2, optimizer=ms.SGD(0.1))
    settings.update(changed)
    return ms.join("host:1", **settings)


def loop(job, model, batch=8):
    for ids in job.blocks(len(X), batch=batch):
        loss = F.cross_entropy(model(X[ids]), Y[ids])
        loss.backward()
        job.step(loss)


def test_the_loop_is_sgd_bit_by_bit(library):
    model, alone = make_model(), make_model()
    with join(model) as job:
        loop(job, model)
    for _ in range(2):
        for begin in range(0, 20, 8):
            ids = list(range(begin, min(begin + 8, 20)))
            alone.zero_grad()
            F.cross_entropy(alone(X[ids]), Y[ids]).backward()
            with torch.no_grad():
                for p in alone.parameters():
                    p.copy_(p - 0.1 * p.grad)
    for p, q in zip(model.parameters(), alone.parameters()):
        assert torch.equal(p, q)
    assert job.ended and library.jobs["gpt"].done == list(range(20)) * 2
    assert library.replicas[0].left
    assert library.steps[0][1] is not None and job.stats.steps == 6


def test_parameters_are_views_and_stay_the_same_objects(library):
    model = make_model()
    before = list(model.parameters())
    optimizer = torch.optim.SGD(model.parameters(), lr=1)
    with join(model, examples=20, batch=8) as job:
        fake = library.replicas[0]
        for offset, p in zip(fake.offsets, model.parameters()):
            assert p.data_ptr() == fake.parameters.ctypes.data + 4 * offset
            assert p.grad.data_ptr() == fake.gradient.ctypes.data + 4 * offset
        assert all(p is q for p, q in zip(before, model.parameters()))
        assert optimizer.param_groups[0]["params"][0] is before[0]
        loop(job, model)
        assert job.stats.bytes_copied == {} and job.stats.missing_gradients == 0


def test_padding_stays_zero(library):
    model = make_model()
    with join(model) as job:
        loop(job, model)
        fake = library.replicas[0]
        used = numpy.zeros(fake.size, bool)
        for offset, p in zip(fake.offsets, model.parameters()):
            used[offset:offset + p.numel()] = True
        assert not used.all()
        for vector in (fake.parameters, fake.gradient):
            assert not vector[~used].any()


def use_after_the_job():
    model = make_model()
    with join(model) as job:
        loop(job, model)
    del job
    gc.collect()
    before = model[0].weight.clone()
    model[0].weight.sum().backward()
    return torch.equal(model[0].weight, before)


def test_the_vectors_live_as_long_as_their_views(library):
    assert use_after_the_job()
    gc.collect()
    assert library.freed == [1]


def test_backward_through_a_graph_from_before_a_step_fails(library):
    model = make_model()
    with join(model) as job:
        for ids in job.blocks(20, batch=8):
            loss = F.cross_entropy(model(X[ids]), Y[ids])
            loss.backward(retain_graph=True)
            versions = [p._version for p in model.parameters()]
            job.step(loss)
            assert all(p._version > v for p, v in zip(model.parameters(), versions))
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                loss.backward()
            break


@pytest.mark.parametrize("to_none", [True, False])
def test_gradients_found_in_place_are_not_copied_and_others_gathered_once(library, to_none):
    model, alone = make_model(), make_model()
    with join(model) as job:
        for ids in job.blocks(20, batch=20):
            if to_none:
                for p in model.parameters():
                    p.grad = None
            F.cross_entropy(model(X[ids]), Y[ids]).backward()
            job.step()
            F.cross_entropy(alone(X), Y).backward()
            with torch.no_grad():
                for p, q in zip(model.parameters(), alone.parameters()):
                    assert torch.equal(p, q - 0.1 * q.grad)
                    assert p.grad.data_ptr() != 0 and not p.grad.any()
            break
        size = sum(p.numel() for p in model.parameters()) * 4
        assert job.stats.bytes_copied == ({"gradient:gathered": size} if to_none else {})


def test_a_missing_gradient_is_named_and_counted(library):
    model = make_model()
    with join(model, epochs=1) as job:
        for step, ids in enumerate(job.blocks(20, batch=10)):
            before = model[2].weight.clone()
            if step == 1:
                # What backward has added to the vector is not what is pushed.
                model(X[ids]).sum().backward()
                model.zero_grad(set_to_none=True)
            (model[0](X[ids]).sum()).backward()
            job.step()
            assert torch.equal(model[2].weight, before)
            assert job.stats.missing_gradients == 2 * (step + 1)
    assert library.absent == [[2, 3]] * 2


@pytest.mark.parametrize("way", ["data", "numpy"])
def test_a_gradient_that_is_written_past_torch_is_none_that_is_missing(library, way):
    model = make_model()
    with join(model, epochs=1) as job:
        for ids in job.blocks(20, batch=10):
            bias = model[2].bias
            model[0](X[ids]).sum().backward()
            if way == "data":
                bias.grad.data.fill_(1.0)
            else:
                bias.grad.detach().numpy()[:] = 1.0
            job.step()
            assert job.stats.missing_gradients == 1
            break
    assert library.absent == [[2]]


def test_with_local_steps_no_tensor_is_missing(library):
    model = make_model()
    optimizer = ms.Local(torch.optim.SGD(model.parameters(), lr=0.1), every=1)
    with join(model, optimizer=optimizer, epochs=1) as job:
        for ids in job.blocks(20, batch=10):
            model[0](X[ids]).sum().backward()
            job.step()
    assert library.absent == [[], []]


def test_a_step_without_a_backward_after_one_with_it_misses_all(library):
    model = make_model()
    with join(model, epochs=1) as job:
        for step, ids in enumerate(job.blocks(40, batch=10)):
            if step % 2 == 0:
                F.cross_entropy(model(X[ids % 20]), Y[ids % 20]).backward()
            job.step()
            assert job.stats.missing_gradients == 4 * ((step + 1) // 2)
    assert library.absent == [[], [0, 1, 2, 3]] * 2


def test_sparse_gradients_are_refused_by_name(library):
    sparse = torch.nn.Sequential(torch.nn.Embedding(4, 2, sparse=True))
    with pytest.raises(ms.UnsupportedTensor, match=r"0\.weight would have sparse gradients"):
        join(sparse)
    model = make_model()
    with pytest.raises(ms.UnsupportedTensor, match=r"gradient of 0\.weight is sparse"):
        with join(model) as job:
            for _ in job.blocks(4, batch=2):
                model[0].weight.grad = torch.zeros(5, 3).to_sparse()
                job.step()
    assert library.replicas[0].left


def test_statistics_travel_and_counters_stay(library):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    with join(model, epochs=1) as job:
        for ids in job.blocks(20, batch=5):
            model(X[ids]).sum().backward()
            expected = model[1].running_mean.clone()
            job.step()
            assert torch.allclose(model[1].running_mean, expected)
        assert job.stats.local == ["1.num_batches_tracked"]
        told = {name: kind for name, _, kind, _ in library.jobs["gpt"].tensors}
        assert told["1.running_mean"] == told["1.running_var"] == 1 and told["1.weight"] == 0
        assert int(model[1].num_batches_tracked) == 4
        offset = library.replicas[0].offsets[list(told).index("1.running_mean")]
        assert numpy.allclose(library.jobs["gpt"].values[offset:offset + 4],
                              model[1].running_mean.numpy())


def test_a_buffer_that_the_module_replaces_is_followed(library):
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(2))
            self.register_buffer("mean", torch.zeros(2))

        def forward(self, x):
            self.mean = self.mean + 1
            return (self.weight * x).sum()

    model = Counter()
    with join(model, epochs=1) as job:
        for count, _ in enumerate(job.blocks(6, batch=2), 1):
            model(torch.ones(2)).backward()
            job.step()
            assert model.mean.tolist() == [count, count]
    assert job.stats.bytes_copied["parameter:replaced"] > 0


def test_tied_weights_travel_once(library):
    model = torch.nn.Sequential(torch.nn.Linear(3, 3, bias=False),
                                torch.nn.Linear(3, 3, bias=False))
    model[1].weight = model[0].weight
    with join(model) as job:
        for _ in job.blocks(4, batch=2):
            model(X).sum().backward()
            job.step()
    assert library.jobs["gpt"].tensors == [("0.weight", (3, 3), 0, ["1.weight"])]
    assert model[1].weight is model[0].weight


def test_accumulation_counts_what_was_drawn_and_the_pause_counts_the_rest(library):
    model = make_model()
    with join(model, epochs=1) as job:
        for number, ids in enumerate(job.blocks(20, batch=4), 1):
            F.cross_entropy(model(X[ids]), Y[ids]).backward()
            if number % 2 == 0:
                job.step()
    assert [batches for batches, _ in library.steps] == [2, 2, 1]
    assert sorted(library.jobs["gpt"].done) == list(range(20)) and job.ended
