"""A forward pass in NumPy of an exported model, apart from all our compute code.

    numpy_model.py MODEL.npz lenet|mlp [--expect=ACCURACY]

Reads the tensors with numpy.load, runs the Fashion-MNIST test set through the
network and prints {"test_accuracy": ...}. With --expect, exits 1 unless the
accuracy is the same to one sample in the test set.
"""

import argparse
import gzip
import json
import struct
import sys

import numpy

DATA = "/usr/share/datasets/fashion-mnist/t10k-"
# As in the job files of configs/job.
MEAN, SCALE = 0.286, 2.83


def read_idx(path):
    with gzip.open(path, "rb") as file:
        magic, = struct.unpack(">I", file.read(4))
        dimensions = magic & 0xFF
        shape = struct.unpack(f">{dimensions}I", file.read(4 * dimensions))
        return numpy.frombuffer(file.read(), dtype=numpy.uint8).reshape(shape)


def relu(x):
    return numpy.maximum(x, 0)


def convolve(x, weight, bias):
    """Valid cross-correlation: x [n, c, h, w], weight OIHW."""
    kernel = weight.shape[2]
    windows = numpy.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), axis=(2, 3))
    return numpy.einsum("nchwij,ocij->nohw", windows, weight, optimize=True) + \
        bias[None, :, None, None]


def average_pool(x):
    """2 x 2; an odd last row or column is cut off."""
    n, c, h, w = x.shape[0], x.shape[1], x.shape[2] // 2 * 2, x.shape[3] // 2 * 2
    return x[:, :, :h, :w].reshape(n, c, h // 2, 2, w // 2, 2).mean(axis=(3, 5))


def dense(x, model, name):
    return x @ model[f"{name}/weight"].T + model[f"{name}/bias"]


def forward_lenet(x, model):
    convolutions = sorted({key.split("/")[0] for key in model.files if model[key].ndim == 4})
    for name in convolutions:
        x = average_pool(relu(convolve(x, model[f"{name}/weight"], model[f"{name}/bias"])))
    return forward_dense(x, model)


def forward_dense(x, model):
    x = x.reshape(len(x), -1)
    names = sorted({key.split("/")[0] for key in model.files if model[key].ndim == 2})
    for name in names[:-1]:
        x = relu(dense(x, model, name))
    return dense(x, model, names[-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("network", choices=["lenet", "mlp"])
    parser.add_argument("--expect", type=float)
    arguments = parser.parse_args()

    model = numpy.load(arguments.model)
    images = read_idx(DATA + "images-idx3-ubyte.gz").astype(numpy.float32)
    images = (images / 255 - MEAN) * SCALE
    labels = read_idx(DATA + "labels-idx1-ubyte.gz")
    forward = forward_lenet if arguments.network == "lenet" else forward_dense
    correct = 0
    for begin in range(0, len(images), 500):
        batch = images[begin:begin + 500, None]
        correct += int((forward(batch, model).argmax(axis=1) == labels[begin:begin + 500]).sum())
    accuracy = correct / len(images)
    print(json.dumps({"test_accuracy": accuracy, "examples": len(images)}))
    # Sums in another order may turn one sample that lies on the border.
    if arguments.expect is not None and abs(accuracy - arguments.expect) > 1.5 / len(images):
        sys.exit(f"expected {arguments.expect}, got {accuracy}")


if __name__ == "__main__":
    main()
