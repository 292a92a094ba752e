"""What torch.optim makes of parameters without a gradient, for ps_server/shard/stripe_absent_test.

    torch_absent.py [--write] TABLE

Trains three parameters of one value for 40 steps with each optimizer of CASES. In each second
step the middle one has no gradient: its grad is None, and torch leaves it and its state alone.
Compares with TABLE (ps_server/shard/testdata/torch_absent.txt), from which the C++ test takes its
values; --write writes it anew. Needs Debian's python3-torch; the test itself needs nothing.

A line is the case's number, the step (1: the first) and the parameters after it.
"""

import sys

import kept_table
import torch
import torch_optimizers

STEPS = 40
# As text formats of Optimizer in stripe_absent_test.cc, in this order.
CASES = [
    lambda w: torch.optim.SGD(w, lr=0.01, momentum=0.9, weight_decay=0.1),
    lambda w: torch.optim.Adagrad(w, lr=0.05, eps=1e-4, weight_decay=0.1),
    lambda w: torch.optim.Adam(w, lr=0.02, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1),
    lambda w: torch.optim.AdamW(w, lr=0.02, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1),
    lambda w: torch.optim.RMSprop(w, lr=0.02, alpha=0.9, eps=1e-4, momentum=0.9,
                                  weight_decay=0.1),
]


def lines():
    torch.set_num_threads(1)
    for number, make in enumerate(CASES):
        parameters = [torch.tensor([value], dtype=torch.float32, requires_grad=True)
                      for value in (1.0, -0.5, 0.25)]
        optimizer = make(parameters)
        for step in range(1, STEPS + 1):
            for index, parameter in enumerate(parameters):
                parameter.grad = torch.tensor([torch_optimizers.gradient(step, index)])
            if step % 2 == 0:
                parameters[1].grad = None
            optimizer.step()
            yield " ".join([str(number), str(step)] +
                           [f"{parameter.item():.9g}" for parameter in parameters])


if __name__ == "__main__":
    sys.exit(kept_table.main(__doc__, lines(), 2.0, torch_optimizers.unit_in_the_last_place,
                             " units in the last place of 1 a step"))
