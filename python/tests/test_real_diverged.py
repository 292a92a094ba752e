"""One sick program beside a healthy one, on the built library and a cluster of real processes.
Skipped unless a build is named, as test_real.py. Both programs are in this process, and take
their steps in turn, so that no speed decides what is seen."""

import re
import threading

import numpy
import pytest

import monsoon as ms
from test_real import DEADLINE_S, cluster, client, net, pytestmark, torch_parts  # noqa: F401

SAMPLES, BATCH, EPOCHS = 400, 10, 2
BATCHES = SAMPLES // BATCH * EPOCHS
NAN = float("nan")


def counting(address, name, every=1, **settings):
    """A job, and its model: an array that each counted batch lowers by 1."""
    model = {"w": numpy.zeros(20, "f4")}
    given = {"outer": ms.SGD(1.0), **settings.pop("local", {})}
    return ms.join(address, job=name, model=model, epochs=EPOCHS, examples=SAMPLES, batch=BATCH,
                   optimizer=ms.Local(None, every=every, **given), **settings), model


def steps(job, model, moved=1.0, loss=None):
    """A batch, and its step, for each next()."""
    for _ in job.blocks():
        model["w"] -= moved
        job.step(loss)
        yield


def events(told):
    return [(event["kind"], event["task"]) for event in told["events"]]


def texts(told, kind):
    return [event["text"] for event in told["events"] if event["kind"] == kind]


def check_whole(client, job, steps_of_the_healthy):  # noqa: F811
    """The job has succeeded, and each batch has been counted once, by the healthy program."""
    told = client.describe(job.id)
    assert told["state"] == "SUCCEEDED" and told["progress"]["percent"] == 100, told["reason"]
    assert told["data"]["blocks_done"] == told["data"]["blocks"] * EPOCHS
    assert steps_of_the_healthy == BATCHES
    assert (client.load(job.id)["w"] == -BATCHES).all()
    return told


@pytest.mark.filterwarnings("ignore:.*programs train job")
@pytest.mark.parametrize("divergence", [None, "skip"])
def test_ten_pushes_that_are_not_finite_are_the_programs_end(cluster, client, divergence):  # noqa: F811
    name = f"sick-{divergence or 'reject'}"
    sick, sick_model = counting(cluster.address, name, divergence=divergence)
    well, well_model = counting(cluster.address, name, divergence=divergence)
    taken = {"sick": 0, "well": 0}
    with well:
        good = steps(well, well_model)
        with pytest.raises(ms.ProgramDiverged) as raised, sick:
            for _ in steps(sick, sick_model, moved=NAN):
                taken["sick"] += 1
                assert taken["sick"] < 20, "it is told before it does more in vain"
                next(good)
                taken["well"] += 1
        for _ in good:
            taken["well"] += 1
    said = str(raised.value)
    assert f"job {well.id} goes on without this program" in said and "w[0]" in said
    assert "10 pushes refused in a row" in said and "start the program again" in said
    told = check_whole(client, well, taken["well"])
    task = f"worker/{sick.stats.worker}"
    assert ("worker_diverged", task) in events(told) and "diverged" not in dict(events(told))
    assert told["counts"]["refused"] == 10
    assert task in said and texts(told, "worker_diverged")[0] in said


@pytest.mark.filterwarnings("ignore:.*programs train job")
def test_a_loss_that_is_no_number_is_the_programs_end_at_once(cluster, client):  # noqa: F811
    sick, sick_model = counting(cluster.address, "sick-loss")
    well, well_model = counting(cluster.address, "sick-loss")
    with well:
        good = steps(well, well_model)
        next(good)
        with pytest.raises(ms.ProgramDiverged, match="loss is nan"), sick:
            for _ in steps(sick, sick_model, loss=NAN):
                pass
        check_whole(client, well, 1 + sum(1 for _ in good))


