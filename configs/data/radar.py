#!/usr/bin/python3
"""Draws showers that drift over a radar, for configs/job/nowcast_downpour.textproto.

    radar.py [--out=data] [--train=256] [--test=64] [--seed=1]

Writes radar-train.npz and radar-test.npz: images [n, 7, 256, 256], what was seen, and labels
[n, 24576], the six frames after them as 64 x 64 means of 4 x 4 pixels; float32 in [0, 1].
A sample takes 1.9 MB.
"""

import argparse
import pathlib

import numpy

EDGE, COARSE, SEEN, TOLD = 256, 64, 7, 6


def frames(random):
    """[SEEN + TOLD, EDGE, EDGE]: up to eight showers with a speed each; they grow or fade."""
    grid = numpy.arange(EDGE, dtype=numpy.float32)
    result = numpy.zeros((SEEN + TOLD, EDGE, EDGE), numpy.float32)
    wind = random.normal(0, 5, 2)
    for _ in range(random.integers(2, 9)):
        place = random.uniform(-40, EDGE + 40, 2)
        speed = wind + random.normal(0, 1, 2)
        size, growth = random.uniform(6, 30), random.uniform(0.95, 1.05)
        peak = random.uniform(0.2, 1)
        for t in range(SEEN + TOLD):
            y, x = place + t * speed
            width = size * growth ** t
            result[t] += peak * numpy.outer(numpy.exp(-((grid - y) / width) ** 2 / 2),
                                            numpy.exp(-((grid - x) / width) ** 2 / 2))
    return numpy.minimum(result, 1)


def samples(count, seed):
    random = numpy.random.default_rng(seed)
    images = numpy.empty((count, SEEN, EDGE, EDGE), numpy.float32)
    targets = numpy.empty((count, TOLD * COARSE * COARSE), numpy.float32)
    for i in range(count):
        all_frames = frames(random)
        images[i] = all_frames[:SEEN]
        means = all_frames[SEEN:].reshape(TOLD, COARSE, EDGE // COARSE, COARSE, EDGE // COARSE)
        targets[i] = means.mean(axis=(2, 4)).reshape(-1)
    return images, targets


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("data"))
    parser.add_argument("--train", type=int, default=256)
    parser.add_argument("--test", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for number, (name, count) in enumerate((("train", options.train), ("test", options.test))):
        images, targets = samples(count, [options.seed, number])
        path = options.out / f"radar-{name}.npz"
        numpy.savez(path, images=images, labels=targets)
        print(f"{path}: {count} samples")


if __name__ == "__main__":
    main()
