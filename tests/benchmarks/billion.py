#!/usr/bin/env python3
"""A model of a billion parameters on one machine: where its bytes are, and how long each phase takes.

    tests/benchmarks/billion.py [--layers=20] [--width=2048] [--steps=6] [--optimizer=lion]
                                [--state=DIR] [--plan]

A GPT over bytes, bfloat16 in the program, float32 masters and the optimizer's slot on two parameter
servers of this machine; needs torch 2, `MONSOON_BIN` and room on the disk for three generations. The
sum of all bytes is printed first (--plan: nothing else); where it is more than the machine's memory
the run is refused. Then: steps with the time of each part, a checkpoint, ps/1 is killed and comes back,
two steps more. At the end every process's largest memory (PSS, each half second), and the checks: all
steps counted, nothing lost, all parameters finite, and the mean loss of the last three steps below that
of the first.
"""

import argparse
import json
import os
import pathlib
import signal
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent / "python"), str(HERE.parent.parent / "python" / "examples")]

SLOTS = {"sgd": 0, "momentum": 1, "lion": 1, "adagrad": 1, "adam_w": 2}
GIB = 1 << 30
BATCH = 1


def parameters(layers, width):
    """Of gpt_bytes.Gpt: matrices, norms, and the two embeddings."""
    return layers * (12 * width * width + 4 * width) + 2 * width + (256 + 64) * width


