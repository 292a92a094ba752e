"""Callbacks for trainers, with stand-ins for the trainers; tests/process/trainers.py has the real
ones."""

import types

import pytest

torch = pytest.importorskip("torch")

import monsoon as ms  # noqa: E402
from monsoon import callbacks, following  # noqa: E402
from monsoon._place import Following, Lengths, Place  # noqa: E402
from test_torch_loop import X, make_model  # noqa: E402
from trainer_stand_ins import HuggingFace, Lightning, load, stand_in  # noqa: E402

SETTINGS = dict(examples=20, batch=4, every=2)


def loss_of(model, ids):
    return model(X[ids]).sum()


@pytest.fixture
def told(monkeypatch):
    """What a coordinator tells of the job's place, in epochs."""
    place = types.SimpleNamespace(epochs=None)
    monkeypatch.setattr(following, "place_of", lambda job: place.epochs)
    return place


@pytest.fixture
def lightning(monkeypatch, told):
    stand_in(monkeypatch, "lightning.pytorch.callbacks", Callback=object)
    return load(monkeypatch, "monsoon.lightning").MonsoonCallback


@pytest.fixture
def hugging(monkeypatch, told):
    stand_in(monkeypatch, "transformers", TrainerCallback=object, Trainer=HuggingFace)
    return load(monkeypatch, "monsoon.huggingface")


def falling(optimizer, steps):
    return torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=steps)


def plain_rates(schedule, steps):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    scheduler, rates = schedule(optimizer, steps), []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


def loader_of(callback):
    return torch.utils.data.DataLoader(range(20), batch_sampler=callback.sampler)


@pytest.mark.parametrize("accumulate, steps", [(1, 10), (2, 6), (4, 4)])
def test_lightning(library, lightning, accumulate, steps):
    callback = lightning("host:1", "net", **SETTINGS)
    model, loader = make_model(), loader_of(callback)
    with pytest.raises(ms.NotNow, match="before training has begun"):
        next(iter(loader))
    assert len(loader) == 5
    trainer = Lightning(callback, accumulate, schedule=falling)
    trainer.fit(model, loader, loss_of)
    assert callback.job.ended and library.replicas[0].left
    assert sorted(library.jobs["net"].done) == sorted(list(range(20)) * 2)
    assert len(library.steps) == steps
    assert trainer.rates == plain_rates(falling, steps)
    assert (trainer.max_epochs, trainer.max_steps, trainer.current_epoch) == (2, -1, 2)
    values = library.jobs["net"].values
    assert torch.equal(model[0].weight.flatten(), torch.from_numpy(values[:15]))


def test_lightnings_schedule_by_epochs(library, lightning):
    callback = lightning("host:1", "net", epochs=3, **SETTINGS)
    trainer = Lightning(callback, max_epochs=1000, interval="epoch",
                        schedule=lambda optimizer, _: torch.optim.lr_scheduler.StepLR(optimizer, 1))
    trainer.fit(make_model(), loader_of(callback), loss_of)
    assert trainer.rates == pytest.approx([0.1] * 5 + [0.01] * 5 + [0.001] * 5)


def test_lightnings_max_steps_are_the_optimizers(library, lightning):
    callback = lightning("host:1", "net", **SETTINGS)
    trainer = Lightning(callback, accumulate=2, max_epochs=-1, max_steps=5)
    try:
        trainer.fit(make_model(), loader_of(callback), loss_of)
    finally:
        assert "steps: 9" in library.joined[0][1]  # 2, 2 and 1 batches, 2 and 2


def test_a_job_that_has_ended_is_not_trained(library, lightning, monkeypatch):
    for expected in 10, 0:
        callback = lightning("host:1", "net", **SETTINGS)
        monkeypatch.setattr(ms.Client, "load", lambda self, job: {
            name: torch.zeros(shape).numpy() for name, shape, _, _ in library.jobs["net"].tensors})
        trainer = Lightning(callback)
        trainer.fit(make_model(), loader_of(callback), loss_of)
        assert callback.job.ended and trainer.global_step == expected


def test_lightning_leaves_on_an_exception(library, lightning):
    callback = lightning("host:1", "net", **SETTINGS)

    def broken(model, ids):
        raise ZeroDivisionError

    trainer = Lightning(callback)
    with pytest.raises(ZeroDivisionError):
        trainer.fit(make_model(), loader_of(callback), broken)
    assert library.replicas[0].left and trainer.max_epochs == 2


def arguments(**more):
    return types.SimpleNamespace(**{**dict(
        gradient_accumulation_steps=1, train_batch_size=4, num_train_epochs=2.0, max_steps=-1,
        ignore_data_skip=False, dataloader_num_workers=0, dataloader_pin_memory=False,
        dataloader_persistent_workers=False, device="cpu", save_strategy="no"), **more})


@pytest.mark.parametrize("accumulate, steps", [(1, 10), (2, 6), (4, 4)])
def test_huggingface(library, hugging, accumulate, steps):
    callback, args = hugging.MonsoonCallback("host:1", "net", every=2), arguments(
        gradient_accumulation_steps=accumulate)
    trainer = hugging.MonsoonTrainer(make_model(), args, range(20), [callback], loss_of)
    trainer.train()
    assert callback.job.ended and library.replicas[0].left
    assert sorted(library.jobs["net"].done) == sorted(list(range(20)) * 2)
    assert len(library.steps) == steps and trainer.state.epoch == 2
    assert trainer.rates == [0.1 * (1 - i / steps) for i in range(steps)]
    assert args.max_steps == -1 and not args.ignore_data_skip


