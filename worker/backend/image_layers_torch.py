#!/usr/bin/env python3
"""The networks of image_layers_benchmark.cc in PyTorch: milliseconds of a training step on one
thread, samples of a batch of 64 given."""
import sys
import time

import torch
from torch import nn
from torch.nn import functional


class Local(nn.Module):
    """Locally connected: a product for each place."""

    def __init__(self, channels, filters, kernel, out):
        super().__init__()
        self.kernel, self.out, self.filters = kernel, out, filters
        self.weight = nn.Parameter(
            torch.randn(out * out, filters, channels * kernel * kernel) * 0.05)
        self.bias = nn.Parameter(torch.zeros(filters, out, out))

    def forward(self, x):
        patches = functional.unfold(x, self.kernel)  # [n, patch, places]
        y = torch.bmm(self.weight, patches.permute(2, 1, 0))
        return y.permute(2, 1, 0).reshape(-1, self.filters, self.out, self.out) + self.bias


class Contrast(nn.Module):
    """Local contrast normalisation with a window of 9."""

    def __init__(self, channels, size):
        super().__init__()
        at = torch.arange(9) - 4.0
        line = torch.exp(-at * at / (2 * (9 / 4) ** 2))
        self.register_buffer("window", torch.outer(line, line)[None, None])
        inside = functional.conv2d(torch.ones(1, 1, size, size), self.window, padding=4)
        self.register_buffer("share", 1 / (inside * channels))

    def blur(self, plane):
        return functional.conv2d(plane, self.window, padding=4) * self.share

    def forward(self, x):
        v = x - self.blur(x.sum(1, keepdim=True))
        s = self.blur((v * v).sum(1, keepdim=True)).sqrt()
        return v / s.maximum(s.mean((2, 3), keepdim=True)).clamp(min=1e-4)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32),
                                  nn.ReLU())
        self.branch = nn.Sequential(nn.Conv2d(32, 32, 3, padding=1, bias=False),
                                    nn.BatchNorm2d(32), nn.ReLU(),
                                    nn.Conv2d(32, 32, 3, padding=1, bias=False),
                                    nn.BatchNorm2d(32))
        self.end = nn.Sequential(nn.ReLU(), nn.Conv2d(32, 64, 3, stride=2, padding=1, bias=False),
                                 nn.BatchNorm2d(64), nn.ReLU())
        self.dense = nn.Linear(64, 10)

    def forward(self, x):
        x = self.stem(x)
        return self.dense(self.end(x + self.branch(x)).mean((2, 3)))


class Mean(nn.Module):
    def forward(self, x):
        return x.mean((2, 3))


MODELS = {
    "Residual": (Residual, 3),
    "BatchNormAlone": (lambda: nn.Sequential(nn.BatchNorm2d(32), nn.ReLU(), nn.BatchNorm2d(32),
                                             nn.ReLU(), Mean(), nn.Linear(32, 10)), 32),
    "LocallyConnected": (lambda: nn.Sequential(Local(3, 8, 9, 24), nn.ReLU(), nn.MaxPool2d(2),
                                               Local(8, 16, 5, 8), nn.ReLU(), nn.Flatten(),
                                               nn.Linear(1024, 10)), 3),
    "Contrast": (lambda: nn.Sequential(nn.Conv2d(3, 16, 3), Contrast(16, 30),
                                       nn.Conv2d(16, 16, 3), Contrast(16, 28), nn.Flatten(),
                                       nn.Linear(12544, 10)), 3),
}


def main():
    torch.set_num_threads(1)
    for name in sys.argv[1:] or MODELS:
        make, channels = MODELS[name]
        model = make()
        x, labels = torch.randn(64, channels, 32, 32), torch.randint(0, 10, (64,))
        best = float("inf")
        for _ in range(12):
            begin = time.perf_counter()
            model.zero_grad()
            functional.cross_entropy(model(x), labels).backward()
            best = min(best, time.perf_counter() - begin)
        print(f"{name} {1000 * best:.2f} ms, the best of 12")


if __name__ == "__main__":
    main()
