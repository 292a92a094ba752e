#!/usr/bin/env python3
"""Two programs train LeNet by local steps: Monsoon beside torchft's LocalSGD and DiLoCo.

    tests/benchmarks/torchft_peers.py --venv=DIR [--torchft=DIR] [--rounds=3] [--seconds=24]

`--venv` has torch 2 (its python3 runs the programs), `--torchft` the folder that torchft 0.2.0 was
installed into, if that is not the venv's. CPU, gloo, one torch thread a program, a core each; Monsoon's
servers and torchft's lighthouse are where there is room. Every way has the same initial parameters,
batches of 64 of Fashion-MNIST, SGD(0.05) inside, and an exchange every 20 steps:

- local: the mean of both models. Monsoon: Rounds(), outer SGD(1); torchft: LocalSGD.
- diloco: outer Nesterov(0.7, 0.9) on the mean difference. Monsoon: Rounds(); torchft: DiLoCo.
- quorum: local, but a round waits for another program for a second at most, Rounds(1, 1.0).

The ways take turns, each once undisturbed and once with a program that is killed in the middle and
started again at once. Told are: samples/s of both; seconds to a mean loss of 0.6 over a program's last
50 steps; test accuracy of program 0 at the end; and of the run with a death the longest pause between
two steps of the program that lives, and how long the killed one takes to its next step. Lines are those
of the function that trains, without blank ones and comments.
"""

import argparse
import inspect
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent / "python"), str(HERE.parent.parent / "python" / "examples"),
                str(HERE)]
EVERY, BATCH, RATE = 20, 64, 0.05
GOAL, LAST = 0.6, 50
WAYS = ("monsoon local", "torchft local", "monsoon diloco", "torchft diloco", "monsoon quorum")


# ---- the loops, as a user writes them --------------------------------------------------------


def monsoon_loop(task, model, address, way, seconds, note):
    import monsoon as ms
    import torch
    inner = torch.optim.SGD(model.parameters(), lr=RATE)
    outer = ms.Nesterov(0.7, 0.9) if way == "diloco" else ms.SGD(1.0)
    rounds = ms.Rounds(quorum=1, grace=1.0) if way == "quorum" else ms.Rounds()
    job = ms.join(address, job="lenet", model=model, max_seconds=seconds, overlap=False,
                  optimizer=ms.Local(inner, every=EVERY, outer=outer, rounds=rounds))
    with job:
        for ids in job.blocks(task.samples, batch=BATCH):
            loss = task.loss(model, ids)
            loss.backward()
            job.step(loss.item())
            note(loss.item())


def torchft_loop(task, model, lighthouse, diloco, seconds, note, replica):
    from datetime import timedelta

    import torch
    from torch.distributed import TCPStore
    from torchft import Manager, ProcessGroupGloo
    from torchft.local_sgd import DiLoCo, LocalSGD
    inner = torch.optim.SGD(model.parameters(), lr=RATE)
    outer = torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9, nesterov=True)

    def load(state):
        model.load_state_dict(state["model"])
        inner.load_state_dict(state["inner"])
        outer.load_state_dict(state["outer"])

    def save():
        return {"model": model.state_dict(), "inner": inner.state_dict(),
                "outer": outer.state_dict()}

    store = TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    manager = Manager(pg=ProcessGroupGloo(timeout=timedelta(seconds=10)), min_replica_size=1,
                      load_state_dict=load, state_dict=save, replica_id=f"lenet_{replica}",
                      store_addr="localhost", store_port=store.port, rank=0, world_size=1,
                      lighthouse_addr=lighthouse, use_async_quorum=False,
                      timeout=timedelta(seconds=10))
    local = (DiLoCo(manager, [model], inner, outer, sync_every=EVERY) if diloco
             else LocalSGD(manager, model, inner, sync_every=EVERY))
    generator = torch.Generator().manual_seed(os.getpid())
    end = time.monotonic() + seconds
    with local:
        while time.monotonic() < end:
            ids = torch.randint(task.samples, (BATCH,), generator=generator)
            inner.zero_grad()
            loss = task.loss(model, ids)
            loss.backward()
            inner.step()
            note(loss.item())
    manager.shutdown(wait=False)


def lines_of(function):
    source = inspect.getsource(function).splitlines()
    return sum(1 for line in source if line.strip() and not line.strip().startswith("#"))


# ---- a program -------------------------------------------------------------------------------


def side(options):
    import torch

    from python_tasks import LeNet
    torch.set_num_threads(1)
    task = LeNet()
    model = task.build(7)

    def note(loss):
        print(json.dumps({"t": time.monotonic(), "loss": loss}), flush=True)

    diloco = options.way.endswith("diloco")
    if options.way.startswith("monsoon"):
        monsoon_loop(task, model, options.address, options.way.split()[1], options.seconds, note)
    else:
        torchft_loop(task, model, options.address, diloco, options.seconds, note, options.replica)
    print(json.dumps({"accuracy": task.evaluate(model)["accuracy"]}), flush=True)
    os._exit(0)  # torchft's threads may wait for each other