def test_huggingface_leaves_on_an_exception(library, hugging):
    def broken(model, ids):
        raise ZeroDivisionError

    callback = hugging.MonsoonCallback("host:1", "net", every=2)
    with pytest.raises(ZeroDivisionError):
        hugging.MonsoonTrainer(make_model(), arguments(), range(20), [callback], broken).train()
    assert library.replicas[0].left


def test_huggingface_without_the_loop_is_refused(library, hugging):
    callback = hugging.MonsoonCallback("host:1", "net", every=2)
    with pytest.raises(ms.InvalidArgument, match="MonsoonTrainer"):
        callback.on_train_begin(arguments(), None, None, model=make_model())
    with pytest.raises(ms.InvalidArgument, match="0 of the callbacks"):
        hugging.MonsoonTrainer(make_model(), arguments(), range(20), [], loss_of).train()


def test_all_settings_of_local_and_join(library, told):
    job = callbacks.TrainerJob(
        "host:1", "net", data=range(20), batch=4, every=4, outer=ms.Nesterov(0.7, 0.9),
        rounds=ms.Rounds(), fragments=ms.Fragments(2), dynamic=True, weight="tokens", seed=7,
        epochs=1, push_format="int4", divergence="skip")
    model = make_model()
    job.settle(1)
    job.begin(model, torch.optim.SGD(model.parameters(), lr=0.1))
    text = library.joined[0][1]
    for part in ("nesterov", "rounds", "fragments", "dynamic: true", "TOKENS", "seed: 7", "INT4",
                 "SKIP", "examples: 20", "epochs: 1"):
        assert part in text, part
    job.end()


@pytest.mark.parametrize("settings, said", [
    (dict(evry=3), "neither"), (dict(scheduler=1), "trainer's own"), (dict(schedules="x"), "own")])
def test_other_settings_are_refused(settings, said):
    with pytest.raises(ms.InvalidArgument, match=said):
        callbacks.TrainerJob("host:1", "net", **settings)


def test_what_is_not_known_is_asked_for():
    with pytest.raises(ms.InvalidArgument, match="how many samples has a batch"):
        callbacks.TrainerJob("host:1", "net", examples=20).settle(1)


def test_a_schedule_goes_on_where_the_job_is(library, lightning, told):
    """A program that comes in the middle, and one of two."""
    told.epochs, library.programs = 1.4, 2
    callback = lightning("host:1", "net", epochs=4, **SETTINGS)
    trainer = Lightning(callback, schedule=falling)
    trainer.fit(make_model(), loader_of(callback), loss_of)
    expected = plain_rates(falling, 20)
    assert trainer.rates[0] == expected[7]
    assert trainer.rates[-1] == expected[-1]


def test_own_schedules(library, lightning, told):
    told.epochs, library.programs = 1.4, 2
    callback = lightning("host:1", "net", epochs=4, schedules="own", **SETTINGS)
    trainer = Lightning(callback, schedule=falling)
    trainer.fit(make_model(), loader_of(callback), loss_of)
    assert trainer.rates == plain_rates(falling, 20)


def test_the_place_of_two_programs():
    place = Place(10, lambda: None)
    place.begin()
    place.counted(2, 0, 2)
    assert place.batches() == 4
    place.counted(4, 0, 2)
    assert place.batches() == 10     # this epoch has no more
    place.counted(1, 1, 3)
    assert place.batches() == 13     # the last one is done
    place.counted(1, 1, 1)
    assert place.batches() == 13     # never back


def test_what_the_coordinator_tells_of_an_epoch_before_is_late():
    answers = [0.0, 0.9]
    place = Place(10, lambda: answers.pop(0))
    place.begin()
    place.counted(1, 1, 2)
    place._asking.join()
    assert place.batches() == 12


def test_others_that_are_meant_are_asked_for():
    answers = [0.0, 0.7]
    place = Place(10, lambda: answers.pop(0), meant=2)
    place.begin()
    place.counted(1, 0, 1)
    place._asking.join()
    assert place.batches() == 7


def test_no_schedule_goes_past_the_end():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    following = Following(falling(optimizer, 4), lambda: 9, most=4)
    optimizer.step()
    for _ in range(3):
        following.step()
    assert following.last_epoch == 4


def test_lengths_of_a_part_of_an_epoch():
    lengths = Lengths(63 * 8, 8, 4)
    assert [lengths.total(2.5, None), lengths.total(None, 70), lengths.total(2.5, 70),
            lengths.total(None, None)] == [158, 70, 70, None]
    assert lengths.steps(157) == 16 + 16 + 8


def test_callbacks_are_short():
    import pathlib
    folder = pathlib.Path(ms.__file__).parent
    for name in ("lightning.py", "huggingface.py", "callbacks.py", "_place.py"):
        assert len((folder / name).read_text().splitlines()) < 190
