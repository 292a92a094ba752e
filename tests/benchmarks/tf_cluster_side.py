"""A task of TensorFlow's ParameterServerStrategy. cluster_sides.py starts them.

    tf_cluster_side.py CLUSTER_JSON JOB INDEX     # a worker or ps: serves until it is killed
    tf_cluster_side.py CLUSTER_JSON chief 0       # reads JSON requests, as tf_side.py

The preset LeNet of tf_side.py, parameters and Adagrad's sums on the ps, through a
ClusterCoordinator whose functions make STEPS steps each at the worker that is free: the
custom loop of TensorFlow's guide. Each worker has an order of its own, one thread.
"""

import json
import math
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import tensorflow as tf  # noqa: E402

import tf_side  # noqa: E402
from side_service import serve  # noqa: E402

STEPS = 7
MODEL = "lenet"


def images_of(raw):
    return (tf.cast(raw, tf.float32) / 255 - tf_side.MEAN) * tf_side.SCALE


class Training:
    """Parameters on the ps, and the function that workers run."""

    def __init__(self, strategy, folder, batch):
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        self._batch = batch
        with strategy.scope():
            self.weights = [tf.Variable(a) for a in tf_side.initial(MODEL, 0)]
            self.sums = [tf.Variable(tf.zeros_like(weight)) for weight in self.weights]
        images, labels = [tf_side.read_idx(os.path.join(folder, f"train-{kind}-ubyte.gz"))
                          for kind in ("images-idx3", "labels-idx1")]
        self.samples = len(labels)

        def batches():
            # Bytes travel to the workers; each makes its floats.
            x, y = tf.constant(images[..., None]), tf.constant(labels)
            ids = tf.data.Dataset.range(self.samples).shuffle(self.samples).repeat()
            data = ids.batch(batch, drop_remainder=True).map(
                lambda i: (images_of(tf.gather(x, i)), tf.cast(tf.gather(y, i), tf.int32)))
            options = tf.data.Options()
            options.threading.private_threadpool_size = 1
            return data.prefetch(2).with_options(options)

        self._batches = iter(self._coordinator.create_per_worker_dataset(batches))
        x, y = tf_side.arrays_of(folder, "t10k")
        self._test = (tf.constant(x), tf.constant(y))
        self._predict = tf.function(
            lambda weights, x: tf.argmax(tf_side.logits(MODEL, weights, x), 1, tf.int32))

        @tf.function
        def run(iterator, rate):
            total = 0.0
            for _ in range(STEPS):
                x, y = next(iterator)
                x = tf.ensure_shape(x, (batch, 28, 28, 1))
                with tf.GradientTape() as tape:
                    loss = tf_side.loss_of(MODEL, self.weights, x, y)
                gradients = tape.gradient(loss, self.weights)
                for weight, total_of, gradient in zip(self.weights, self.sums, gradients):
                    with tf.device(weight.device):
                        tf.raw_ops.ResourceApplyAdagradV2(
                            var=weight.handle, accum=total_of.handle, lr=rate,
                            epsilon=tf_side.EPSILON, grad=gradient)
                total += loss
            return total / STEPS

        self._run = run
        self.count = 0

    def reset(self, seed):
        for weight, total, array in zip(self.weights, self.sums, tf_side.initial(MODEL, seed)):
            weight.assign(array)
            total.assign(tf.zeros_like(total))
        self.count = 0

    def steps(self, number, rate, warm_up):
        """At least so many more, of all workers together; the mean loss of the last ones."""
        told = []
        for _ in range(math.ceil(number / STEPS)):
            now = rate * min(1.0, (self.count + 1) / max(1, warm_up))
            told.append(self._coordinator.schedule(
                self._run, args=(self._batches, tf.constant(now, tf.float32))))
            self.count += STEPS
        self._coordinator.join()
        loss = sum(float(value.fetch()) for value in told[-3:]) / len(told[-3:])
        if not math.isfinite(loss):
            raise ArithmeticError(f"the loss is {loss}")
        return loss

    def accuracy(self):
        weights = [weight.read_value() for weight in self.weights]
        x, y = self._test
        right = 0
        for begin in range(0, len(y), tf_side.EVALUATION_BATCH):
            rows = slice(begin, begin + tf_side.EVALUATION_BATCH)
            right += int(tf.reduce_sum(tf.cast(self._predict(weights, x[rows]) == y[rows],
                                               tf.int32)))
        return right / len(y)


class Service:
    def __init__(self, cluster):
        self._strategy = tf.distribute.ParameterServerStrategy(
            tf.distribute.cluster_resolver.SimpleClusterResolver(
                tf.train.ClusterSpec(cluster), rpc_layer="grpc"))
        self._training = None

    @staticmethod
    def hello():
        return {"version": tf.__version__}

    def load(self, folder, batch):
        """Also traces, and has each worker run the function."""
        self._training = Training(self._strategy, folder, batch)
        self._training.steps(20 * STEPS, 0.001, 0)
        self._training.accuracy()
        return {}

    def run(self, steps, seed, rate, warm_up):
        training = self._training
        training.reset(seed)
        began = time.perf_counter()
        training.steps(steps, rate, warm_up)
        seconds = time.perf_counter() - began
        return {"examples_per_s": training.count * training._batch / seconds,
                "accuracy": training.accuracy()}

    def time_to(self, target, seed, rate, warm_up, every_epochs, max_epochs, max_seconds):
        """As in tf_side.py. Workers wait while the chief evaluates."""
        training = self._training
        training.reset(seed)
        per_epoch = training.samples / training._batch
        best, due, began = 0.0, 0.0, time.perf_counter()
        while training.count < max_epochs * per_epoch:
            due += every_epochs
            training.steps(max(1, due * per_epoch - training.count), rate, warm_up)
            best = max(best, training.accuracy())
            seconds = time.perf_counter() - began
            if best >= target or (max_seconds is not None and seconds > max_seconds):
                break
        reached = best >= target and (max_seconds is None or seconds <= max_seconds)
        return {"seconds": seconds if reached else None, "best": best,
                "epochs": training.count / per_epoch}


def main():
    cluster, job, index = json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    # The chief computes only while the workers wait, when it evaluates.
    tf.config.threading.set_intra_op_parallelism_threads(
        os.cpu_count() if job == "chief" else 1)
    if job != "chief":
        tf.config.threading.set_inter_op_parallelism_threads(4)  # those of a ps only wait
        tf.distribute.Server(tf.train.ClusterSpec(cluster), job_name=job, task_index=index,
                             protocol="grpc").join()
        return
    serve(Service(cluster))


if __name__ == "__main__":
    main()