class Program:
    def __init__(self, options, way, replica, address, seconds):
        self.steps, self.accuracy, self.replica = [], None, replica
        path = [str(HERE.parent.parent / "python"), *([options.torchft] if options.torchft else [])]
        self.process = subprocess.Popen(
            [f"{options.venv}/bin/python3", __file__, f"--side={replica}", f"--way={way}",
             f"--address={address}", f"--seconds={seconds}"],
            stdout=subprocess.PIPE, stderr=options.log, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(path),
                 "GLOO_SOCKET_IFNAME": "lo", "TORCHFT_LOG": "0"},
            preexec_fn=lambda: os.sched_setaffinity(0, {sorted(options.cores)[
                replica % len(options.cores)]}))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            if line.startswith("{"):
                told = json.loads(line)
                if "accuracy" in told:
                    self.accuracy = told["accuracy"]
                else:
                    self.steps.append((told["t"], told["loss"]))

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self, patience):
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.kill()
        self._reader.join(5)


def await_steps(programs, patience=60):
    deadline = time.monotonic() + patience
    while any(not program.steps for program in programs) and time.monotonic() < deadline:
        time.sleep(0.05)


def reached(steps):
    """The moment from which the mean of the last losses is below the goal."""
    losses = [loss for _, loss in steps]
    for end in range(LAST, len(losses) + 1):
        if statistics.fmean(losses[end - LAST:end]) < GOAL:
            return steps[end - 1][0]
    return None


def run(options, way, address, dies):
    programs = [Program(options, way, 0, address, options.seconds)]
    programs.append(Program(options, way, 1, address, options.seconds))
    await_steps(programs)
    begin = max(program.steps[0][0] if program.steps else time.monotonic() for program in programs)
    told = {"way": way, "dies": dies}
    if dies:
        time.sleep(options.seconds / 2)
        killed = time.monotonic()
        programs[1].kill()
        # A job of ours ends by itself, and all its programs say the same of when.
        left = options.seconds / (1 if way.startswith("monsoon") else 2)
        again = Program(options, way, 1, address, left)
        programs.append(again)
    for program in programs[:1] + programs[-1:]:
        program.end(options.seconds + 60)
    lives = [t for t, _ in programs[0].steps]
    until = lives[-1] if lives else begin
    span = until - begin
    steps = sum(begin < t <= until for program in programs for t, _ in program.steps)
    goal = reached(programs[0].steps)
    told.update(samples_s=steps * BATCH / span if span > 0 else 0.0, span_s=span,
                goal_s=goal - programs[0].steps[0][0] if goal else None,
                accuracy=programs[0].accuracy)
    if dies:
        after = [t for t in lives if t >= killed - 1]
        told["pause_s"] = max((b - a for a, b in zip(after, after[1:])), default=None)
        told["back_s"] = again.steps[0][0] - killed if again.steps else None
    return told


def lighthouse(options):
    """The lighthouse of a run, in a process that has torchft."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = ("import sys, time; from torchft.coordination import LighthouseServer\n"
            f"server = LighthouseServer(bind='[::]:{port}', min_replicas=1, join_timeout_ms=200)\n"
            "print(server.address(), flush=True)\nsys.stdin.read()")
    path = [options.torchft] if options.torchft else []
    process = subprocess.Popen([f"{options.venv}/bin/python3", "-c", code], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=options.log, text=True,
                               env={**os.environ, "PYTHONPATH": os.pathsep.join(path)})
    return process, f"http://localhost:{port}", process.stdout.readline()


def measure_way(options, way, dies):
    if way.startswith("monsoon"):
        import monsoon as ms
        with ms.local_cluster(ps=1) as cluster:
            return run(options, way, cluster.address, dies)
    process, address, _ = lighthouse(options)
    try:
        return run(options, way, address, dies)
    finally:
        process.kill()
        process.wait()


def median(rows, key):
    values = [row[key] for row in rows if row.get(key) is not None]
    return (f"{statistics.median(values):.3g} ({min(values):.3g} to {max(values):.3g})"
            + ("" if len(values) == len(rows) else f", {len(rows) - len(values)} without")
            if values else "none")


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venv")
    parser.add_argument("--torchft")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=24)
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--out")
    parser.add_argument("--stderr", default=os.devnull)
    parser.add_argument("--side", dest="replica", type=int)
    parser.add_argument("--way")
    parser.add_argument("--address")
    options = parser.parse_args(argv)
    if options.replica is not None:
        side(options)
    options.cores = os.sched_getaffinity(0)
    rows = []
    with open(options.stderr, "a", encoding="utf-8") as options.log:
        for number in range(options.rounds):
            for way in options.ways.split(","):
                for dies in (False, True):
                    rows.append(measure_way(options, way, dies))
                    print(json.dumps({"round": number, **rows[-1]}), flush=True)
    print("\n| way | samples/s | s to a loss of 0.6 | accuracy | with a death: samples/s | the other's "
          "longest pause, s | back after, s | accuracy | lines |\n|---|---|---|---|---|---|---|---|---|")
    for way in options.ways.split(","):
        calm = [row for row in rows if row["way"] == way and not row["dies"]]
        dead = [row for row in rows if row["way"] == way and row["dies"]]
        loop = monsoon_loop if way.startswith("monsoon") else torchft_loop
        print("| " + " | ".join([way, median(calm, "samples_s"), median(calm, "goal_s"),
                                 median(calm, "accuracy"), median(dead, "samples_s"),
                                 median(dead, "pause_s"), median(dead, "back_s"),
                                 median(dead, "accuracy"), str(lines_of(loop))]) + " |")
    if options.out:
        pathlib.Path(options.out).write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
