"""Contenders that train the preset LeNet with several processes or all cores, all with the
same two questions: examples per second of a run, and seconds to a test accuracy.

    contender.rate(batch, examples, seed) -> Run
    contender.seconds_to(plan, setting, seed, limit) -> seconds, infinite: not within it

What takes place before the first step of all (starting programs, reading data, tracing) is
outside of both clocks on all sides; evaluations are inside.
"""

import contextlib
import dataclasses
import json
import math
import os
import socket
import sys
import tempfile
import typing

import measure
import peers
import time_to_accuracy
from peers import HERE, Side
from torch_peer import DATA

sys.path.insert(0, os.path.join(HERE, "..", "tools"))
from local_cluster import ROOT, LocalCluster, training_seconds  # noqa: E402

JOB = ROOT / "configs/job/lenet_downpour.textproto"
MODEL = "lenet"
SAMPLES = 60_000
WORKERS = 3
# Of the runs whose examples per second count.
RATE, WARM_UP = 0.03, 300


class Setting(typing.NamedTuple):
    rate: float
    warm_up: int  # steps in which the rate grows

    def __str__(self):
        return f"rate {self.rate:g}, warm-up {self.warm_up}"


@dataclasses.dataclass
class Plan:
    """Of a time to accuracy."""
    target: float
    batch: int
    every_epochs: float
    max_epochs: float


class Run(typing.NamedTuple):
    examples_per_s: float
    accuracy: float


class Ours:
    """One ps and one-thread workers, asynchronous, as the preset has it."""

    group = None
    rates = time_to_accuracy.OUR_GRID  # to choose from, in place of the peers'

    def __init__(self, workers=WORKERS):
        self.name = f"ours, 1 ps + {workers} workers"
        self._cluster = LocalCluster(ps=1, workers=workers)
        self._cluster.start()

    def close(self):
        self._cluster.__exit__()

    def _job(self, batch, seed, setting, **settings):
        return self._cluster.run(JOB, {
            "batch_size": batch, "seed": seed,
            "downpour.optimizer.adagrad.rate": setting.rate,
            "downpour.local_update.adagrad_rate": time_to_accuracy.LOCAL_SHARE * setting.rate,
            "downpour.optimizer.schedule.warm_up_pushes": setting.warm_up,
            **{name.replace("__", "."): value for name, value in settings.items()}})

    def rate(self, batch, examples, seed):
        told = self._job(batch, seed, Setting(RATE, WARM_UP), stop__epochs=examples / SAMPLES,
                         evaluation__every_epochs=1000)
        return Run(told["progress"]["examples"] / training_seconds(told),
                   told["final"]["test_accuracy"])

    def seconds_to(self, plan, setting, seed, limit):
        given_up = {} if math.isinf(limit) else {"stop__seconds": limit}
        told = self._job(plan.batch, seed, setting, stop__epochs=plan.max_epochs,
                         stop__target_accuracy=plan.target,
                         evaluation__every_epochs=plan.every_epochs, **given_up)
        best = max(each["test_accuracy"] for each in told["evaluations"])
        return training_seconds(told) if best >= plan.target else math.inf


class OneProcess:
    """A peer's one process with a thread on each core."""

    group = "one process"

    def __init__(self, kind):
        cores = os.sched_getaffinity(0)
        self._peer = peers.TrainingPeer(kind, len(cores), cores)
        self.environment = self._peer.environment(MODEL)
        self.name = f"{self._peer.full_name(MODEL)}, one process, {len(cores)} threads"

    def close(self):
        self._peer.close()

    def rate(self, batch, examples, seed):
        told = self._peer.ask("train", MODEL, batch=batch, steps=examples // batch, seed=seed,
                              rate=RATE)
        return Run(told["examples_per_s"], told["accuracy"])

    def seconds_to(self, plan, setting, seed, limit):
        return seconds_of(self._peer.ask(
            "time_to", MODEL, **dataclasses.asdict(plan), **setting._asdict(), seed=seed,
            max_seconds=finite(limit)))


