"""The package on the built library and a cluster of real processes. Skipped unless a build is
named: MONSOON_BIN=bazel-bin python/tests/package_test.sh tests/test_real.py"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import textwrap

import numpy
import pytest

import monsoon as ms
from monsoon import _library, _programs

HERE = pathlib.Path(__file__).resolve().parent
DEADLINE_S = 120


def built():
    try:
        return all(_programs.find(name) for name in ("libmonsoon.so", "monsoon_sidecar",
                                                     "coordinator", "ps_server"))
    except ms.LibraryNotFound:
        return False


pytestmark = pytest.mark.skipif(not built(), reason="no build of the library is named")


@pytest.fixture(scope="module")
def cluster():
    before = _library.use(None)
    with ms.local_cluster(ps=2, settings=["lost_after_ms: 1000 heartbeat_ms: 100"]) as running:
        yield running
    _library.use(before)


@pytest.fixture
def client(cluster):
    return ms.Client(cluster.address)


def torch_parts(samples=100):
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    x = torch.randn(samples, 20, generator=torch.Generator().manual_seed(1))
    return torch, x, (x[:, 0] > 0).long()


def net(torch, seed=1):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.Tanh(), torch.nn.Linear(30, 2))


def test_one_program_in_turn_is_sgd_bit_by_bit(cluster, client):
    torch, x, y = torch_parts()
    model, alone = net(torch), net(torch)
    loss_of = torch.nn.functional.cross_entropy
    with ms.join(cluster.address, job="bits", model=model, optimizer=ms.SGD(0.1), epochs=10,
                 overlap=False) as job:
        steps = 0
        for ids in job.blocks(len(x), batch=10):
            loss_of(model(x[ids]), y[ids]).backward()
            alone.zero_grad()
            loss_of(alone(x[ids]), y[ids]).backward()
            with torch.no_grad():
                for p in alone.parameters():
                    p.copy_(p - (0.1 * p.grad))
            job.step()
            steps += 1
            assert all(torch.equal(p, q) for p, q in zip(model.parameters(), alone.parameters()))
    assert steps == 100 and job.stats.bytes_copied == {} and job.stats.missing_gradients == 0
    told = client.describe(job.id)
    assert told["state"] == "SUCCEEDED" and told["counts"]["pushes"] == 100
    arrays = client.load(job.id)
    for name, p in model.named_parameters():
        assert numpy.array_equal(arrays[name], p.detach().numpy())


@pytest.mark.parametrize("every", [1, 7])
def test_local_steps_of_one_program(cluster, every):
    torch, x, y = torch_parts()
    model, alone = net(torch), net(torch)
    loss_of = torch.nn.functional.cross_entropy
    own = torch.optim.AdamW(alone.parameters(), lr=0.01)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    with ms.join(cluster.address, job=f"local{every}", model=model, epochs=3,
                 optimizer=ms.Local(optimizer, every=every)) as job:
        for ids in job.blocks(len(x), batch=10):
            loss = loss_of(model(x[ids]), y[ids])
            loss.backward()
            job.step(loss)
            own.zero_grad()
            loss_of(alone(x[ids]), y[ids]).backward()
            own.step()
    for p, q in zip(model.parameters(), alone.parameters()):
        assert torch.allclose(p, q, atol=1e-5)


def test_a_resumed_job_goes_on_as_if_it_had_not_ended(cluster):
    """Parameters, Adagrad's state and the place in the data: the bits of a job in one piece."""
    torch, x, y = torch_parts()
    client = ms.Client(cluster.path)

    def train(name, epochs, seed):
        model = net(torch, seed)
        with ms.join(cluster.address, job=name, model=model, optimizer=ms.Adagrad(0.1),
                     epochs=epochs, overlap=False, seed=3) as job:
            for ids in job.blocks(len(x), batch=10):
                torch.nn.functional.cross_entropy(model(x[ids]), y[ids]).backward()
                job.step()
        return job

    whole = train("whole", 4, seed=1)
    half = train("half", 2, seed=1)
    resumed = client.resume(half.id, settings={"stop.epochs": 4})
    assert resumed.startswith("half-") and resumed != half.id
    with pytest.raises(ms.SettingsDiffer, match="epochs"):
        train("half", 3, seed=5)
    job = train("half", 4, seed=5)  # its own initial values count nothing
    assert job.id == resumed and job.stats.steps == 20
    told = client.describe(resumed)
    assert told["state"] == "SUCCEEDED" and told["progress"]["step"] == 40
    one, other = client.load(whole.id), client.load(resumed)
    assert all(numpy.array_equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("outer, period", [(ms.Nesterov(0.5, 0.5), 1),
                                           (ms.DelayedNesterov(0.5, 0.5, period=3), 3)])
def test_an_outer_optimizer_gets_the_differences(cluster, client, outer, period):
    """One program in turn: after each push it trains on from what a scalar oracle says."""
    every, w = 4, numpy.zeros((20, 3), "f4")
    model = {"w": w}
    theta, b, total, pushes = numpy.zeros(w.shape), 0, numpy.zeros(w.shape), 0
    with ms.join(cluster.address, job=f"outer{period}", model=model, epochs=3, overlap=False,
                 optimizer=ms.Local(None, every=every, outer=outer)) as job:
        for step, _ in enumerate(job.blocks(80, batch=10), 1):
            moved = numpy.array([step % 3, -(step % 5), 0.25], "f4")
            model["w"] -= moved
            total += moved
            job.step(0.0)
            if step % every == 0:
                pushes += 1
                delta, total = total, numpy.zeros(w.shape)
                if period == 1:
                    b = 0.5 * b + delta
                    theta -= 0.5 * (delta + 0.5 * b)
                else:
                    held = delta if pushes % period == 1 else held + delta
                    closes = pushes % period == 0
                    b = 0.5 * b + held / period if closes else b
                    theta -= 0.5 * (delta / period + (0.5 * b if closes else 0))
                if not job.ended:
                    assert numpy.allclose(model["w"], theta, atol=1e-4), step
    assert pushes == 6 == client.describe(job.id)["counts"]["pushes"]
    assert numpy.allclose(client.load(job.id)["w"], theta, atol=1e-4)


@pytest.mark.parametrize("given", [{}, {"mixing": 0.5}, {"changes": "bfloat16"}])
def test_fragments_of_a_program_leave_in_turn(cluster, client, given):
    """Four tensors, four fragments, alone and in turn: a scalar for each is the oracle."""
    every, count, steps = 8, 4, 48
    model = {f"blocks.{i}.w": numpy.zeros((128, 128), "f4") for i in range(count)}  # a stripe each
    mixing = given.get("mixing", 0)
    w, base, local = [0.0] * count, [0.0] * count, [0.0] * count
    pushes = 0
    name = "fragments" + "".join(given)
    with ms.join(cluster.address, job=name, model=model, epochs=6, overlap=False,
                 optimizer=ms.Local(None, every=every, outer=ms.SGD(0.5),
                                    fragments=ms.Fragments(count), **given)) as job:
        for step, _ in enumerate(job.blocks(80, batch=10), 1):
            for i in range(count):
                moved = (i + 1) * (1 + step % 3)
                model[f"blocks.{i}.w"] += moved
                local[i] += moved
            job.step(0.0)
            if step % (every // count) == 0:
                i, pushes = pushes % count, pushes + 1
                w[i] -= 0.5 * (base[i] - local[i])
                local[i] = mixing * local[i] + (1 - mixing) * w[i]
                base[i] = w[i]
            if not job.ended:
                for i in range(count):
                    values = model[f"blocks.{i}.w"]
                    assert (values == values[0, 0]).all(), (step, i)
                    assert numpy.isclose(values[0, 0], local[i], atol=1e-3), (step, i)
    assert step == steps
    # At the end all but the last one are pushed once more.
    told = client.describe(job.id)
    assert told["state"] == "SUCCEEDED" and pushes == 24
    assert told["counts"]["pushes"] == pushes + count - 1
    for i in range(count):
        w[i] -= 0.5 * (base[i] - local[i]) if i != (pushes - 1) % count else 0
        assert numpy.allclose(client.load(job.id)[f"blocks.{i}.w"], w[i], atol=2e-3), i


def test_evaluations_statistics_and_half(cluster, client):
    torch, x, y = torch_parts()
    model = torch.nn.Sequential(torch.nn.Linear(20, 8), torch.nn.BatchNorm1d(8),
                                torch.nn.Linear(8, 2).bfloat16())
    seen = []

    def forward(x):
        return model[2](model[1](model[0](x)).bfloat16()).float()

    def evaluate(evaluated):
        assert not evaluated.training
        seen.append({n: t.detach().clone() for n, t in evaluated.state_dict().items()})
        with torch.no_grad():
            return {"loss": torch.nn.functional.cross_entropy(forward(x), y), "extra": 3}

    with ms.join(cluster.address, job="parts", model=model, optimizer=ms.Adam(0.01), epochs=40,
                 evaluate=evaluate, evaluate_every=1, data=x, batch=10) as job:
        for ids in job.blocks():
            torch.nn.functional.cross_entropy(forward(x[ids]), y[ids]).backward()
            job.step()
    told = client.describe(job.id)
    assert told["state"] == "SUCCEEDED" and len(told["evaluations"]) == len(seen) >= 2
    assert job.stats.bytes_copied["parameter:bfloat16"] > 0
    arrays = client.load(job.id)
    assert numpy.allclose(arrays["1.running_mean"], seen[-1]["1.running_mean"].numpy())
    assert numpy.allclose(arrays["1.running_mean"], model[1].running_mean.numpy(), atol=1e-6)
    assert arrays["1.running_var"].any() and "1.num_batches_tracked" not in arrays


def test_a_loader_with_workers(cluster, client):
    torch, x, y = torch_parts()
    from torch.utils.data import DataLoader, TensorDataset
    model, data = net(torch), None
    data = TensorDataset(x, y)
    job = ms.join(cluster.address, job="loader", model=model, optimizer=ms.SGD(0.1), epochs=3,
                  data=data)
    loader = DataLoader(data, batch_sampler=job.sampler(10), num_workers=2)
    epochs, samples = [], 0
    with job:
        for epoch in job.epochs():
            epochs.append(epoch)
            for xs, ys in loader:
                torch.nn.functional.cross_entropy(model(xs), ys).backward()
                job.step()
                samples += len(xs)
    assert samples == 300 and sorted(set(epochs)) == [0, 1, 2]
    assert client.describe(job.id)["progress"]["examples"] == 300


def test_data_of_unknown_length(cluster, client):
    model = {"w": numpy.zeros(40, "f4")}
    with ms.join(cluster.address, job="stream", model=model, optimizer=ms.SGD(1.0)) as job:
        for item in job.steps(iter(range(25)), batch=2):
            job.step(gradients={"w": numpy.full(40, -1, "f4")}, examples=2)
            assert item is not None
    assert client.describe(job.id)["state"] == "SUCCEEDED"
    assert client.load(job.id)["w"].tolist() == [25] * 40


def test_settings_that_differ_are_refused(cluster):
    model = {"w": numpy.zeros(40, "f4")}
    with ms.join(cluster.address, job="same", model=model, optimizer=ms.SGD(1.0), epochs=1,
                 examples=10, batch=2):
        with pytest.raises(ms.SettingsDiffer, match="batch_size"):
            ms.join(cluster.address, job="same", model={"w": numpy.zeros(40, "f4")},
                    optimizer=ms.SGD(1.0), epochs=1, examples=10, batch=5).__enter__()
        with pytest.raises(ms.SettingsDiffer, match="w"):
            ms.join(cluster.address, job="same", model={"w": numpy.zeros(50, "f4")},
                    optimizer=ms.SGD(1.0), epochs=1, examples=10, batch=2).__enter__()


def test_nobody_there():
    port = ms.cluster.free_ports(1)[0]
    with pytest.raises(ms.Unreachable, match=str(port)):
        ms.join(f"127.0.0.1:{port}", job="a", model={"w": numpy.zeros(4, "f4")}, epochs=1,
                optimizer=ms.SGD(1.0), examples=10, batch=2, connect_timeout_s=1).__enter__()


PROGRAM = textwrap.dedent("""
    import sys, numpy, monsoon as ms
    model = {"w": numpy.zeros(5000, "f4")}
    job = ms.join(sys.argv[1], job=sys.argv[2], model=model, optimizer=ms.SGD(1.0), epochs=30,
                  examples=400, batch=4)
    with job:
        print("in", flush=True)
        sys.stdin.readline()  # until all are
        for ids in job.blocks():
            print("step", flush=True)
            job.step(gradients={"w": numpy.full(5000, -1, "f4")})
        print("ended" if job.ended else "not ended", flush=True)
""")


def start(cluster, name):
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    return subprocess.Popen([sys.executable, "-c", PROGRAM, cluster.address, name], text=True,
                            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


@pytest.mark.parametrize("number, code", [(signal.SIGKILL, -9), (signal.SIGTERM, 143),
                                          (signal.SIGINT, -2)])
def test_a_program_that_ends_early_loses_nothing(cluster, client, number, code):
    name = f"ends{int(number)}"
    programs = [start(cluster, name) for _ in range(3)]
    assert [program.stdout.readline() for program in programs] == ["in\n"] * 3
    for program in programs:
        program.stdin.write("go\n")
        program.stdin.flush()
    lines = [programs[0].stdout.readline() for _ in range(20)]
    programs[0].send_signal(number)
    out = [program.communicate(timeout=DEADLINE_S) for program in programs]
    assert lines == ["step\n"] * 20
    assert programs[0].returncode == code, out[0][1]
    assert [p.returncode for p in programs[1:]] == [0, 0], (out[1][1], out[2][1])
    assert all(text.endswith("ended\n") and "not ended" not in text for text, _ in out[1:])
    jobs = [told["job"] for told in client.jobs() if told["job"].startswith(name + "-")]
    assert len(jobs) == 1, out
    told = client.describe(jobs[0])
    assert told["state"] == "SUCCEEDED"
    # Each of 100 batches of 30 epochs counts. What is leased is a block of 8: that which the
    # program was in, and one whose end it had not told yet, are done again.
    assert told["progress"]["examples"] >= 12000
    values = client.load(jobs[0])["w"]
    assert (values == values[0]).all() and 3000 <= values[0] <= 3016


@pytest.mark.parametrize("every", [0, 5])
def test_a_helper_process_that_dies_is_replaced(cluster, client, every):
    model = {"w": numpy.zeros(40, "f4")}
    optimizer = ms.Local(None, every=every) if every else ms.SGD(1.0)
    name = f"helper{every}"
    killed = set()
    with ms.join(cluster.address, job=name, model=model, optimizer=optimizer, epochs=20,
                 overlap=False) as job:
        for number, _ in enumerate(job.blocks(40, batch=4)):
            if number in (10, 40, 80):
                pid = job.stats.sidecar_pid
                assert pid > 1 and pid not in killed
                killed.add(pid)
                os.kill(pid, signal.SIGKILL)
            if every:
                model["w"] += 1
                job.step()
            else:
                job.step(gradients={"w": numpy.full(40, -1, "f4")})
    assert job.ended and len(killed) == 3
    assert job.stats.sessions == 4 and job.stats.discarded >= 3
    told = client.describe(job.id)
    assert told["state"] == "SUCCEEDED"
    # Nobody said what the loss is, nor how many were right.
    assert told["progress"]["loss"] is None and told["progress"]["train_accuracy"] is None
    values = client.load(job.id)["w"]
    assert (values == model["w"]).all() and (values == values[0]).all()
    # 20 epochs of 10 steps. What is leased are blocks of 8: of the dead one's two all is done
    # again.
    assert 200 <= values[0] <= 200 + 3 * 16


@pytest.mark.parametrize("n_push, kill", [(1, False), (3, False), (1, True)])
def test_rows_are_those_of_float64(cluster, n_push, kill):
    """Of one program in turn: n_push steps make one push, whose rows are added up. A helper that
    dies within a step, between its fetch and its push, costs that step alone."""
    table = ms.Table("words", 500, 3, lr=0.3, initial_sum=0.1, constant=0.25)
    other = ms.Table("large", 2_000_000, 8, normal=1.0)
    random = numpy.random.default_rng(5)
    values, sums = numpy.full((500, 3), 0.25), numpy.full(500, 0.1)
    summed, killed = {}, 0
    with ms.join(cluster.address, job=f"rows{n_push}{'k' * kill}", model={"w": numpy.zeros(64, "f4")},
                 optimizer=ms.SGD(1.0), epochs=4, overlap=False, n_push=n_push,
                 tables=[table, other]) as job:
        far = None
        for number, _ in enumerate(job.blocks(120, batch=4)):
            rows = random.integers(0, 500, 40)  # some of them twice
            fetched = job.fetch_rows("words", rows)
            if not summed:  # else there are rows of steps that were not pushed yet
                assert numpy.abs(fetched - values[rows]).max() < 1e-5
            if far is None:
                far = job.fetch_rows("large", [0, 1_999_999])
                assert 0.2 < far.std() < 3 and not (far[0] == far[1]).any()
            gradient = (fetched - random.normal(size=(40, 3))).astype("f4")
            job.push_rows("words", rows, gradient)
            if kill and number % 25 == 7:
                os.kill(job.stats.sidecar_pid, signal.SIGKILL)
                killed += 1
            discarded = job.stats.discarded
            job.step(gradients={"w": numpy.zeros(64, "f4")})
            if job.stats.discarded != discarded:
                continue
            for row, part in zip(rows, gradient.astype("f8")):
                summed[row] = summed.get(row, 0) + part
            if (number + 1) % n_push == 0:
                for row, part in summed.items():
                    sums[row] += (part ** 2).mean()
                    values[row] -= 0.3 * part / (numpy.sqrt(sums[row]) + 1e-8)
                summed = {}
        assert job.ended and killed == job.stats.discarded and (killed > 2) == kill
        # Also after the end.
        assert numpy.abs(job.fetch_rows("words", numpy.arange(500)) - values).max() < 1e-5
        assert (job.fetch_rows("large", [0, 1_999_999]) == far).all()


def test_an_embedding_of_two_programs_learns(cluster, client):
    torch, _, _ = torch_parts()
    program = textwrap.dedent("""
        import sys, torch, monsoon as ms
        torch.manual_seed(0)
        torch.set_num_threads(1)
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.words = ms.Embedding(1_000_000, 16, lr=0.2)
                self.out = torch.nn.Linear(16, 2)
            def forward(self, ids):
                return self.out(self.words(ids).mean(1))
        model = Model()
        ids = torch.randint(0, 1_000_000, (1000, 4))
        ids[:, 0] = torch.randint(0, 20, (1000,))
        labels = ids[:, 0] % 2
        def evaluate(model):
            out = model(ids)
            return {"loss": torch.nn.functional.cross_entropy(out, labels),
                    "accuracy": (out.argmax(1) == labels).float().mean()}
        with ms.join(sys.argv[1], job="words", model=model, optimizer=ms.Adagrad(0.1), epochs=6,
                     evaluate=evaluate) as job:
            for b in job.blocks(len(ids), batch=20):
                torch.nn.functional.cross_entropy(model(ids[b]), labels[b]).backward()
                job.step()
            with torch.no_grad():
                print(evaluate(model)["accuracy"].item())
    """)
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    both = [subprocess.Popen([sys.executable, "-c", program, cluster.address], env=environment,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(2)]
    out = [part.communicate(timeout=DEADLINE_S) for part in both]
    assert [part.returncode for part in both] == [0, 0], out
    assert all(float(told) > 0.95 for told, _ in out), out


def test_torch_imported_before_and_after(cluster):
    pytest.importorskip("torch")
    for order in ("import torch, monsoon as ms", "import monsoon as ms; ms._library.load(); "
                  "import torch"):
        code = order + textwrap.dedent(f"""
            model = torch.nn.Linear(3, 2)
            name = "order{len(order)}"
            with ms.join({cluster.address!r}, job=name, model=model, optimizer=ms.SGD(0.1),
                         epochs=2) as job:
                for ids in job.blocks(10, batch=5):
                    model(torch.ones(len(ids), 3)).sum().backward()
                    job.step()
            print(job.ended)
        """)
        told = subprocess.run([sys.executable, "-c", code], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=DEADLINE_S, check=False,
                              env={**os.environ, "PYTHONPATH": str(HERE.parent)})
        assert told.stdout == "True\n", told.stderr


def test_the_example_in_c(cluster, client):
    example = pathlib.Path(_programs.find("libmonsoon.so")).parent / "example"
    if not example.is_file():
        pytest.skip("the example is not built")
    environment = {**os.environ, "MONSOON_SIDECAR": _programs.find("monsoon_sidecar")}
    both = [subprocess.Popen([example, cluster.address], text=True, env=environment,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    out = [program.communicate(timeout=DEADLINE_S) for program in both]
    assert [program.returncode for program in both] == [0, 0], out
    # y = 0.5 + sum of (i + 1) x_i.
    values = client.load(next(job["job"] for job in client.jobs() if job["name"] == "linear"))
    assert numpy.abs(values["weight"] - numpy.arange(1, 9)).max() < 0.05, values
    assert abs(values["bias"] - 0.5) < 0.05


def test_alone():
    before = _library.use(None)
    model = {"w": numpy.zeros(4, "f4")}
    with ms.join(None, job="alone", model=model, optimizer=ms.SGD(0.5), epochs=2) as job:
        for _ in job.blocks(10, batch=5):
            job.step(gradients={"w": numpy.full(4, -1, "f4")})
    assert job.ended and model["w"].tolist() == [2, 2, 2, 2]
    assert re.match("alone-1$", job.id)
    _library.use(before)
