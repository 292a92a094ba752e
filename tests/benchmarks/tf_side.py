"""TensorFlow's side of the comparisons, a process of its own, as torch_side.py is PyTorch's:
reads one JSON request a line, answers with one line. Needs TensorFlow and NumPy only.

    tf_side.py THREADS

The same models, order rule, initialisation law and Adagrad as there. Many steps run within
one call of a tf.function, as TensorFlow is fastest; the last part of an epoch that fills no
batch is left out.
"""

import gzip
import math
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy  # noqa: E402
from side_service import fastest, serve  # noqa: E402
import tensorflow as tf  # noqa: E402

EVALUATION_BATCH = 500
MEAN, SCALE = 0.286, 2.83
EPSILON = 1e-8
# graph: a loop of TensorFlow's executor; unrolled: UNROLLED steps one after the other in it;
# xla: the loop compiled as a whole.
VARIANTS = ("graph", "unrolled", "xla")
UNROLLED = 4
# Of weights and biases in turn: (shape, fan in).
SHAPES = {
    "mlp": [((784, 128), 784), ((128, 10), 128)],
    "lenet": [((3, 3, 1, 20), 9), ((5, 5, 20, 50), 500), ((800, 128), 800), ((128, 10), 128)],
}


def initial(name, seed):
    """Arrays, uniform within 1 / sqrt(fan in)."""
    generator = numpy.random.default_rng(seed)
    arrays = []
    for shape, fan_in in SHAPES[name]:
        bound = 1 / math.sqrt(fan_in)
        for part in (shape, shape[-1:]):
            arrays.append(generator.uniform(-bound, bound, part).astype(numpy.float32))
    return arrays


def logits(name, weights, x):
    if name == "lenet":
        for layer in range(2):
            x = tf.nn.bias_add(tf.nn.conv2d(x, weights[2 * layer], 1, "VALID"),
                               weights[2 * layer + 1])
            x = tf.nn.avg_pool2d(tf.nn.relu(x), 2, 2, "VALID")
    dense = weights[-4:]
    x = tf.reshape(x, (-1, dense[0].shape[0]))
    x = tf.nn.relu(tf.nn.bias_add(tf.matmul(x, dense[0]), dense[1]))
    return tf.nn.bias_add(tf.matmul(x, dense[2]), dense[3])


def loss_of(name, weights, x, y):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=y, logits=logits(name, weights, x)))


def read_idx(path):
    """A gzipped IDX file of unsigned bytes."""
    with gzip.open(path) as file:
        content = file.read()
    rank = content[3]
    shape = [int.from_bytes(content[4 + 4 * i:8 + 4 * i], "big") for i in range(rank)]
    return numpy.frombuffer(content, numpy.uint8, offset=4 + 4 * rank).reshape(shape)


def arrays_of(folder, kind):
    images = read_idx(os.path.join(folder, f"{kind}-images-idx3-ubyte.gz"))
    labels = read_idx(os.path.join(folder, f"{kind}-labels-idx1-ubyte.gz"))
    x = (images.astype(numpy.float32) / 255 - MEAN) * SCALE
    return x[..., None], labels.astype(numpy.int32)


class Program:
    """What TensorFlow traces and compiles once for a model, batch and variant; trainings take
    turns with its variables."""

    def __init__(self, data, name, batch, variant):
        self.x, self.y = data
        self._name, self.batch, self._variant = name, batch, variant
        self.weights = [tf.Variable(array) for array in initial(name, 0)]
        self.sums = [tf.Variable(tf.zeros_like(weight)) for weight in self.weights]
        self.run = tf.function(self._run, jit_compile=variant == "xla", input_signature=[
            tf.TensorSpec((len(data[1]),), tf.int32), tf.TensorSpec((), tf.int32),
            tf.TensorSpec((), tf.int32), tf.TensorSpec((), tf.int32), tf.TensorSpec(()),
            tf.TensorSpec((), tf.int32)])

    def reset(self, seed):
        for weight, total, array in zip(self.weights, self.sums, initial(self._name, seed)):
            weight.assign(array)
            total.assign(tf.zeros_like(total))

    def _step(self, order, position, step, rate, warm_up):
        ids = tf.slice(order, [position * self.batch], [self.batch])
        with tf.GradientTape() as tape:
            loss = loss_of(self._name, self.weights, tf.gather(self.x, ids),
                           tf.gather(self.y, ids))
        rate *= tf.minimum(1.0, tf.cast(step + 1, tf.float32) /
                           tf.cast(tf.maximum(1, warm_up), tf.float32))
        for weight, total, gradient in zip(self.weights, self.sums,
                                           tape.gradient(loss, self.weights)):
            tf.raw_ops.ResourceApplyAdagradV2(var=weight.handle, accum=total.handle, lr=rate,
                                              epsilon=EPSILON, grad=gradient)
        return loss

    def _run(self, order, position, steps, first, rate, warm_up):
        """`steps` batches of the epoch's order from batch `position` on; `first` is how many
        steps were before. The sum of their losses."""
        total = tf.constant(0.0)
        done = tf.constant(0)
        if self._variant == "unrolled":
            while done + UNROLLED <= steps:
                for _ in range(UNROLLED):
                    total += self._step(order, position + done, first + done, rate, warm_up)
                    done += 1
        while done < steps:
            total += self._step(order, position + done, first + done, rate, warm_up)
            done += 1
        return total