@pytest.mark.filterwarnings("ignore:.*programs train job")
def test_moments_that_are_not_finite_are_found_after_one_push(cluster, client):  # noqa: F811
    """torch's AdamW, which one NaN batch spoils for good."""
    torch, x, y = torch_parts(SAMPLES)
    loss_of = torch.nn.functional.cross_entropy

    def program():
        model = net(torch)
        return model, ms.join(
            cluster.address, job="sick-moments", model=model, epochs=EPOCHS, examples=SAMPLES,
            batch=BATCH, programs=2,
            optimizer=ms.Local(torch.optim.AdamW(model.parameters(), lr=0.01), every=2))

    def train(model, job, spoilt=None):
        for step, ids in enumerate(job.blocks(), 1):
            inputs = x[ids] * NAN if step == spoilt else x[ids]
            loss_of(model(inputs), y[ids]).backward()
            job.step()
            yield step

    (sick_model, sick), (well_model, well) = program(), program()
    with well:
        good = train(well_model, well)
        with pytest.raises(ms.ProgramDiverged) as raised, sick:
            for step in train(sick_model, sick, spoilt=3):
                assert step < 12, "it is told before it does more in vain"
                next(good)
        for _ in good:
            pass
    assert f"job {well.id} goes on without this program" in str(raised.value)
    assert re.search(rf"worker/{sick.stats.worker} step \d+: what AdamW keeps is not finite: "
                     "exp_avg of 0.weight", str(raised.value))
    told = client.describe(well.id)
    assert told["state"] == "SUCCEEDED" and told["counts"]["refused"] in (1, 2)
    assert told["data"]["blocks_done"] == told["data"]["blocks"] * EPOCHS
    assert ("worker_diverged", f"worker/{sick.stats.worker}") in events(told)
    assert all(numpy.isfinite(array).all() for array in client.load(well.id).values())


def test_rounds_do_not_wait_for_a_sick_program(cluster, client):  # noqa: F811
    """Each is a thread: in rounds they wait for each other."""
    settings = {"local": {"outer": None, "rounds": ms.Rounds()}}
    ends = {}

    def train(kind, moved):
        job, model = counting(cluster.address, "sick-rounds", **settings)
        try:
            with job:
                ready.wait()
                ends[kind] = sum(1 for _ in steps(job, model, moved=moved))
        except ms.MonsoonError as error:
            ends[kind] = error

    ready = threading.Barrier(2, timeout=DEADLINE_S)
    threads = [threading.Thread(target=train, args=of, daemon=True)
               for of in (("sick", NAN), ("well", 1.0))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert isinstance(ends["sick"], ms.ProgramDiverged)
    told = client.describe("sick-rounds")
    assert told["state"] == "SUCCEEDED" and ends["well"] == BATCHES
    assert (client.load("sick-rounds")["w"] == -BATCHES).all()


def test_the_job_fails_with_its_last_program(cluster, client):  # noqa: F811
    job, model = counting(cluster.address, "sick-alone")
    with pytest.raises(ms.JobFailed, match="has failed: diverged: .* 10 pushes refused in a row"):
        with job:
            for _ in steps(job, model, moved=NAN):
                pass
    told = client.describe(job.id)
    assert told["state"] == "FAILED" and told["reason"].startswith("diverged: worker/")


def test_or_waits_for_another_and_says_why(cluster, client):  # noqa: F811
    job, model = counting(cluster.address, "sick-waits", divergence="skip")
    with pytest.raises(ms.ProgramDiverged):
        with job:
            for _ in steps(job, model, moved=NAN):
                pass
    told = client.describe(job.id)
    assert told["state"] == "PENDING" and told["counts"]["pushes"] == 0
    assert "waits for a program to join" in told["reason"]
    assert "10 pushes refused in a row" in told["reason"]
    well, model = counting(cluster.address, "sick-waits", divergence="skip")
    with well:
        taken = sum(1 for _ in steps(well, model))
    assert well.id == job.id
    check_whole(client, well, taken)
