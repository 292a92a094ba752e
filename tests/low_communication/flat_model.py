"""The GPT of python/examples/gpt_bytes.py with its parameters in the shard's vector, its data
and its loss."""

import math
import pathlib
import sys

import torch

_PYTHON = pathlib.Path(__file__).resolve().parents[2] / "python"
sys.path[:0] = [str(_PYTHON), str(_PYTHON / "examples")]

import gpt_bytes  # noqa: E402  (the example, as users have it)
import lab_library  # noqa: E402

BETAS, WEIGHT_DECAY = (0.9, 0.95), 0.1
TEST_AT_ONCE = 24


def describe(model):
    """The model as a job of programs lists it (proto/model.proto, text format)."""
    tensors = "".join(
        f'tensor {{ name: "{name}" {" ".join(f"shape: {n}" for n in p.shape)} }}\n'
        for name, p in model.named_parameters())
    return f'name: "gpt"\n{tensors}'


class FlatModel:
    """A network whose parameters and gradients are views of two vectors."""

    def __init__(self, plan, seed):
        torch.manual_seed(seed)
        self.network = gpt_bytes.Gpt(plan.layers, plan.heads, plan.width)
        self.text = describe(self.network)
        floats, offsets = lab_library.layout(self.text)
        self.parameters = torch.nn.Parameter(torch.zeros(floats))
        self.parameters.grad = torch.zeros(floats)
        for offset, p in zip(offsets, self.network.parameters()):
            view = self.vector[offset:offset + p.numel()].view(p.shape)
            view.copy_(p.data)
            p.data = view
            p.grad = self.parameters.grad[offset:offset + p.numel()].view(p.shape)

    @property
    def vector(self):
        return self.parameters.data

    def adam_w(self):
        return torch.optim.AdamW([self.parameters], betas=BETAS, weight_decay=WEIGHT_DECAY)

    def gradient(self, text, ids):
        """The mean loss of the samples; its gradient is parameters.grad."""
        self.parameters.grad.zero_()
        loss = gpt_bytes.loss_of(self.network, text, ids)
        loss.backward()
        return self.parameters.grad

    def loss(self, text, samples):
        """Of the text's first `samples`, in nats a byte."""
        with torch.no_grad():
            return sum(gpt_bytes.loss_of(self.network, text, ids).item() * len(ids)
                       for ids in torch.arange(samples).split(TEST_AT_ONCE)) / samples


class Data:
    """Training and test text, and which samples batch j has."""

    def __init__(self, train, test):
        self.train, self.test = train, test
        self.samples = (len(train) - 1) // gpt_bytes.CONTEXT
        self.test_samples = (len(test) - 1) // gpt_bytes.CONTEXT

    @classmethod
    def dictionary(cls, path):
        return cls(*gpt_bytes.split(gpt_bytes.articles(pathlib.Path(path))))

    @classmethod
    def made_up(cls, length=20000):
        """Where there is no dictionary: words that repeat, drawn by a fixed generator."""
        generator = torch.Generator().manual_seed(1)
        words = [bytes(97 + int(c) for c in torch.randint(0, 26, (n,), generator=generator))
                 for n in (3, 4, 5, 6, 7, 8)]
        drawn = torch.randint(0, len(words), (length // 5,), generator=generator)
        text = torch.tensor(list(b" ".join(words[int(i)] for i in drawn))[:length],
                            dtype=torch.uint8)
        return cls(text[:-length // 5], text[-length // 5:])

    def order(self, seed):
        return torch.randperm(self.samples, generator=torch.Generator().manual_seed(seed))

    def batch(self, order, j, size):
        return order[torch.arange(j * size, (j + 1) * size) % self.samples]


def rate_at(plan, j):
    """What the inner rate is multiplied by at batch j of the job: warm-up, then a cosine to a
    tenth."""
    warm = min(1.0, (j + 1) / max(1, plan.warm_up))
    return warm * (0.1 + 0.9 * (1 + math.cos(math.pi * j / plan.steps)) / 2)
