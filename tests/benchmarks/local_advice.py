#!/usr/bin/env python3
"""Which outer optimizer to begin with: local steps by several programs, in short and long runs.

    tests/benchmarks/local_advice.py [--seeds=3] [--models=gpt,lenet] [--out=FILE] [--quick]

A GPT of 0.1 M parameters over bytes (batch 12, AdamW 1e-3 inside) and LeNet (batch 64, SGD 0.1), three
programs with a torch thread each; an exchange every 10 or 50 steps; 150 and 600 steps of each program.
Told is the test loss at the end (mean over the seeds, least and most), beside what is reached in as many
steps, that is in as much time, by

- alone: torch, one program;
- DDP: torch, the mean gradient of three batches at each step;
- DiLoCo in torch: three copies in one process, their mean difference by Nesterov(0.7, 0.9).

and by Monsoon with each way of WAYS. Rows of eight programs, and of the GPT of 0.8 M, have one seed.
What FILE has of an earlier run is not run again.
Programs are forked from this process, which has loaded PyTorch, so that a run takes seconds. It needs
PyTorch, Debian's dataset-fashion-mnist and dict-gcide, and MONSOON_BIN.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent / "python"), str(HERE.parent.parent / "python" / "examples"),
                str(HERE)]
import torch  # noqa: E402

import gpt_bytes  # noqa: E402
import monsoon as ms  # noqa: E402
import python_tasks  # noqa: E402

# outer(programs), and whether differences are averaged in rounds.
WAYS = {
    "SGD(1/N)": (lambda n: ms.SGD(1.0 / n), False),
    "DelayedNesterov(0.7, 0.9, N)": (lambda n: ms.DelayedNesterov(0.7, 0.9, period=n), False),
    "rounds, SGD(1)": (lambda n: ms.SGD(1.0), True),
    "rounds, Nesterov(0.7, 0.9)": (lambda n: ms.Nesterov(0.7, 0.9), True),
    "rounds, Nesterov(0.7, 0.5)": (lambda n: ms.Nesterov(0.7, 0.5), True),
}


class SmallGpt(python_tasks.Gpt):
    title, layers, width = "GPT 0.1 M", 2, 64

    def build(self, seed):
        torch.manual_seed(seed)
        return gpt_bytes.Gpt(self.layers, 4, self.width)

    @staticmethod
    def inner(model):
        return torch.optim.AdamW(model.parameters(), lr=1e-3)

    def test_loss(self, model):
        samples = torch.arange(240)
        with torch.no_grad():
            return sum(gpt_bytes.loss_of(model, self.test, ids).item() * len(ids)
                       for ids in samples.split(24)) / len(samples)


class Gpt(SmallGpt):
    title, layers, width = "GPT 0.8 M", 4, 128


class LeNet(python_tasks.LeNet):
    title = "LeNet"

    @staticmethod
    def inner(model):
        return torch.optim.SGD(model.parameters(), lr=0.1)

    def test_loss(self, model):
        return self.evaluate(model)["loss"]


# ---- in torch --------------------------------------------------------------------------------


def orders(task, seed, programs):
    """Of each program, numbers of the next batch's samples."""
    generators = [torch.Generator().manual_seed(1000 * seed + i) for i in range(programs)]
    return [lambda g=g: torch.randint(task.samples, (task.batch,), generator=g)
            for g in generators]


def in_torch(task, seed, programs, steps, every=None):
    """The test loss of torch alone (one program), of DDP, or (`every`) of DiLoCo."""
    draws = orders(task, seed, programs)
    job = task.build(seed)
    if every is None:
        inner = task.inner(job)
        for _ in range(steps):
            inner.zero_grad()
            for draw in draws:
                (task.loss(job, draw()) / programs).backward()
            inner.step()
        return task.test_loss(job)
    outer = torch.optim.SGD(job.parameters(), lr=0.7, momentum=0.9, nesterov=True)
    copies = [task.build(seed) for _ in draws]
    inners = [task.inner(copy) for copy in copies]
    for step in range(steps):
        for copy, inner, draw in zip(copies, inners, draws):
            inner.zero_grad()
            task.loss(copy, draw()).backward()
            inner.step()
        if (step + 1) % every == 0:
            with torch.no_grad():
                for p, *moved in zip(job.parameters(), *(copy.parameters() for copy in copies)):
                    p.grad = p - sum(moved) / len(moved)
            outer.step()
            for copy in copies:
                copy.load_state_dict(job.state_dict())
    return task.test_loss(job)


