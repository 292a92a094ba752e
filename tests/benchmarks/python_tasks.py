"""What Python programs train in the benchmarks: the models of python/examples and their
data. A module of the training processes, which have PyTorch; see python_side.py.

LeNet on Fashion-MNIST has batch 64 and Adagrad, the GPT over the bytes of a dictionary
batch 12 and Adam, both with PyTorch's formulas and the same warm-up of the rate on whichever
side moves the parameters.
"""

import pathlib
import sys

import numpy
import torch
import torch.nn.functional as F

ROOT = pathlib.Path(__file__).resolve().parents[2]
for folder in (ROOT / "python", ROOT / "python" / "examples"):
    sys.path.insert(0, str(folder))
import common  # noqa: E402
import gpt_bytes  # noqa: E402
import lenet_torch  # noqa: E402
import monsoon as ms  # noqa: E402

ADAGRAD_EPSILON = 1e-8


class LeNet:
    batch = 64
    # Steps in which the rate grows. Adagrad keeps what it saw first: without it the large
    # and stale gradients of several workers slow all later steps.
    warm_up = 300

    def __init__(self):
        (images, self.y), (test_images, self.test_y) = [
            (torch.from_numpy(images)[:, None], torch.from_numpy(labels))
            for images, labels in common.fashion_mnist()]
        self.x, self.test_x = images, test_images
        self.samples = len(images)

    @staticmethod
    def build(seed):
        return lenet_torch.make_model(seed)

    def loss(self, model, ids):
        return F.cross_entropy(model(self.x[ids]), self.y[ids])

    def evaluate(self, model, briefly=False):
        """{"loss", "accuracy"} of the test set; `briefly`: of its first fifth."""
        images, labels = ((part[:2000] if briefly else part)
                          for part in (self.test_x, self.test_y))
        with torch.no_grad():
            out = torch.cat([model(part) for part in images.split(500)])
        return {"loss": F.cross_entropy(out, labels).item(),
                "accuracy": (out.argmax(1) == labels).float().mean().item()}

    @staticmethod
    def torch_optimizer(parameters, rate):
        return torch.optim.Adagrad(parameters, lr=rate, eps=ADAGRAD_EPSILON)

    @classmethod
    def shard_optimizer(cls, rate):
        return ms.Adagrad(rate, eps=ADAGRAD_EPSILON, schedule=ms.WarmUp(cls.warm_up))


class Gpt:
    batch = 12
    warm_up = 0

    def __init__(self):
        self.train, self.test = gpt_bytes.split(gpt_bytes.articles())
        self.samples = (len(self.train) - 1) // gpt_bytes.CONTEXT

    @staticmethod
    def build(seed):
        torch.manual_seed(seed)
        return gpt_bytes.Gpt()

    def loss(self, model, ids):
        return gpt_bytes.loss_of(model, self.train, ids)

    def evaluate(self, model, briefly=False):
        """{"loss"} of the test text's beginning, in nats a byte: 15 or, `briefly`, 3 KB."""
        samples = 48 if briefly else 240
        with torch.no_grad():
            losses = [gpt_bytes.loss_of(model, self.test, ids).item() * len(ids)
                      for ids in torch.arange(samples).split(self.batch)]
        return {"loss": sum(losses) / samples}

    @staticmethod
    def torch_optimizer(parameters, rate, beta1=0.9):
        return torch.optim.Adam(parameters, lr=rate, betas=(beta1, 0.999))

    @staticmethod
    def shard_optimizer(rate, beta1=0.9):
        return ms.Adam(rate, betas=(beta1, 0.999))


TASKS = {"lenet": LeNet, "gpt": Gpt}


def warmed_up(optimizer, steps):
    """The schedule of its rate that ms.WarmUp(steps) is on the shards; call step() after the
    optimizer's. None for 0."""
    if steps == 0:
        return None
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: min(1.0, (k + 1) / steps))


def batches(samples, batch, seed, rank=0, world=1):
    """Numbers of samples for ever: a new order each epoch, of which rank r has each world-th
    sample, as DistributedSampler deals them; whole batches only."""
    epoch = 0
    while True:
        order = numpy.random.default_rng((seed, epoch)).permutation(samples)[rank::world]
        # All ranks make the same number of steps.
        for begin in range(0, samples // world - batch + 1, batch):
            yield order[begin:begin + batch]
        epoch += 1
