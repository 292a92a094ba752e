"""Stand-ins for Lightning and transformers, with their loops' order of calls, as far as
monsoon.lightning and monsoon.huggingface see them."""

import importlib
import itertools
import math
import sys
import types

import torch


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


class Fetcher:
    """Looks one ahead where the loader has no length, as Lightning's does."""

    def __init__(self, loader):
        self.loader, self.combined_loader = loader, types.SimpleNamespace(limits=[1])
        self.iterator, self.ahead, self.done = None, [], False

    def __iter__(self):
        self.iterator, self.ahead, self.done = iter(self.loader), [], False
        try:
            len(self.loader)
            self.looks_ahead = False
        except TypeError:
            self.looks_ahead = True
            self._refill()
        return self

    def _refill(self):
        self.ahead += [item for item in [next(self.iterator, None)] if item is not None]

    def __next__(self):
        if not self.looks_ahead:
            return next(self.iterator)
        if not self.ahead:
            raise StopIteration
        item = self.ahead.pop()
        self._refill()
        self.done = not self.ahead
        return item


class Lightning:
    """Trainer(max_epochs=..., accumulate_grad_batches=...)."""

    def __init__(self, callback, accumulate=1, max_epochs=2, max_steps=-1, schedule=None,
                 interval="step"):
        self.callback, self.accumulate_grad_batches = callback, accumulate
        self.should_stop, self.global_step, self.current_epoch = False, 0, 0
        self.fit_loop = types.SimpleNamespace(
            max_epochs=max_epochs, epoch_loop=types.SimpleNamespace(max_steps=max_steps))
        self.val_check_interval = self.limit_train_batches = 1.0
        self.schedule, self.interval, self.rates = schedule, interval, []

    max_epochs = property(lambda self: self.fit_loop.max_epochs)
    max_steps = property(lambda self: self.fit_loop.epoch_loop.max_steps)

    @property
    def estimated_stepping_batches(self):
        steps = math.ceil(len(self.loader) / self.accumulate_grad_batches) * self.max_epochs
        return min(steps, self.max_steps) if self.max_steps > 0 else steps

    def fit(self, model, loader, loss_of):
        self.loader = loader
        self.callback.setup(self, model, "fit")
        self.optimizers = [torch.optim.SGD(model.parameters(), lr=0.1)]
        self.lr_scheduler_configs = [] if self.schedule is None else [types.SimpleNamespace(
            scheduler=self.schedule(self.optimizers[0], self.estimated_stepping_batches),
            interval=self.interval, frequency=1)]
        self.fit_loop._data_fetcher = iter(Fetcher(loader))
        try:
            self.callback.on_fit_start(self, model)
            while not (self.should_stop or self._at(self.current_epoch, self.max_epochs)
                       or self._at(self.global_step, self.max_steps)):
                self._pass(model, loss_of)
            self.callback.on_train_end(self, model)
        except Exception as error:
            self.callback.on_exception(self, model, error)
            raise
        self.callback.on_fit_end(self, model)
        self.callback.teardown(self, model, "fit")

    @staticmethod
    def _at(count, most):
        return 0 <= most <= count

    def _pass(self, model, loss_of):
        fetcher = self.fit_loop._data_fetcher
        if self.current_epoch:
            iter(fetcher)
        number = 0
        while not (self.should_stop or fetcher.done):
            try:
                batch = next(fetcher)
            except StopIteration:
                break
            self.callback.on_train_batch_start(self, model, batch, number)
            number += 1
            loss = loss_of(model, batch)
            loss.backward()
            stepped = number % self.accumulate_grad_batches == 0 or fetcher.done
            if stepped:
                self.rates.append(self.optimizers[0].param_groups[0]["lr"])
                self.optimizers[0].step()
                self.optimizers[0].zero_grad()
                self.global_step += 1
            for config in self.lr_scheduler_configs:
                if stepped if config.interval == "step" else fetcher.done:
                    config.scheduler.step()
            self.callback.on_train_batch_end(self, model, {"loss": loss}, batch, number)
        self.callback.on_train_epoch_end(self, model)
        self.current_epoch += 1


class HuggingFace:
    """transformers.Trainer of version 5, as far as its loop goes."""

    def __init__(self, model, args, train_dataset, callbacks, loss_of):
        self.model, self.args, self.train_dataset = model, args, train_dataset
        self.callback_handler = types.SimpleNamespace(callbacks=callbacks)
        self.data_collator, self.loss_of, self.rates = None, loss_of, []
        self.control = types.SimpleNamespace(should_training_stop=False, should_epoch_stop=False,
                                             should_save=False)
        self.state = types.SimpleNamespace(global_step=0, epoch=0, max_steps=0)

    def _call(self, name, **more):
        for callback in self.callback_handler.callbacks:
            getattr(callback, name)(self.args, self.state, self.control, **more)

    def train(self):
        loader = self.get_train_dataloader()
        try:
            raise AssertionError(f"a length: {len(loader)}")
        except TypeError:
            pass
        self.state.max_steps = self.args.max_steps
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.create_scheduler(self.args.max_steps, self.optimizer)
        self._call("on_train_begin", model=self.model, lr_scheduler=self.lr_scheduler,
                   optimizer=types.SimpleNamespace(optimizer=self.optimizer))
        while not self.control.should_training_stop:
            self.control.should_epoch_stop = False
            self._pass(iter(loader))
            self._call("on_epoch_end")
        self._call("on_train_end")

    def create_scheduler(self, num_training_steps, optimizer):
        self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: max(0.0, 1 - step / num_training_steps))

    def get_batch_samples(self, batches, count, device):
        return list(itertools.islice(batches, count)), None

    def training_step(self, model, inputs, items):
        loss = self.loss_of(model, inputs)
        loss.backward()
        return loss.detach()

    def _pass(self, batches):
        step, accumulate = -1, self.args.gradient_accumulation_steps
        for _ in range(self.args.max_steps):
            group, items = self.get_batch_samples(batches, accumulate, "cpu")
            for inputs in group:
                step += 1
                self.training_step(self.model, inputs, items)
                if (step + 1) % accumulate == 0:
                    self.rates.append(self.optimizer.param_groups[0]["lr"])
                    self.optimizer.step()
                    self.lr_scheduler.step()
                    self.optimizer.zero_grad()
                    self.state.global_step += 1
                    # As its DefaultFlowCallback.
                    if self.state.global_step >= self.state.max_steps:
                        self.control.should_training_stop = True
                    self._call("on_step_end")
                if self.control.should_epoch_stop or self.control.should_training_stop:
                    break
            if self.control.should_epoch_stop or self.control.should_training_stop:
                break
        if step < 0:
            self.control.should_training_stop = True