class Training:
    """A model in training; steps() goes on."""

    def __init__(self, program, seed, rate, warm_up=0):
        self.program = program
        program.reset(seed)
        self._rate, self._warm_up = tf.constant(rate, tf.float32), tf.constant(warm_up)
        self._generator = numpy.random.default_rng(seed)
        self._samples = len(program.y)
        self._per_epoch = self._samples // program.batch
        self._position = self._per_epoch
        self._order = None
        self.count = 0

    @property
    def examples(self):
        return self.count * self.program.batch

    def steps(self, number):
        """The mean loss of so many more."""
        total, left = 0.0, number
        while left > 0:
            if self._position == self._per_epoch:
                self._order = tf.constant(
                    self._generator.permutation(self._samples).astype(numpy.int32))
                self._position = 0
            now = min(left, self._per_epoch - self._position)
            total += float(self.program.run(
                self._order, tf.constant(self._position), tf.constant(now),
                tf.constant(self.count), self._rate, self._warm_up))
            self._position += now
            self.count += now
            left -= now
        if not math.isfinite(total):
            raise ArithmeticError(f"the loss is {total}")
        return total / number


class Service:
    def __init__(self):
        self._data, self._programs, self._predict = {}, {}, {}

    def load(self, folder):
        for kind in ("train", "t10k"):
            x, y = arrays_of(folder, kind)
            self._data[kind] = (tf.constant(x), tf.constant(y))
        return {}

    @staticmethod
    def hello():
        return {"version": tf.__version__, "blas": ["oneDNN" if os.environ.get(
            "TF_ENABLE_ONEDNN_OPTS", "1") != "0" else "Eigen"]}

    def _program(self, model, batch, variant):
        key = (model, batch, variant)
        if key not in self._programs:
            self._programs[key] = Program(self._data["train"], *key)
        return self._programs[key]

    def _accuracy(self, model, program):
        if program not in self._predict:
            self._predict[program] = tf.function(
                lambda x: tf.argmax(logits(model, program.weights, x), 1, tf.int32))
        x, y = self._data["t10k"]
        right = 0
        for begin in range(0, len(y), EVALUATION_BATCH):
            rows = slice(begin, begin + EVALUATION_BATCH)
            right += int(tf.reduce_sum(tf.cast(self._predict[program](x[rows]) == y[rows],
                                               tf.int32)))
        return right / len(y)

    def train(self, model, batch, steps, seed, rate, variant):
        """As in torch_side.py; tracing and compiling come before the clock."""
        program = self._program(model, batch, variant)
        training = Training(program, seed, rate)
        training.steps(UNROLLED + 1)
        examples, cpu, began = training.examples, time.process_time(), time.perf_counter()
        training.steps(steps)
        seconds = time.perf_counter() - began
        return {"examples_per_s": (training.examples - examples) / seconds,
                "cpu_s": time.process_time() - cpu,
                "accuracy": self._accuracy(model, program)}

    def fastest_variant(self, model, batch, steps):
        """As in torch_side.py."""
        return fastest(VARIANTS, lambda variant: self.train(model, batch, steps, 1, 0.02,
                                                            variant)["examples_per_s"])

    def curve(self, model, batch, windows, steps, seed, rate, variant):
        """As in torch_side.py."""
        program = self._program(model, batch, variant)
        training = Training(program, seed, rate)
        losses = [training.steps(steps) for _ in range(windows)]
        return {"losses": losses, "accuracy": self._accuracy(model, program)}

    def time_to(self, target, model, batch, seed, rate, warm_up, every_epochs, max_epochs,
                max_seconds, variant):
        """As in torch_side.py; tracing and compiling come before the clock."""
        program = self._program(model, batch, variant)
        Training(program, seed, rate).steps(UNROLLED + 1)
        self._accuracy(model, program)
        training = Training(program, seed, rate, warm_up)
        samples = len(self._data["train"][1])
        best, due, began = 0.0, 0.0, time.perf_counter()
        while training.examples < max_epochs * samples:
            due += every_epochs
            training.steps(max(1, math.ceil(due * samples / batch) - training.count))
            best = max(best, self._accuracy(model, program))
            seconds = time.perf_counter() - began
            if best >= target or (max_seconds is not None and seconds > max_seconds):
                break
        reached = best >= target and (max_seconds is None or seconds <= max_seconds)
        return {"seconds": seconds if reached else None,
                "epochs": training.examples / samples, "best": best}


def main():
    threads = int(sys.argv[1])
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    serve(Service())


if __name__ == "__main__":
    main()
