"""Callbacks for trainers, with stand-ins for the trainers."""

import importlib
import sys
import types

import pytest

torch = pytest.importorskip("torch")

import monsoon as ms  # noqa: E402
from test_torch_loop import X, make_model  # noqa: E402

SETTINGS = dict(examples=20, batch=4, every=2, epochs=2)


def stand_in(monkeypatch, module, **names):
    parts = module.split(".")
    for i in range(1, len(parts) + 1):
        monkeypatch.setitem(sys.modules, ".".join(parts[:i]), types.ModuleType(".".join(parts[:i])))
    for name, value in names.items():
        setattr(sys.modules[module], name, value)


def load(monkeypatch, name):
    monkeypatch.delitem(sys.modules, name, raising=False)
    module = importlib.import_module(name)
    monkeypatch.delitem(sys.modules, name)
    return module


class Lightning:
    """The order of calls of Lightning's fit loop."""

    def __init__(self, callback, accumulate):
        self.callback, self.accumulate = callback, accumulate
        self.should_stop, self.global_step = False, 0

    def fit(self, model, loader):
        self.optimizers = [torch.optim.SGD(model.parameters(), lr=0.1)]
        self.callback.on_train_start(self, model)
        try:
            while not self.should_stop:
                for number, ids in enumerate(loader, 1):
                    loss = model(X[ids]).sum()
                    loss.backward()
                    if number % self.accumulate == 0 or number == len(loader):
                        self.optimizers[0].step()
                        self.optimizers[0].zero_grad()
                        self.global_step += 1
                    self.callback.on_train_batch_end(self, model, {"loss": loss}, ids, number)
        except Exception as error:
            self.callback.on_exception(self, model, error)
            raise
        self.callback.on_fit_end(self, model)
        self.callback.teardown(self, model, "fit")


@pytest.mark.parametrize("accumulate", [1, 2])
def test_lightning(library, monkeypatch, accumulate):
    stand_in(monkeypatch, "lightning.pytorch.callbacks", Callback=object)
    callback = load(monkeypatch, "monsoon.lightning").MonsoonCallback("host:1", "net", **SETTINGS)
    model = make_model()
    loader = torch.utils.data.DataLoader(range(20), batch_sampler=callback.sampler)
    with pytest.raises(ms.NotNow, match="before training has begun"):
        next(iter(loader))
    Lightning(callback, accumulate).fit(model, loader)
    assert callback.job.ended and library.replicas[0].left
    assert sorted(library.jobs["net"].done) == sorted(list(range(20)) * 2)
    assert len(library.steps) == (10 if accumulate == 1 else 6)
    values = library.jobs["net"].values
    assert torch.equal(model[0].weight.flatten(), torch.from_numpy(values[:15]))


def test_lightning_leaves_on_an_exception(library, monkeypatch):
    stand_in(monkeypatch, "lightning.pytorch.callbacks", Callback=object)
    callback = load(monkeypatch, "monsoon.lightning").MonsoonCallback("host:1", "net", **SETTINGS)

    def broken(_):
        raise ZeroDivisionError

    model = make_model()
    model.forward = broken
    loader = torch.utils.data.DataLoader(range(20), batch_sampler=callback.sampler)
    with pytest.raises(ZeroDivisionError):
        Lightning(callback, 1).fit(model, loader)
    assert library.replicas[0].left


def test_huggingface(library, monkeypatch):
    stand_in(monkeypatch, "transformers", TrainerCallback=object)
    callback = load(monkeypatch, "monsoon.huggingface").MonsoonCallback("host:1", "net", **SETTINGS)
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(range(20), batch_sampler=callback.sampler)
    arguments = types.SimpleNamespace(gradient_accumulation_steps=1)
    state = types.SimpleNamespace(log_history=[])
    control = types.SimpleNamespace(should_training_stop=False)
    callback.on_train_begin(arguments, state, control, model=model, optimizer=optimizer,
                            lr_scheduler=None)
    while not control.should_training_stop:
        for ids in loader:
            model(X[ids]).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            callback.on_step_end(arguments, state, control, model=model)
    callback.on_train_end(arguments, state, control)
    assert callback.job.ended and library.replicas[0].left
    assert sorted(library.jobs["net"].done) == sorted(list(range(20)) * 2)


def test_callbacks_are_short():
    import pathlib
    folder = pathlib.Path(ms.__file__).parent
    for name in ("lightning.py", "huggingface.py", "callbacks.py"):
        assert len((folder / name).read_text().splitlines()) < 80