class TorchRanks:
    """DDP over gloo, or a parameter server by torch's RPC: a process of one thread each."""

    def __init__(self, way, ranks, environment):
        self._way = way
        self.group = "asynchronous" if way == "rpc" else "synchronous"
        cores = sorted(os.sched_getaffinity(0))
        # As many ranks as cores have one each; the others share, as the system sees fit.
        bound = [{core} for core in cores[:ranks]] if way == "ddp" and ranks <= len(cores) else \
            [None] * ranks
        python = peers.torch_python()
        command = [python, os.path.join(HERE, "torch_cluster_side.py")]
        environment = {**environment, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        with contextlib.ExitStack() as stack:
            self._ranks = [stack.enter_context(Side(command, mine, environment))
                           for mine in bound]
            self._server = stack.enter_context(Side(command, None, environment)) \
                if way == "rpc" else None
            everyone = self._ranks + ([self._server] if self._server else [])
            for side in everyone:
                side.start("hello")
            version = [side.answer() for side in everyone][0]["version"].partition("+")[0]
            for side in everyone:
                side.start("load", folder=DATA)
            for side in everyone:
                side.answer()
            self._close = stack.pop_all().close
        title = f"DDP gloo, {ranks} ranks" if way == "ddp" else f"RPC, 1 + {ranks}"
        self.name = f"PyTorch {version} {title}"

    def close(self):
        self._close()

    def _run(self, **request):
        with tempfile.TemporaryDirectory(prefix="monsoon-") as folder:
            common = {"store": os.path.join(folder, "store"), "world": len(self._ranks),
                      **request}
            if self._server:
                self._server.start("serve", **common)
            for rank, side in enumerate(self._ranks):
                side.start("run", way=self._way, rank=rank,
                           **{**common, "final": request["final"] and rank == 0})
            answers = [side.answer() for side in self._ranks]
            if self._server:
                self._server.answer()
        return answers

    def rate(self, batch, examples, seed):
        answers = self._run(batch=batch, seed=seed, rate=RATE, warm_up=WARM_UP, target=None,
                            every_steps=0, max_seconds=None, final=True,
                            steps=examples // batch)
        for answer in answers:
            answer["examples"] = [batch] * len(answer["ends"])
        return Run(measure.together(answers), answers[0]["accuracy"])

    def seconds_to(self, plan, setting, seed, limit):
        every = int(plan.every_epochs * SAMPLES / plan.batch / len(self._ranks))
        return seconds_of(self._run(
            batch=plan.batch, seed=seed, **setting._asdict(), target=plan.target,
            every_steps=every, max_seconds=finite(limit), final=False,
            steps=int(plan.max_epochs * SAMPLES / plan.batch))[0])


class TensorFlowCluster:
    """ParameterServerStrategy: one ps, workers of one thread, and the chief."""

    group = "asynchronous"

    def __init__(self, batch, environment, workers=WORKERS):
        ports = free_ports(workers + 1)
        cluster = json.dumps({"ps": ports[:1], "worker": ports[1:]})
        python, script = peers.tensorflow_python(), os.path.join(HERE, "tf_cluster_side.py")
        with contextlib.ExitStack() as stack:
            for job, index in [("ps", 0)] + [("worker", i) for i in range(workers)]:
                stack.enter_context(Side([python, script, cluster, job, str(index)],
                                         None, environment, served=True))
            self._chief = stack.enter_context(Side([python, script, cluster, "chief", "0"],
                                                   None, environment))
            version = self._chief.ask("hello")["version"]
            self._batch = batch
            self._chief.ask("load", folder=DATA, batch=batch)
            self._close = stack.pop_all().close
        self.name = f"TensorFlow {version} ParameterServerStrategy, 1 + {workers}"

    def close(self):
        self._close()

    def _demand(self, batch):
        if batch != self._batch:
            raise ValueError(f"traced for batch {self._batch}, not {batch}")

    def rate(self, batch, examples, seed):
        self._demand(batch)
        told = self._chief.ask("run", steps=examples // batch, seed=seed, rate=RATE,
                               warm_up=WARM_UP)
        return Run(told["examples_per_s"], told["accuracy"])

    def seconds_to(self, plan, setting, seed, limit):
        self._demand(plan.batch)
        request = dataclasses.asdict(plan)
        del request["batch"]
        return seconds_of(self._chief.ask("time_to", **request, **setting._asdict(), seed=seed,
                                          max_seconds=finite(limit)))


def free_ports(count):
    """Addresses that are free now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return found


def finite(limit):
    return None if math.isinf(limit) else limit


def seconds_of(answer):
    return math.inf if answer["seconds"] is None else answer["seconds"]


def open_all(batch, stack):
    """Ours, then all peers. Clusters have the environment that one process is fastest with."""
    contenders = []

    def add(contender):
        stack.callback(contender.close)
        measure.log(f"started {contender.name}")
        contenders.append(contender)
        return contender

    add(Ours())
    torch = add(OneProcess("torch")).environment
    tensorflow = add(OneProcess("tensorflow")).environment
    add(TensorFlowCluster(batch, tensorflow))
    add(TorchRanks("rpc", WORKERS, torch))
    for ranks in (2, 3):
        add(TorchRanks("ddp", ranks, torch))
    return contenders
