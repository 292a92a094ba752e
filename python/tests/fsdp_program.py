"""One rank of a group that trains a model cut over its ranks (FSDP2), for test_real_fsdp.py."""

import argparse
import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402

import monsoon as ms  # noqa: E402


class Counts(torch.nn.Module):
    """Its gradient is 1 for each value of the samples' mean, whatever the parameters are."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(3, 5, bias=False)   # 5 rows: uneven over two ranks
        self.second = torch.nn.Linear(4, 1, bias=False)  # one row: the second rank has none
        for p in self.parameters():
            torch.nn.init.zeros_(p)

    def forward(self, x):
        ones = x.new_ones(len(x), 4)
        return self.first(x.new_ones(len(x), 3)).sum(1).mean() + self.second(ones).sum(1).mean()


def net():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.Tanh(), torch.nn.Linear(9, 3))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--coordinator", required=True)
    parser.add_argument("--job", required=True)
    parser.add_argument("--store", required=True)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--kind", default="counts")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--every", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{options.store}", rank=options.rank,
                            world_size=2)
    model = Counts() if options.kind == "counts" else net()
    for part in model.children():
        if isinstance(part, torch.nn.Linear):
            fully_shard(part)
    fully_shard(model)
    generator = torch.Generator().manual_seed(5)
    x, y = torch.randn(64, 6, generator=generator), torch.randint(0, 3, (64,), generator=generator)

    def loss_of(m, ids):
        return m(x[ids]) if options.kind == "counts" else (
            torch.nn.functional.cross_entropy(m(x[ids]), y[ids]))

    evaluated = []

    def evaluate(m):
        evaluated.append(float(loss_of(m, list(range(64)))))
        return {"loss": abs(evaluated[-1])}

    optimizer = ms.SGD(1.0 if options.kind == "counts" else 0.1)
    if options.every:
        optimizer = ms.Local(torch.optim.SGD(model.parameters(), lr=0.1), every=options.every,
                             outer=ms.SGD(1.0))
    with ms.join(options.coordinator, job=options.job, model=model, optimizer=optimizer,
                 max_steps=options.steps, batch=8, examples=64, overlap=False, evaluate=evaluate,
                 group=dist.group.WORLD) as job:
        for ids in job.blocks():
            loss = loss_of(model, ids)
            loss.backward()
            job.step(loss.item())
            print("step", flush=True)
    print(json.dumps({"rank": options.rank, "evaluated": evaluated, "local": {
        name: p.to_local().tolist() for name, p in model.named_parameters()},
        "vector": int(job._training.replica.parameters.size)}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
