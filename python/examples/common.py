"""What the examples share: their arguments, Fashion-MNIST, and a line a second."""

import argparse
import gzip
import pathlib
import sys
import time

import numpy

# Debian's package dataset-fashion-mnist.
FASHION_MNIST = pathlib.Path("/usr/share/datasets/fashion-mnist")


def arguments(description, argv, batch, rate):
    """--coordinator or --alone say where the job is; the others are the job's settings."""
    parser = argparse.ArgumentParser(description=description)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--coordinator", metavar="HOST:PORT", help="of the cluster to join")
    where.add_argument("--alone", action="store_true", help="on a cluster of its own")
    parser.add_argument("--epochs", type=float, default=1.0)
    parser.add_argument("--steps", type=int, help="ends after so many, of all programs together")
    parser.add_argument("--batch", type=int, default=batch)
    parser.add_argument("--rate", type=float, default=rate)
    parser.add_argument("--every", type=int, default=0,
                        help="local steps between two pushes; 0: the shards' optimizer")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=int, help="use so many samples only")
    parser.add_argument("--export", metavar="FILE", help=".npz or .safetensors")
    return parser


def settings(options):
    """What goes to monsoon.join as it is."""
    return dict(coordinator=None if options.alone else options.coordinator, epochs=options.epochs,
                max_steps=options.steps, seed=options.seed)


def read_idx(path):
    """An .idx.gz file of bytes as an array (LeCun's format)."""
    with gzip.open(path, "rb") as file:
        raw = file.read()
    dimensions = raw[3]
    shape = numpy.frombuffer(raw, ">u4", dimensions, 4)
    return numpy.frombuffer(raw, numpy.uint8, offset=4 + 4 * dimensions).reshape(shape)


def fashion_mnist(limit=None):
    """(images float32 [n, 28, 28] in [0, 1], labels int64 [n]) of training and of test."""
    if not FASHION_MNIST.is_dir():
        sys.exit(f"{FASHION_MNIST} is missing: apt-get install dataset-fashion-mnist")
    parts = []
    for name in ("train", "t10k"):
        images = read_idx(FASHION_MNIST / f"{name}-images-idx3-ubyte.gz")[:limit]
        labels = read_idx(FASHION_MNIST / f"{name}-labels-idx1-ubyte.gz")[:limit]
        parts.append((images.astype(numpy.float32) / 255, labels.astype(numpy.int64)))
    return parts


class Lines:
    """Prints a line a second at most."""

    def __init__(self):
        self._began, self._told, self.steps = time.monotonic(), float("-inf"), 0

    def step(self, job, loss):
        """After each step; `loss` is called only where a line is printed."""
        self.steps += 1
        now = time.monotonic()
        if now - self._told >= 1:
            self._told = now
            print(f"t={now - self._began:.1f} epoch={job.epoch} step={self.steps} "
                  f"loss={loss():.4f}", flush=True)


def finish(job, options):
    if options.export:
        print(f"wrote {job.export(options.export)}")
    print(job.stats)
