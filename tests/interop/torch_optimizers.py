"""What torch.optim makes of the same gradients, for common/optimizer/torch_steps_test.

    torch_optimizers.py [--write] TABLE

Trains three parameters for 100 steps with each optimizer of CASES on gradients that are
exact in float32, and compares with TABLE (common/optimizer/testdata/torch_steps.txt),
from which the C++ test takes its values; --write writes it anew. Needs Debian's
python3-torch; the test itself needs nothing. torch has no Lion: it is written here, from its
paper.

A line is the case's number, the step (1: the first) and the parameters after it.
"""

import sys

import kept_table
import torch

STEPS = 100


class Lion(torch.optim.Optimizer):
    """Chen et al. 2023, algorithm 2, in float64."""

    def __init__(self, parameters, lr, betas, weight_decay):
        super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for w in group["params"]:
                state = self.state[w]
                m = state.setdefault("m", torch.zeros_like(w, dtype=torch.float64))
                at = state.setdefault("w", w.to(torch.float64))
                g = w.grad.to(torch.float64)
                update = torch.sign(beta1 * m + (1 - beta1) * g)
                at -= group["lr"] * (update + group["weight_decay"] * at)
                m.copy_(beta2 * m + (1 - beta2) * g)
                w.copy_(at)


# As text formats of Optimizer in torch_steps_test.cc, in this order.
CASES = [
    lambda w: torch.optim.Adam([w], lr=0.01),
    lambda w: torch.optim.Adam([w], lr=0.02, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1),
    lambda w: torch.optim.AdamW([w], lr=0.01),
    lambda w: torch.optim.AdamW([w], lr=0.02, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1),
    lambda w: torch.optim.RMSprop([w], lr=0.01),
    lambda w: torch.optim.RMSprop([w], lr=0.02, alpha=0.9, eps=1e-4, momentum=0.9,
                                  weight_decay=0.1),
    lambda w: Lion([w], 0.01, (0.9, 0.99), 0.0),
    lambda w: Lion([w], 0.02, (0.8, 0.95), 0.1),
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
