"""Evaluations, lost sessions, signals, forks and errors."""

import os
import random
import signal

import numpy
import pytest

torch = pytest.importorskip("torch")

import monsoon as ms  # noqa: E402
from fake_library import EVALUATE, GO  # noqa: E402
from test_torch_loop import X, join, make_model  # noqa: E402


def run(job, model, on_step=lambda: None):
    for ids in job.blocks(20, batch=5):
        model(X[ids]).sum().backward()
        job.step()
        on_step()


def test_an_evaluation_sees_other_values_and_leaves_no_trace(library):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(), torch.nn.Linear(4, 2))
    model[1].eval()
    library.events[2] = (EVALUATE, 0)
    seen = {}

    def evaluate(evaluated):
        assert evaluated is model and not model.training and not torch.is_grad_enabled()
        seen["weight"] = model[0].weight.detach().clone()
        seen["random"] = random.random(), numpy.random.rand(), torch.rand(1)
        return {"loss": torch.tensor(0.5), "accuracy": 0.25, "f1": 1}

    states = []

    def on_step():
        states.append((random.getstate(), numpy.random.get_state()[1].copy(),
                       torch.get_rng_state(), model[0].weight.detach().clone()))

    with join(model, epochs=1, evaluate=evaluate) as job:
        run(job, model, on_step)
    assert library.reports == [({"loss": 0.5, "accuracy": 0.25, "f1": 1.0}, None)]
    assert torch.equal(seen["weight"], states[1][3] + 1)
    assert states[0][0] == states[1][0] and (states[0][1] == states[1][1]).all()
    assert torch.equal(states[0][2], states[1][2])
    assert model.training and not model[1].training and model[0].training


def test_an_evaluation_that_raises_restores_and_tells_the_job(library):
    model = make_model()
    library.events[1] = (EVALUATE, 0)

    def evaluate(_):
        raise ZeroDivisionError("no samples")

    with pytest.raises(ZeroDivisionError):
        with join(model, epochs=1, evaluate=evaluate) as job:
            run(job, model)
    assert library.reports == [({}, "evaluate(): ZeroDivisionError: no samples")]
    fake = library.replicas[0]
    assert (fake.parameters == fake.job.values).all() and model.training and fake.left


def test_an_evaluation_restores_what_is_copied(library):
    model = make_model().bfloat16()
    library.events[1] = (EVALUATE, 0)
    seen = []
    kept = []
    with join(model, epochs=1,
              evaluate=lambda m: seen.append(m[0].weight.detach().clone()) or 1.5) as job:
        for ids in job.blocks(20, batch=10):
            model(X[ids].bfloat16()).sum().backward()
            job.step()
            kept.append(model[0].weight.detach().clone())
            break
        assert torch.allclose(seen[0].float(), kept[0].float() + 1, atol=0.02)
        values = library.jobs["gpt"].values
        assert torch.equal(model[0].weight.float().flatten(),
                           torch.from_numpy(values[:15]).bfloat16().float())
    assert library.reports == [({"loss": 1.5}, None)]


def test_what_evaluate_returns_is_checked(library):
    from monsoon.evaluation import metrics
    assert metrics(None) == {} and metrics(0.5) == {"loss": 0.5}
    with pytest.raises(ms.InvalidArgument, match=r"evaluate\(\)'s loss is 'x'"):
        metrics({"loss": "x"})
    with pytest.raises(ms.InvalidArgument, match="named a figure ''"):
        metrics({"": 1})


def test_a_lost_session_counts_nothing_and_its_batches_come_again(library):
    model = make_model()
    library.events[2] = (GO, 1)
    with join(model, epochs=1) as job:
        run(job, model)
    assert sorted(library.jobs["gpt"].done) == list(range(20)) and len(library.steps) == 5
    assert job.stats.discarded == 1 and job.ended


def test_a_wait_that_a_signal_broke_goes_on(library):
    model = make_model()
    library.interrupt = {"join", "begin", "draw", "step"}
    with join(model, epochs=1) as job:
        run(job, model)
    assert library.calls.count("wait") == 3
    assert sorted(library.jobs["gpt"].done) == list(range(20))


