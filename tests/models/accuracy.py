#!/usr/bin/python3
"""Trains a job file's model in one process of ours and in PyTorch, from the same initial
parameters with the same optimizer, and compares what the test set says: paired by seeds.

    tests/models/accuracy.py --bin=BAZEL_BIN JOB.textproto [--seeds=1,2,3] [--epochs=E] [--steps=S]
                             [--train_limit=N] [--figure=accuracy] [--out=FILE.json]

Figures: accuracy in points, or loss (of the GPT in bits per byte, relative). Data: idx, npz and
text sources. Optimizers: adagrad and adam, with warm-up and clip_norm. Prints a line for each
seed and then mean and standard error of the differences. Runs that FILE.json has are not repeated.
"""

import argparse
import gzip
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy
import torch

import model_text
from model_text import of, one
from torch_model import TorchModel

EVALUATION_BATCH = 500


def _idx(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        data = file.read()
    dimensions = data[3]
    shape = [int.from_bytes(data[4 + 4 * i:8 + 4 * i], "big") for i in range(dimensions)]
    return numpy.frombuffer(data, numpy.uint8, offset=4 + 4 * dimensions).reshape(shape)


def samples(data, folder, input_shape):
    """Inputs and labels of a Dataset as a worker reads them."""
    limit = one(data, "limit", 0) or None
    if "idx" in data:
        source = one(data, "idx")
        values = torch.from_numpy(_idx(one(source, "images"))[:limit].astype(numpy.float32)) / 255
        labels = torch.from_numpy(_idx(one(source, "labels"))[:limit].astype(numpy.int64))
    elif "npz" in data:
        arrays = numpy.load(os.path.join(folder, one(one(data, "npz"), "file")))
        values = torch.from_numpy(arrays["images"][:limit].astype(numpy.float32))
        labels = torch.from_numpy(arrays["labels"][:limit].astype(numpy.int64))
        return values, labels
    elif "text" in data:
        source = one(data, "text")
        path = os.path.join(folder, one(source, "file"))
        with (gzip.open if path.endswith((".gz", ".dz")) else open)(path, "rb") as file:
            text = numpy.frombuffer(file.read(), numpy.uint8)
        begin = int(one(source, "begin", 0.0) * len(text))
        text = text[begin:int((one(source, "end", 0.0) or 1.0) * len(text))]
        window = one(source, "window", 0) or input_shape[0]
        stride = one(source, "stride", 0) or window
        count = min((len(text) - 1 - window) // stride + 1, limit or len(text))
        places = numpy.arange(count)[:, None] * stride + numpy.arange(window + 1)
        rows = torch.from_numpy(text[places].astype(numpy.int64))
        return rows[:, :-1], rows[:, 1:]
    else:
        sys.exit("accuracy.py reads idx, npz and text")
    values = (values - one(data, "mean", 0.0)) * (one(data, "scale", 0.0) or 1.0)
    return values.reshape(len(values), *input_shape), labels


class Torch:
    def __init__(self, job, folder, model, tensors):
        self.model = TorchModel(model, tensors)
        optimizer = one(one(job, "downpour"), "optimizer")
        self._clip = one(optimizer, "clip_norm", 0.0)
        warm_up = one(one(optimizer, "schedule", {}), "warm_up_pushes", 0)
        parameters = list(self.model.parameters())
        if "adagrad" in optimizer:
            self._optimizer = torch.optim.Adagrad(
                parameters, lr=one(one(optimizer, "adagrad"), "rate"), eps=1e-8)
        elif "adam" in optimizer:
            self._optimizer = torch.optim.Adam(parameters, lr=one(one(optimizer, "adam"), "rate"))
        else:
            sys.exit("accuracy.py knows adagrad and adam")
        self._schedule = torch.optim.lr_scheduler.LambdaLR(
            self._optimizer, lambda k: min(1.0, (k + 1) / warm_up) if warm_up else 1.0)
        shape = of(model, "input_shape")
        self._train = samples(one(job, "train"), folder, shape)
        self._test = samples(one(job, "test"), folder, shape)
        self._batch = one(job, "batch_size")

    def train(self, seed, epochs, steps):
        order = torch.Generator().manual_seed(seed)
        inputs, labels = self._train
        done = 0
        total = steps or math.ceil(epochs * len(inputs) / self._batch)
        while done < total:
            permutation = torch.randperm(len(inputs), generator=order)
            for at in range(0, len(inputs), self._batch):
                ids = permutation[at:at + self._batch]
                self._optimizer.zero_grad()
                loss = self.model.loss(self.model(inputs[ids]), labels[ids])
                loss.backward()
                if self._clip:
                    torch.nn.utils.clip_grad_norm_(self.model.parameters(), self._clip)
                self._optimizer.step()
                self._schedule.step()
                done += 1
                if done == total:
                    break

    def evaluate(self):
        inputs, labels = self._test
        self.model.eval()
        loss = right = 0
        with torch.no_grad():
            for at in range(0, len(inputs), EVALUATION_BATCH):
                part = labels[at:at + EVALUATION_BATCH]
                outputs = self.model(inputs[at:at + EVALUATION_BATCH])
                loss += float(self.model.loss(outputs, part)) * len(part)
                guess = (outputs.argmax(-1) if outputs.shape[-1] > 1
                         else (outputs.squeeze(-1) > 0).long())
                right += float((guess == part).float().mean()) * len(part)
        return {"loss": loss / len(inputs), "accuracy": right / len(inputs)}


def ours(options, path, seed):
    command = [f"{options.bin}/worker/baseline/baseline", f"--job={path}", "--json",
               f"--set=seed={seed}", "--set=evaluation.every_epochs=0"]
    if options.steps:
        command += [f"--set=stop.epochs=0", f"--set=stop.steps={options.steps}"]
    elif options.epochs:
        command.append(f"--epochs={options.epochs}")
    if options.train_limit:
        command.append(f"--set=train.limit={options.train_limit}")
    final = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True,
                                      stderr=subprocess.DEVNULL).stdout)["final"]
    return {"loss": final["test_loss"], "accuracy": final["test_accuracy"],
            "seconds": final["elapsed_s"]}


