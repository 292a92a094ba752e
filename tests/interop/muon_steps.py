"""What NumPy makes of Muon's steps in float64, for common/optimizer/muon_steps_test.

    muon_steps.py [--write] [--torch] TABLE

Moves a matrix for 30 steps with each case of CASES, on gradients that are exact in float32, and
compares with TABLE (common/optimizer/testdata/muon_steps.txt), from which the C++ test takes its
values; --write writes it anew. The formula is written here anew, from Jordan et al. 2024; NumPy is
all that it needs. --torch says, too, how far torch.optim.Muon (2.9 or later) is from it, which
iterates in bfloat16.

A line is the case's number, the step (1: the first) and the matrix after it, row by row.
"""

import argparse
import sys

import numpy as np

STEPS = 30
A, B, C = 3.4445, -4.7750, 2.0315


class Case:
    """The numbers of one Muon, by the names of torch.optim.Muon."""

    def __init__(self, rows, columns, lr, momentum=0.95, weight_decay=0.1, nesterov=True, ns_steps=5,
                 adjust_lr_fn="original"):
        self.shape = rows, columns
        self.settings = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay,
                         "nesterov": nesterov, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn}


# As text formats of Muon in muon_steps_test.cc, in this order.
CASES = [
    Case(4, 3, 0.02),
    Case(3, 5, 0.02, momentum=0.9, weight_decay=0.5),
    Case(5, 5, 0.01, nesterov=False, ns_steps=7),
    Case(2, 9, 0.005, momentum=0.8, adjust_lr_fn="match_rms_adamw"),
    Case(12, 4, 0.005, weight_decay=0.0, ns_steps=1, adjust_lr_fn="match_rms_adamw"),
]


def start(case):
    rows, columns = case.shape
    return np.array([(i * 5 % 7 - 3) / 4 for i in range(rows * columns)]).reshape(case.shape)


def gradient(case, step):
    """As in muon_steps_test.cc: multiples of 1/16 between -2 and 2, now and then 0."""
    size = case.shape[0] * case.shape[1]
    return np.array([((step * 7 + i * 13 + step * step * (i + 1)) % 65 - 32) / 16
                     for i in range(size)]).reshape(case.shape)


def orthogonal(u, steps):
    x = u / max(np.linalg.norm(u), 1e-7)
    for _ in range(steps):
        if x.shape[0] <= x.shape[1]:
            s = x @ x.T
            x = A * x + (B * s + C * s @ s) @ x
        else:
            s = x.T @ x
            x = A * x + x @ (B * s + C * s @ s)
    return x


def scale(case):
    rows, columns = case.shape
    if case.settings["adjust_lr_fn"] == "original":
        return max(1, rows / columns) ** 0.5
    return 0.2 * max(rows, columns) ** 0.5


def path(case):
    """The matrix after each step."""
    settings = case.settings
    w, m = start(case), np.zeros(case.shape)
    for step in range(1, STEPS + 1):
        g = gradient(case, step)
        m = settings["momentum"] * m + g
        u = g + settings["momentum"] * m if settings["nesterov"] else m
        w = (w - settings["lr"] * settings["weight_decay"] * w
             - settings["lr"] * scale(case) * orthogonal(u, settings["ns_steps"]))
        yield w


def path_of_torch(case):
    import torch
    w = torch.nn.Parameter(torch.tensor(start(case), dtype=torch.float32))
    optimizer = torch.optim.Muon([w], **case.settings)
    for step in range(1, STEPS + 1):
        w.grad = torch.tensor(gradient(case, step), dtype=torch.float32)
        optimizer.step()
        yield w.detach().numpy().astype(np.float64)


def kept(step):
    return step <= 3 or step % 10 == 0


def lines():
    for number, case in enumerate(CASES):
        for step, w in enumerate(path(case), 1):
            if kept(step):
                yield " ".join([str(number), str(step)] + [f"{value:.12g}" for value in w.flat])


def say_torch():
    """Of a step's length, that is: of the root mean square of what one step moves."""
    import torch
    for number, case in enumerate(CASES):
        ours, theirs = list(path(case)), list(path_of_torch(case))
        length = np.sqrt(np.mean((ours[0] - start(case)) ** 2))
        first, last = (np.sqrt(np.mean((ours[i] - theirs[i]) ** 2)) for i in (0, -1))
        print(f"torch {torch.__version__}, case {number}: {first / length:.2%} of a step after one, "
              f"{last / length:.2%} after {STEPS}")


def differs(old, new):
    """By how much, at most; infinite where the lines are others."""
    if [line.split()[:2] for line in old] != [line.split()[:2] for line in new]:
        return float("inf")
    return max(np.abs(np.array(x.split(), float) - np.array(y.split(), float)).max()
               for x, y in zip(old, new))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("table")
    arguments = parser.parse_args()
    new = list(lines())
    if arguments.torch:
        say_torch()
    if arguments.write:
        with open(arguments.table, "w", encoding="ascii") as file:
            file.write("\n".join(new) + "\n")
        return 0
    with open(arguments.table, encoding="ascii") as file:
        worst = differs(file.read().splitlines(), new)
    print(f"NumPy {np.__version__}: {len(new)} lines, largest difference {worst:.3g}: "
          f"{'as in the table' if worst <= 1e-9 else 'DIFFERENT'}")
    return 0 if worst <= 1e-9 else 1


if __name__ == "__main__":
    sys.exit(main())
