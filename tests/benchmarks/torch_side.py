"""PyTorch's side of the comparisons, a process of its own: reads one JSON
request a line, answers with one line. Needs PyTorch only, so that any
interpreter that has it will do; torch_peer.py starts it.

The same models, data, order rule, initialisation law (uniform within
1 / sqrt(fan_in), PyTorch's default for both kinds of layers) and optimizer
(Adagrad, epsilon 1e-8) as configs/job/{mlp,lenet}_downpour.textproto.
"""

import gzip
import math
import os
import statistics
import sys
import time

import torch
from torch import nn

from side_service import fastest, serve

EVALUATION_BATCH = 500
MEAN, SCALE = 0.286, 2.83


def build(name):
    if name == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    if name == "lenet":
        return nn.Sequential(
            nn.Conv2d(1, 20, 3), nn.ReLU(), nn.AvgPool2d(2),
            nn.Conv2d(20, 50, 5), nn.ReLU(), nn.AvgPool2d(2),
            nn.Flatten(), nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10))
    raise ValueError(f"no model {name}")


def read_idx(path):
    """A gzipped IDX file of unsigned bytes."""
    with gzip.open(path) as file:
        content = file.read()
    rank = content[3]
    shape = [int.from_bytes(content[4 + 4 * i:8 + 4 * i], "big") for i in range(rank)]
    values = torch.frombuffer(bytearray(content[4 + 4 * rank:]), dtype=torch.uint8)
    return values.reshape(shape)


class Data:
    def __init__(self, folder, kind):
        images = read_idx(os.path.join(folder, f"{kind}-images-idx3-ubyte.gz"))
        self.x = ((images.float() / 255 - MEAN) * SCALE).unsqueeze(1)
        self.y = read_idx(os.path.join(folder, f"{kind}-labels-idx1-ubyte.gz")).long()


