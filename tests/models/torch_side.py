"""What model_side does, in PyTorch: torch_side.py MODEL.textproto THREADS FILE.npz, with the
batch and parameters of FILE.npz. "check FILE2.npz" compares with the gradient in FILE2.npz and
answers {"loss": l, "difference": d, "tensor": name}: the largest difference of a tensor's
gradients, over the tensor's largest value."""

import json
import re
import sys
import time

import numpy
import torch

import model_text
from torch_model import TorchModel


def main(path, threads, start):
    torch.set_num_threads(int(threads))
    with open("/proc/self/maps", encoding="utf-8") as maps:
        if not re.search("openblas|mkl|blis", maps.read()):
            sys.exit("this PyTorch runs on the reference BLAS, which is no match "
                     "(Debian: libopenblas0)")
    arrays = dict(numpy.load(start))
    inputs = torch.from_numpy(arrays.pop("batch/inputs"))
    labels, targets = arrays.pop("batch/labels", None), arrays.pop("batch/targets", None)
    model = TorchModel(model_text.read(path), arrays)
    if labels is not None:
        labels = torch.from_numpy(labels).long().squeeze(1)
    if targets is not None:
        targets = torch.from_numpy(targets)

    def step():
        for p in model.parameters():
            p.grad = None
        loss = model.loss(model(inputs), labels, targets)
        loss.backward()
        return loss

    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        what, argument = line.split()
        if what == "check":
            loss = float(step())
            theirs = numpy.load(argument)
            worst = (0.0, "")
            for name, gradient in model.gradients().items():
                ours = gradient.numpy()
                difference = numpy.abs(ours - theirs[name].reshape(ours.shape)).max()
                worst = max(worst, (float(difference / max(1e-6, numpy.abs(ours).max())), name))
            print(json.dumps({"loss": loss, "difference": worst[0], "tensor": worst[1]}),
                  flush=True)
            continue
        began = time.perf_counter()
        for _ in range(int(argument)):
            if what == "steps":
                step()
            else:
                with torch.no_grad():
                    model.eval()
                    model(inputs)
                    model.train()
        print(json.dumps({"seconds": time.perf_counter() - began}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
