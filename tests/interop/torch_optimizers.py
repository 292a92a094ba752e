"""What torch.optim makes of the same gradients, for common/optimizer/torch_steps_test.

    torch_optimizers.py [--write] TABLE

Trains three parameters for 100 steps with each optimizer of CASES on gradients that are
exact in float32, and compares with TABLE (common/optimizer/testdata/torch_steps.txt),
from which the C++ test takes its values; --write writes it anew. Needs Debian's
python3-torch; the test itself needs nothing.

A line is the case's number, the step (1: the first) and the parameters after it.
"""

import sys

import kept_table
import torch

STEPS = 100
# As text formats of Optimizer in torch_steps_test.cc, in this order.
CASES = [
    lambda w: torch.optim.Adam([w], lr=0.01),
    lambda w: torch.optim.Adam([w], lr=0.02, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1),
    lambda w: torch.optim.AdamW([w], lr=0.01),
    lambda w: torch.optim.AdamW([w], lr=0.02, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1),
    lambda w: torch.optim.RMSprop([w], lr=0.01),
    lambda w: torch.optim.RMSprop([w], lr=0.02, alpha=0.9, eps=1e-4, momentum=0.9,
                                  weight_decay=0.1),
]


def kept(step):
    return step <= 5 or step % 5 == 0


def gradient(step, index):
    """As in torch_steps_test.cc: multiples of 1/16 between -2 and 2, now and then 0."""
    return ((step * 7 + index * 13 + step * step * (index + 1)) % 65 - 32) / 16.0


def lines():
    torch.set_num_threads(1)
    for number, make in enumerate(CASES):
        w = torch.tensor([1.0, -0.5, 0.25], dtype=torch.float32, requires_grad=True)
        optimizer = make(w)
        for step in range(1, STEPS + 1):
            w.grad = torch.tensor([gradient(step, i) for i in range(3)], dtype=torch.float32)
            optimizer.step()
            if kept(step):
                yield " ".join([str(number), str(step)] +
                               [f"{value:.9g}" for value in w.detach().tolist()])


def unit_in_the_last_place(words):
    """Another build of torch may round another way, by one of 1 a step."""
    return int(words[1]) * 2.0 ** -23


if __name__ == "__main__":
    sys.exit(kept_table.main(__doc__, lines(), 2.0, unit_in_the_last_place,
                             " units in the last place of 1 a step"))