def permutations(data, seed):
    """A new order for each epoch."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield torch.randperm(len(data.y), generator=generator)


# Ways to compute the same: words of a variant are joined by '+'.
VARIANTS = {"mlp": ("", "fused", "compile+fused"),
            "lenet": ("", "channels_last+fused", "compile+fused", "channels_last+compile+fused")}


def adagrad(model, rate, fused=False):
    """In one kernel if asked for, else with one call for all tensors where this version can."""
    arguments = {"lr": rate, "eps": 1e-8}
    if fused:
        return torch.optim.Adagrad(model.parameters(), fused=True, **arguments)
    try:
        return torch.optim.Adagrad(model.parameters(), foreach=True, **arguments)
    except TypeError:
        return torch.optim.Adagrad(model.parameters(), **arguments)


class Training:
    """A model in training; step() trains on one batch and gives its loss."""

    def __init__(self, data, model, batch, seed, rate, warm_up=0, variant=""):
        words = variant.split("+")
        torch.manual_seed(seed)
        self.model = build(model)
        if "channels_last" in words:
            self.model = self.model.to(memory_format=torch.channels_last)
        # A last, smaller batch would be compiled anew.
        self._whole = "compile" in words
        self._forward = torch.compile(self.model) if self._whole else self.model
        self._data = data
        self._batch = batch
        self._rate = rate
        self._warm_up = warm_up
        self._optimizer = adagrad(self.model, rate, "fused" in words)
        self._loss = nn.CrossEntropyLoss()
        self._orders = permutations(data, seed)
        self._order = None
        self._begin = len(data.y)
        self._steps = 0
        self.examples = 0
        if self._whole:  # compiles
            self._loss(self._forward(data.x[:batch]), data.y[:batch]).backward()

    def step(self):
        if self._begin + (self._batch if self._whole else 1) > len(self._data.y):
            self._order, self._begin = next(self._orders), 0
        if self._steps <= self._warm_up:
            for group in self._optimizer.param_groups:
                group["lr"] = self._rate * min(1.0, (self._steps + 1) / max(1, self._warm_up))
        indices = self._order[self._begin:self._begin + self._batch]
        self._begin += self._batch
        self._optimizer.zero_grad()
        loss = self._loss(self._forward(self._data.x[indices]), self._data.y[indices])
        loss.backward()
        self._optimizer.step()
        self._steps += 1
        self.examples += len(indices)
        return loss

    def accuracy(self, data):
        self.model.eval()
        correct = 0
        with torch.no_grad():
            for begin in range(0, len(data.y), EVALUATION_BATCH):
                rows = slice(begin, begin + EVALUATION_BATCH)
                correct += int((self.model(data.x[rows]).argmax(1) == data.y[rows]).sum())
        self.model.train()
        return correct / len(data.y)


class Service:
    def __init__(self):
        self._data = {}

    def load(self, folder):
        for kind in ("train", "t10k"):
            self._data[kind] = Data(folder, kind)
        return {}

    def hello(self):
        """Version, and the libraries that do the matrix products."""
        torch.mm(torch.ones(64, 64), torch.ones(64, 64))
        with open("/proc/self/maps", encoding="utf-8") as file:
            maps = file.read()
        blas = [name for name in ("openblas", "mkl", "blis", "atlas") if name in maps]
        if torch.backends.mkl.is_available() and "mkl" not in blas:
            blas.append("mkl")
        return {"version": torch.__version__, "blas": blas,
                "onednn": torch.backends.mkldnn.is_available()}

    def train(self, model, batch, steps, threads, seed, rate, variant=""):
        """Samples per second of so many steps, and the mean accuracy after."""
        torch.set_num_threads(threads)
        training = Training(self._data["train"], model, batch, seed, rate, variant=variant)
        for _ in range(3):  # first touches
            training.step()
        examples, cpu, began = training.examples, time.process_time(), time.perf_counter()
        for _ in range(steps):
            loss = training.step()
            if not math.isfinite(loss.item()):
                raise ArithmeticError(f"the loss is {loss.item()}")
        seconds = time.perf_counter() - began
        return {"examples_per_s": (training.examples - examples) / seconds,
                "cpu_s": time.process_time() - cpu,
                "accuracy": training.accuracy(self._data["t10k"])}

    def fastest_variant(self, model, batch, steps, threads):
        """That of VARIANTS with the highest rate of two turns, and the rates of all. A turn
        before them warms up; who has less than half of the best rate there has no more, and
        those that this version or machine has not are left out, or that do not train
        (torch 2.15 compiled with ATEN_CPU_CAPABILITY=avx2 ends at NaN)."""
        def rate(variant):
            try:
                return self.train(model, batch, steps, threads, 1, 0.02,
                                  variant)["examples_per_s"]
            except Exception as error:  # pylint: disable=broad-except
                print(f"variant {variant}: {error}"[:300], file=sys.stderr)
                return None

        return fastest(VARIANTS[model], rate)

    def curve(self, model, batch, windows, steps, threads, seed, rate, variant=""):
        """The mean loss of each of `windows` times `steps` steps, and the accuracy after."""
        torch.set_num_threads(threads)
        training = Training(self._data["train"], model, batch, seed, rate, variant=variant)
        losses = [statistics.mean(training.step().item() for _ in range(steps))
                  for _ in range(windows)]
        return {"losses": losses, "accuracy": training.accuracy(self._data["t10k"])}

    def time_to(self, target, model, batch, seed, rate, warm_up, threads, every_epochs,
                max_epochs, max_seconds, variant=""):
        """Seconds until an evaluation finds `target`: all of them, and without
        the evaluations. Null where max_epochs, or max_seconds if not null, did
        not do."""
        torch.set_num_threads(threads)
        data, test = self._data["train"], self._data["t10k"]
        training = Training(data, model, batch, seed, rate, warm_up, variant)
        due, best, evaluating, began = every_epochs, 0.0, 0.0, time.perf_counter()
        while training.examples < max_epochs * len(data.y):
            training.step()
            if training.examples < due * len(data.y):
                continue
            due += every_epochs
            evaluation_began = time.perf_counter()
            best = max(best, training.accuracy(test))
            now = time.perf_counter()
            evaluating += now - evaluation_began
            if max_seconds is not None and now - began > max_seconds:
                break
            if best >= target:
                return {"seconds": now - began, "training_seconds": now - began - evaluating,
                        "epochs": training.examples / len(data.y), "best": best}
        return {"seconds": None, "training_seconds": None,
                "epochs": training.examples / len(data.y), "best": best}


if __name__ == "__main__":
    serve(Service())