@pytest.mark.parametrize("number, raised", [(signal.SIGINT, KeyboardInterrupt),
                                            (signal.SIGTERM, SystemExit)])
def test_a_signal_leaves_the_job(library, number, raised):
    model = make_model()
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(raised) as caught:
        with join(model, epochs=1) as job:
            for ids in job.blocks(20, batch=5):
                model(X[ids]).sum().backward()
                os.kill(os.getpid(), number)
                job.step()
    assert library.replicas[0].left and not job.ended
    assert signal.getsignal(signal.SIGTERM) is before
    if raised is SystemExit:
        assert caught.value.code == 143


def test_an_own_handler_of_sigterm_stays(library):
    mine = lambda *_: None
    before = signal.signal(signal.SIGTERM, mine)
    try:
        with join(make_model(), examples=20, batch=5):
            assert signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_fork_is_refused_with_the_reason(library):
    with join(make_model(), examples=20, batch=5) as job:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            said = "nothing raised"
            try:
                job.step()
            except BaseException as error:
                said = f"{type(error).__name__} {error}"
            finally:
                job.leave()
                said += " left" if library.replicas[0].left else " stays"
                os.write(writer, said.encode())
                os._exit(0)
        os.close(writer)
        said = os.read(reader, 4096).decode()
        os.close(reader)
        os.waitpid(child, 0)
        assert said.startswith("Forked ") and f"its fork {child}" in said and said.endswith("stays")
        assert not library.replicas[0].left


@pytest.mark.parametrize("code, kind", [(1, ms.JobCancelled), (8, ms.OutOfResources),
                                        (9, ms.NotNow), (10, ms.JobFailed), (13, ms.Internal),
                                        (14, ms.Unreachable)])
def test_codes_become_exceptions_and_the_job_is_left(library, code, kind):
    model = make_model()
    library.fail["step"] = (code, "shard ps/1 is lost")
    with pytest.raises(kind, match="shard ps/1 is lost") as caught:
        with join(model, epochs=1) as job:
            run(job, model)
    assert library.replicas[0].left and caught.value.code != "UNKNOWN"


def test_errors_of_a_join(library):
    for message, kind in (("job gpt-1 has other settings: batch_size is 64 here", ms.SettingsDiffer),
                          ("tensor x: no shape", ms.InvalidArgument)):
        library.fail["join"] = (3, message)
        with pytest.raises(kind, match=message):
            join(make_model(), examples=20, batch=5).__enter__()
    library.fail["join"] = (9, "the cluster has version 0.2.0, this program 0.1.0")
    with pytest.raises(ms.VersionsDiffer, match="0.2.0"):
        join(make_model(), examples=20, batch=5).__enter__()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_second_program_that_differs_is_refused(library):
    with join(make_model(), examples=20, batch=5):
        with pytest.raises(ms.SettingsDiffer, match="batch_size"):
            with join(make_model(), examples=20, batch=4):
                pass


def test_calls_at_the_wrong_time_say_so(library):
    model = make_model()
    job = join(model)
    with pytest.raises(ms.NotNow, match="write `with job:`"):
        next(iter(job.blocks(20, batch=5)))
    with pytest.raises(ms.NotNow, match="not entered yet"):
        job.id
    with job:
        with pytest.raises(ms.InvalidArgument, match="how many samples are there"):
            next(iter(job.blocks()))
        blocks = job.blocks(20, batch=5)
        next(blocks)
        job.step()
        with pytest.raises(ms.NotNow, match="0 batches are drawn"):
            job.step()
        with pytest.raises(ms.InvalidArgument, match="batch is 6 here, but 5"):
            next(job.blocks(20, batch=6))
        assert repr(job) == "<monsoon.Job 'gpt', entered>"
    with pytest.raises(ms.NotNow, match="was left"):
        job.step()
    with pytest.raises(ms.NotNow, match="join again"):
        job.__enter__()


def test_an_exception_of_the_loop_is_not_hidden_by_leaving(library, capsys):
    library.fail["leave"] = (14, "the helper process is gone")
    with pytest.raises(ZeroDivisionError):
        with join(make_model(), examples=20, batch=5):
            1 / 0
    assert "the helper process is gone" in capsys.readouterr().err