def plan(count, slots, window):
    """(what, bytes) of all processes together, at their largest."""
    return [("program: model and gradient, bfloat16 views of its vectors", 4 * count),
            ("program: torch's own, gradients of a layer and what it keeps of freed memory",
             2 * count + GIB // 2),
            ("helper: what was fetched, bfloat16", 2 * count),
            (f"helper: pushes that are not on the disk yet (replay_window {window / GIB:.1f} GiB), "
             "and one that is filled", window + 2 * count),
            ("shards: masters, float32", 4 * count),
            (f"shards: {slots} slot{'' if slots == 1 else 's'} of the optimizer, float32",
             4 * count * slots)]


def pss(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as lines:
        for line in lines:
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    return 0


def tree():
    """{pid: name} of this process and its descendants."""
    parents, names = {}, {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                    text = file.read()
            except OSError:
                continue
            name, rest = text[text.index("(") + 1:text.rindex(")")], text[text.rindex(")") + 2:]
            parents[int(entry)], names[int(entry)] = int(rest.split()[1]), name
    ours = {os.getpid(): "program"}
    grows = True
    while grows:
        found = {pid: names[pid] for pid, parent in parents.items()
                 if parent in ours and pid not in ours}
        ours.update(found)
        grows = bool(found)
    return ours


class Memory(threading.Thread):
    """The largest PSS of each process, and of all at one moment."""

    def __init__(self):
        super().__init__(daemon=True)
        self.most, self.all, self._over = {}, 0, threading.Event()

    def run(self):
        while not self._over.wait(0.5):
            total = 0
            for pid, name in tree().items():
                try:
                    now = pss(pid)
                except OSError:
                    continue
                total += now
                self.most[pid] = (name, max(now, self.most.get(pid, ("", 0))[1]))
            self.all = max(self.all, total)

    def stop(self):
        self._over.set()
        self.join()


def available():
    with open("/proc/meminfo", encoding="ascii") as lines:
        for line in lines:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return 0


class Phases:
    def __init__(self):
        self.rows, self._begin = [], time.monotonic()

    def end(self, what):
        now = time.monotonic()
        self.rows.append((what, now - self._begin))
        print(f"  {now - self._begin:8.2f} s  {what}", flush=True)
        self._begin = time.monotonic()


def shard(number):
    """The pid of ps/number."""
    for pid, name in tree().items():
        if name.startswith("ps_server"):
            with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
                if f"--task={number}" in file.read().split("\0"):
                    return pid
    raise RuntimeError(f"ps/{number} does not run")


class Loop:
    """The training loop, a step at a time."""

    def __init__(self, model, text, job, phases):
        self._model, self._text, self._job, self._phases = model, text, job, phases
        self._batches, self.losses = job.blocks(), []

    def step(self, what):
        import gpt_bytes
        ids = next(self._batches, None)
        if ids is None:
            self._phases.end("the job's end")
            return
        begin = time.monotonic()
        loss = gpt_bytes.loss_of(self._model, self._text, ids % 48)
        middle = time.monotonic()
        loss.backward()
        end = time.monotonic()
        self._job.step(loss.item())
        self.losses.append(loss.item())
        print(f"            forward {middle - begin:.2f} s, backward {end - middle:.2f} s, step (push "
              f"and fetch) {time.monotonic() - end:.2f} s, loss {self.losses[-1]:.4f}")
        self._phases.end(what)


def train(options, model, phases):
    """(the loop, the job's steps, what the cluster says of it)."""
    import torch

    import monsoon as ms

    kinds = {"lion": ms.Lion(2e-6), "sgd": ms.SGD(0.05), "momentum": ms.Momentum(0.01),
             "adagrad": ms.Adagrad(1e-4), "adam_w": ms.AdamW(1e-5)}
    text = torch.arange(4096, dtype=torch.uint8) * 7
    with tempfile.TemporaryDirectory(dir=options.state) as state, \
            ms.local_cluster(ps=2, state_dir=state, timeout_s=120) as cluster:
        client = ms.Client(cluster.address)
        phases.end("a cluster of two parameter servers")
        job = ms.join(cluster.address, job="billion", model=model, max_steps=options.steps + 3,
                      optimizer=kinds[options.optimizer], overlap=False, batch=BATCH,
                      examples=BATCH * 4096, push_format="bfloat16", fetch_format="bfloat16",
                      checkpoint=ms.Checkpoint(every_pushes=1 << 20), in_place="ignore",
                      replay_window=options.window)
        with job:
            phases.end("the job has its initial parameters")
            loop = Loop(model, text, job, phases)
            for number in range(options.steps):
                loop.step(f"step {number}")
            client.checkpoint("billion")
            phases.end("a checkpoint, by `coordinator checkpoint`")
            os.kill(shard(1), signal.SIGKILL)
            loop.step("a step through the death of ps/1: restored, replayed, fetched")
            while not job.ended:
                loop.step("a step more")
            steps = job.stats.steps
        return loop, steps, client.describe("billion")


def run(options, count):
    import torch

    import gpt_bytes

    torch.set_num_threads(options.threads)
    memory = Memory()
    memory.start()
    phases = Phases()
    torch.manual_seed(1)
    torch.set_default_dtype(torch.bfloat16)
    model = gpt_bytes.Gpt(options.layers, options.width // 128, options.width)
    torch.set_default_dtype(torch.float32)
    assert sum(p.numel() for p in model.parameters()) == count
    phases.end("the model is made")
    loop, steps, described = train(options, model, phases)
    memory.stop()
    print("\n  largest memory (PSS)")
    for pid, (name, most) in sorted(memory.most.items(), key=lambda row: -row[1][1])[:8]:
        print(f"  {most / GIB:8.2f} GiB  {name} ({pid})")
    print(f"  {memory.all / GIB:8.2f} GiB  all at one moment")
    finite = all(bool(p.isfinite().all()) for p in model.parameters())
    lost = described.get("lost_pushes", [])
    checks = {"state": described["state"] == "SUCCEEDED", "steps counted": steps, "lost": len(lost),
              "parameters finite": finite,
              "loss fell": sum(loop.losses[-3:]) / 3 < loop.losses[0]}
    print("  checks:", json.dumps(checks))
    return 0 if checks["state"] and finite and not lost and checks["loss fell"] else 1


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=20)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--optimizer", choices=sorted(SLOTS), default="lion")
    parser.add_argument("--state", help="where the generations go")
    parser.add_argument("--plan", action="store_true")
    parser.add_argument("--window", type=int, help="bytes; default: two pushes")
    options = parser.parse_args(argv)
    count = parameters(options.layers, options.width)
    options.window = options.window or 4 * count
    total = 0
    print(f"{count:,} parameters, {options.optimizer}:")
    for what, size in plan(count, SLOTS[options.optimizer], options.window):
        total += size
        print(f"  {size / GIB:6.2f} GiB  {what}")
    print(f"  {total / GIB:6.2f} GiB  together; {available() / GIB:.2f} GiB are free here; a generation on "
          f"the disk has {4 * count * (1 + SLOTS[options.optimizer]) / GIB:.2f} GiB")
    if options.plan:
        return 0
    if total > available():
        print("it does not fit: give fewer --layers")
        return 2
    return run(options, count)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
