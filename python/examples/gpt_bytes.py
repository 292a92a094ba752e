"""A small GPT over bytes: 4 layers, 4 heads, width 128, context 64, about 0.8 million
parameters. It learns the text of Debian's package dict-gcide, as it is installed.

    python3 gpt_bytes.py --alone --steps=200
    python3 gpt_bytes.py --coordinator=127.0.0.1:2221 --every=100     # in several terminals
"""

import gzip
import pathlib
import sys

import numpy
import torch
import torch.nn.functional as F

import common
import monsoon as ms

DICTIONARY = pathlib.Path("/usr/share/dictd/gcide.dict.dz")
CONTEXT = 64
_DIGITS = {c: i for i, c in enumerate(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")}


def _number(text):
    value = 0
    for character in text:
        value = value * 64 + _DIGITS[character]
    return value


def articles(path=DICTIONARY):
    """The dictionary's articles in its order, bytes each. Its index (dictd's format) says
    where they lie: headword, offset and length a line, in base 64."""
    if not path.exists():
        sys.exit(f"{path} is missing: apt-get install dict-gcide, or give --text=FILE")
    with gzip.open(path, "rb") as file:
        text = file.read()
    places = set()
    index = path.with_name(path.name.replace(".dict.dz", ".index"))
    with open(index, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            word, offset, length = line.rstrip("\n").split("\t")[:3]
            if not word.startswith("00-database"):
                places.add((_number(offset), _number(length)))
    return [text[offset:offset + length] for offset, length in sorted(places)]


def split(parts, every=20):
    """Training and test text: each `every`th article is of the test, whole."""
    test = b"".join(parts[::every])
    train = b"".join(part for i, part in enumerate(parts) if i % every)
    return tuple(torch.from_numpy(numpy.frombuffer(text, numpy.uint8).copy())
                 for text in (train, test))


def windows(text, ids):
    """Inputs and targets, [n, CONTEXT] each: sample i begins at byte i * CONTEXT."""
    places = torch.as_tensor(ids)[:, None] * CONTEXT + torch.arange(CONTEXT + 1)
    rows = text[places].long()
    return rows[:, :-1], rows[:, 1:]


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before = torch.nn.LayerNorm(width)
        self.mix = torch.nn.Linear(width, 3 * width, bias=False)
        self.out = torch.nn.Linear(width, width, bias=False)
        self.after = torch.nn.LayerNorm(width)
        self.feed = torch.nn.Sequential(torch.nn.Linear(width, 4 * width, bias=False),
                                        torch.nn.GELU(),
                                        torch.nn.Linear(4 * width, width, bias=False))

    def forward(self, x, mask):
        n, length, width = x.shape
        q, k, v = (part.view(n, length, self.heads, -1).transpose(1, 2)
                   for part in self.mix(self.before(x)).split(width, dim=2))
        weights = (q @ k.transpose(-2, -1)) * (width // self.heads) ** -0.5
        weights = weights.masked_fill(~mask, float("-inf")).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(n, length, width))
        return x + self.feed(self.after(x))


class Gpt(torch.nn.Module):
    """Scores of the next byte, [n, CONTEXT, 256]. The output's weights are the embedding's."""

    def __init__(self, layers=4, heads=4, width=128):
        super().__init__()
        self.embedding = torch.nn.Embedding(256, width)
        self.position = torch.nn.Embedding(CONTEXT, width)
        self.blocks = torch.nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = torch.nn.LayerNorm(width)
        self.head = torch.nn.Linear(width, 256, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("mask", torch.tril(torch.ones(CONTEXT, CONTEXT)).bool(),
                             persistent=False)
        for p in self.parameters():
            if p.dim() > 1:
                torch.nn.init.normal_(p, std=0.02)

    def forward(self, ids):
        x = self.embedding(ids) + self.position.weight[:ids.shape[1]]
        for block in self.blocks:
            x = block(x, self.mask[:ids.shape[1], :ids.shape[1]])
        return self.head(self.norm(x))


def loss_of(model, text, ids):
    inputs, targets = windows(text, ids)
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


def main(argv):
    parser = common.arguments(__doc__, argv, batch=12, rate=1e-3)
    parser.add_argument("--text", help="another text; its lines are the articles")
    options = parser.parse_args(argv)
    if options.text:
        parts = pathlib.Path(options.text).read_bytes().splitlines(keepends=True)
    else:
        parts = articles()
    train, test = split(parts)
    samples = (len(train) - 1) // CONTEXT
    samples = min(samples, options.limit or samples)
    test_samples = min((len(test) - 1) // CONTEXT, 240)
    torch.manual_seed(options.seed)
    model = Gpt()

    def evaluate(model):
        losses = [loss_of(model, test, ids) * len(ids)
                  for ids in torch.arange(test_samples).split(24)]
        return {"loss": sum(losses) / test_samples}

    if options.every > 0:
        optimizer = ms.Local(torch.optim.AdamW(model.parameters(), lr=options.rate),
                             every=options.every)
    else:
        optimizer = ms.Adam(options.rate, clip_norm=1.0)
    job = ms.join(job="gpt-bytes", model=model, optimizer=optimizer, evaluate=evaluate,
                  **common.settings(options))
    lines = common.Lines()
    with job:
        for ids in job.blocks(samples, batch=options.batch):
            loss = loss_of(model, train, ids)
            loss.backward()
            job.step(loss)
            lines.step(job, loss.item)
    with torch.no_grad():
        print(f"test: loss={evaluate(model)['loss']:.4f} a byte, in nats")
    common.finish(job, options)


if __name__ == "__main__":
    main(sys.argv[1:])