def theirs(options, path, seed, folder):
    job = model_text.read(path)
    base = os.path.dirname(os.path.abspath(path))
    model_path = os.path.join(base, one(job, "model_file"))
    start = os.path.join(folder, "start.npz")
    subprocess.run([f"{options.bin}/tests/models/model_side", model_path, "2", "1", start,
                    str(seed)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    tensors = {name: values for name, values in numpy.load(start).items()
               if not name.startswith("batch/")}
    torch.manual_seed(seed)
    if options.train_limit:
        one(job, "train")["limit"] = [options.train_limit]
    side = Torch(job, base, model_text.read(model_path), tensors)
    side.train(seed, options.epochs or one(one(job, "stop"), "epochs"), options.steps)
    return side.evaluate()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--epochs", type=float, default=0)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--train_limit", type=int, default=0)
    parser.add_argument("--figure", choices=["accuracy", "loss"], default="accuracy")
    parser.add_argument("--out")
    parser.add_argument("job")
    options = parser.parse_args()
    torch.set_num_threads(1)
    done = {}
    if options.out and os.path.exists(options.out):
        done = json.loads(pathlib.Path(options.out).read_text(encoding="utf-8"))
    differences = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in options.seeds.split(","):
            runs = done.setdefault(seed, {})
            if "ours" not in runs:
                runs["ours"] = ours(options, options.job, int(seed))
            if "torch" not in runs:
                runs["torch"] = theirs(options, options.job, int(seed), folder)
            a, b = (runs[side][options.figure] for side in ("ours", "torch"))
            differences.append(100 * (a - b) if options.figure == "accuracy" else 100 * (a / b - 1))
            print(f"seed {seed}: ours {a:.4f}, PyTorch {b:.4f}, difference "
                  f"{differences[-1]:+.2f} {'points' if options.figure == 'accuracy' else '%'}",
                  flush=True)
            if options.out:
                pathlib.Path(options.out).write_text(json.dumps(done, indent=1) + "\n",
                                                     encoding="utf-8")
    error = (statistics.stdev(differences) / math.sqrt(len(differences))
             if len(differences) > 1 else 0)
    print(f"mean of the differences {statistics.fmean(differences):+.2f}, standard error {error:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