# ---- by Monsoon ------------------------------------------------------------------------------


def program(task, address, name, seed, programs, steps, every, way):
    outer, averages = WAYS[way]
    model = task.build(seed)
    job = ms.join(address, job=name, model=model, max_steps=steps * programs, seed=seed,
                  optimizer=ms.Local(task.inner(model), every=every, outer=outer(programs),
                                     rounds=ms.Rounds() if averages else None))
    with job:
        for ids in job.blocks(task.samples, batch=task.batch):
            loss = task.loss(model, ids)
            loss.backward()
            job.step(loss)
    return task.test_loss(model)


def forked(call):
    """(pid, a pipe with the number that `call` returns in a child)."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(read)
            os.write(write, repr(float(call())).encode())
        finally:
            os._exit(0)
    os.close(write)
    return pid, read


def by_monsoon(task, address, name, seed, programs, steps, every, way):
    children = [forked(lambda: program(task, address, name, seed, programs, steps, every, way))
                for _ in range(programs)]
    losses = []
    for pid, read in children:
        with os.fdopen(read, "rb") as pipe:
            said = pipe.read()
        os.waitpid(pid, 0)
        if said:
            losses.append(float(said))
    if not losses:
        raise RuntimeError(f"{name}: no program came to its end")
    return losses[0]


# ---- the table -------------------------------------------------------------------------------


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--models", default="gpt,lenet")
    parser.add_argument("--out")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    kinds = {"gpt": SmallGpt, "lenet": LeNet}
    lengths, everys = ((20, 40), (10,)) if options.quick else ((150, 600), (10, 50))
    # (task, programs, steps, every, seeds)
    cases = [(kinds[name], 3, steps, every, options.seeds) for name in options.models.split(",")
             for steps in lengths for every in everys]
    if not options.quick and "gpt" in options.models:
        cases += [(SmallGpt, 8, 150, 10, 1), (Gpt, 3, 150, 10, 1)]
    tasks, rows, number = {}, [], 0
    if options.out and pathlib.Path(options.out).exists():
        rows = json.loads(pathlib.Path(options.out).read_text(encoding="utf-8"))
    known = {tuple(row[key] for key in ("model", "programs", "steps", "every", "seed"))
             for row in rows}
    with ms.local_cluster(ps=1) as cluster:
        for kind, programs, steps, every, seeds in cases:
            task = tasks.setdefault(kind, kind())
            for seed in range(1, seeds + 1):
                if (task.title, programs, steps, every, seed) in known:
                    continue
                begin = time.monotonic()
                found = {"alone": in_torch(task, seed, 1, steps),
                         "DDP": in_torch(task, seed, programs, steps),
                         "DiLoCo in torch": in_torch(task, seed, programs, steps, every)}
                for way in WAYS:
                    number += 1
                    found[way] = by_monsoon(task, cluster.address, f"advice-{number}", seed, programs,
                                            steps, every, way)
                rows.append({"model": task.title, "programs": programs, "steps": steps, "every": every,
                             "seed": seed, "loss": found, "seconds": time.monotonic() - begin})
                print(json.dumps(rows[-1]), flush=True)
                if options.out:
                    pathlib.Path(options.out).write_text(json.dumps(rows, indent=1), encoding="utf-8")
    names = list(rows[0]["loss"])
    print("\n| model, programs, steps, every | " + " | ".join(names) + " |")
    print("|---|" + "---|" * len(names))
    groups = {}
    for row in rows:
        groups.setdefault((row["model"], row["programs"], row["steps"], row["every"]), []).append(row)
    for (model, programs, steps, every), group in groups.items():
        cells = []
        for name in names:
            values = [row["loss"][name] for row in group]
            spread = f" ({min(values):.3f} to {max(values):.3f})" if len(values) > 1 else ""
            cells.append(f"{statistics.fmean(values):.3f}{spread}")
        print(f"| {model}, {programs}, {steps}, {every} | " + " | ".join(cells) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
