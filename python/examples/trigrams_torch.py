"""Tells lines of C from lines of Python by their trigrams: an embedding of 1,000,000 rows, of
which a step needs some hundred.

    python3 trigrams_torch.py --alone --steps=500
    python3 trigrams_torch.py --coordinator=127.0.0.1:2221   # in several terminals

The lines are those of the headers and of Python's library on this machine.
"""

import pathlib
import sys
import sysconfig
import zlib

import numpy
import torch

import common
import monsoon as ms

ROWS, COLUMNS = 1_000_000, 16
LINES = 40000  # of each kind
TRIGRAMS = 48  # of a line, at most; row 0 stands for none


def lines_of(folder, pattern, count):
    """Lines with at least 12 characters that are no blanks, each once."""
    found = {}
    for path in sorted(pathlib.Path(folder).rglob(pattern)):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if len(line.strip()) >= 12:
                found[line.strip()] = None
        if len(found) >= count:
            break
    return list(found)[:count]


def rows_of(line):
    """The table's rows of a line's trigrams."""
    text = line.encode()
    numbers = [zlib.crc32(text[i:i + 3]) % (ROWS - 1) + 1
               for i in range(min(len(text) - 2, TRIGRAMS))]
    return numbers + [0] * (TRIGRAMS - len(numbers))


def data(limit):
    """(rows int64 [n, TRIGRAMS], labels int64 [n]) of training and of test, in a mixed order."""
    kinds = [lines_of("/usr/include", "*.h", LINES),
             lines_of(sysconfig.get_paths()["stdlib"], "*.py", LINES)]
    lines = [(line, label) for label, kind in enumerate(kinds) for line in kind]
    order = numpy.random.default_rng(0).permutation(len(lines))[:limit]
    rows = torch.tensor([rows_of(lines[i][0]) for i in order])
    labels = torch.tensor([lines[i][1] for i in order])
    tests = len(order) // 8
    return (rows[tests:], labels[tests:]), (rows[:tests], labels[:tests])


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.trigrams = ms.Embedding(ROWS, COLUMNS, lr=0.1, padding_idx=0)
        self.hidden = torch.nn.Linear(COLUMNS, 32)
        self.out = torch.nn.Linear(32, 2)

    def forward(self, rows):
        return self.out(torch.relu(self.hidden(self.trigrams(rows).mean(1))))


def main(argv):
    options = common.arguments(__doc__, argv, batch=64, rate=0.05).parse_args(argv)
    if options.every:
        sys.exit("rows are pushed with gradients: leave --every out")
    torch.manual_seed(options.seed)
    (rows, labels), (test_rows, test_labels) = data(options.limit)
    model = Model()

    def evaluate(model):
        scores = model(test_rows)
        loss = torch.nn.functional.cross_entropy(scores, test_labels)
        return {"loss": loss, "accuracy": (scores.argmax(1) == test_labels).float().mean()}

    job = ms.join(job="trigrams", model=model, optimizer=ms.Adagrad(options.rate),
                  evaluate=evaluate, **common.settings(options))
    lines = common.Lines()
    with job:
        for ids in job.blocks(len(rows), batch=options.batch):
            loss = torch.nn.functional.cross_entropy(model(rows[ids]), labels[ids])
            loss.backward()
            job.step(loss)
            lines.step(job, loss.item)
        with torch.no_grad():
            print("test: " + " ".join(f"{n}={v:.4f}" for n, v in evaluate(model).items()))
        common.finish(job, options)


if __name__ == "__main__":
    main(sys.argv[1:])
