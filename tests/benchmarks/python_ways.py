"""Ways of training one model, all with the same three methods. A module of the training
processes; see python_side.py.

    with Way(task, model, request) as way:
        for ids in way.batches():
            loss = ...; loss.backward()
            way.optimize()    # what this process's own optimizer does
            way.step(loss)    # what the way adds

`request` has rate, seed, steps (of all workers together), rank and world, beta1 where Adam's
is not its own, and what the way's docstring names. `module` is what the loop calls.
"""

import itertools
import math
import os
import threading
import time

import torch
import torch.distributed as dist
import torch.distributed.rpc as rpc
from torch.nn.parallel import DistributedDataParallel

import measure
import python_tasks
from python_tasks import ms


def tuned(request):
    """What of a request is the optimizer's."""
    return {name: request[name] for name in ("rate", "beta1") if request.get(name) is not None}


class Alone:
    """torch and nothing else."""

    def __init__(self, task, model, request):
        self.module, self._task, self._request = model, task, request
        self._optimizer = task.torch_optimizer(model.parameters(), **tuned(request))
        # That of all workers together counts: each makes its part of the steps.
        self._schedule = python_tasks.warmed_up(self._optimizer,
                                                math.ceil(task.warm_up / request["world"]))
        self.facts = {}

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        pass

    def batches(self):
        r = self._request
        endless = python_tasks.batches(self._task.samples, self._task.batch, r["seed"],
                                       r["rank"], r["world"])
        return itertools.islice(endless, r["steps"] // r["world"])

    def optimize(self):
        self._optimizer.step()
        if self._schedule is not None:
            self._schedule.step()
        self._optimizer.zero_grad()

    def step(self, loss):
        pass

    def warm(self):
        """The steps from here on are timed."""

    def final(self):
        """Parameters at the end, by name."""
        return self.module.state_dict()


# Of so many workers; the names are those of python_programs.OUTER.
OUTER = {"SGD": lambda workers: ms.SGD(1 / workers),
         "delayed Nesterov": lambda workers: ms.DelayedNesterov(0.7, 0.9, period=workers)}


class Monsoon(Alone):
    """request: address, job, every (0 for the optimizer of the shards), outer, a name of OUTER
    or None, block_examples, unset: as the job has it by itself, and overlap, unset: True."""

    def __init__(self, task, model, request):
        super().__init__(task, model, request)
        self._local = request["every"] > 0
        outer = request.get("outer") and OUTER[request["outer"]](request["world"])
        optimizer = (ms.Local(self._optimizer, every=request["every"], outer=outer)
                     if self._local else task.shard_optimizer(**tuned(request)))
        self.job = ms.join(request["address"], job=request["job"], model=model,
                           optimizer=optimizer, seed=request["seed"],
                           max_steps=request["steps"], examples=task.samples, batch=task.batch,
                           block_examples=request.get("block_examples"),
                           overlap=request.get("overlap", True))

    def __enter__(self):
        self.job.__enter__()
        return self

    def __exit__(self, *told):
        self.job.__exit__(*told)

    def batches(self):
        return self.job.blocks()

    def optimize(self):
        if self._local:
            super().optimize()

    def step(self, loss):
        self.job.step(loss, optimizer_stepped=self._local)

    def warm(self):
        """Whether helper process and shard exchange over memory is seen while they do."""
        told = ms.Client(self._request["address"]).describe(self.job.id)
        ours = measure.memory_files(self.job.stats.sidecar_pid)
        self.facts["shares_memory"] = any(ours & measure.memory_files(shard["pid"])
                                          for shard in told["shards"])

    def final(self):
        client = ms.Client(self._request["address"])
        *_, told = client.watch(self.job.id, every_s=0.1)
        self.facts["job_steps"] = told["counts"]["steps"]
        self.facts["staleness_p50"] = told["staleness"]["p50"]
        return {name: torch.from_numpy(value)
                for name, value in client.load(self.job.id).items()}


class Ddp(Alone):
    """Gradients are averaged by all-reduce; request: store, a file to meet at."""

    def __init__(self, task, model, request):
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        dist.init_process_group("gloo", init_method=f"file://{request['store']}",
                                rank=request["rank"], world_size=request["world"])
        super().__init__(task, model, request)
        # Gloo knows no bool; such buffers (masks) are the same everywhere.
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(
            model, [n for n, b in model.named_buffers() if b.dtype == torch.bool])
        self.module = DistributedDataParallel(model)

    def __exit__(self, kind, *unused):
        if kind is None:
            dist.barrier()
            dist.destroy_process_group()

    def final(self):
        return self.module.module.state_dict()


class _Server:
    """The parameter server of torch.distributed.rpc: one model, one optimizer."""

    def __init__(self, task, model, **tuned_to):
        self._lock = threading.Lock()
        self._parameters = list(model.parameters())
        self._optimizer = task.torch_optimizer(self._parameters, **tuned_to)
        self._schedule = python_tasks.warmed_up(self._optimizer, task.warm_up)

    def parameters(self):
        with self._lock:
            return [p.detach().clone() for p in self._parameters]

    def push(self, gradients):
        """One step of the optimizer; the parameters after it."""
        with self._lock:
            for p, gradient in zip(self._parameters, gradients):
                p.grad = gradient
            self._optimizer.step()
            if self._schedule is not None:
                self._schedule.step()
            return [p.detach().clone() for p in self._parameters]


_server = None  # of the process that serves; calls by name find it here


def _push(gradients):
    return _server.push(gradients)


def _fetch():
    return _server.parameters()


def _join_rpc(name, rank, request):
    os.environ["TP_SOCKET_IFNAME"] = "lo"
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{request['store']}")
    rpc.init_rpc(name, rank=rank, world_size=request["world"] + 1, rpc_backend_options=options)


def serve(task, model, request):
    """Rank 0 of the RPC's world; returns when all others have left."""
    global _server
    _server = _Server(task, model, **tuned(request))
    _join_rpc("ps", 0, request)
    rpc.shutdown()


class Rpc(Alone):
    """Each gradient is a remote call that returns the new parameters, as in PyTorch's
    tutorial on parameter servers by batch RPC, of which this is the form that waits for
    nobody else's gradient. request: store."""

    def __init__(self, task, model, request):
        _join_rpc(f"worker{request['rank']}", request["rank"] + 1, request)
        super().__init__(task, model, request)
        self._parameters = list(model.parameters())
        self._take(rpc.rpc_sync("ps", _fetch))

    def __exit__(self, kind, *unused):
        if kind is None:
            rpc.shutdown()

    def _take(self, values):
        with torch.no_grad():
            for p, value in zip(self._parameters, values):
                p.copy_(value)
                p.grad = None

    def optimize(self):
        pass

    def step(self, loss):
        self._take(rpc.rpc_sync("ps", _push, args=([p.grad for p in self._parameters],)))

    def final(self):
        return self.last

    def finish(self):
        """The server's parameters, while it is there."""
        self._take(rpc.rpc_sync("ps", _fetch))
        self.last = self.module.state_dict()


WAYS = {"alone": Alone, "monsoon": Monsoon, "ddp": Ddp, "rpc": Rpc}


def run(task, request):
    """Trains; what was timed and seen, the way, and the copies of the parameters that were
    kept. Times are of time.perf_counter(), which all processes of a machine share. A copy is
    kept every request["copy_s"] seconds, None: never."""
    model = task.build(request["seed"])
    warm, losses, copies = request["warm_up"], [], []
    told = {"ends": [], "examples": [], "draw_s": [], "optimize_s": [], "step_s": []}
    now = time.perf_counter
    with WAYS[request["way"]](task, model, request) as way:
        batches, copy_s = way.batches(), request["copy_s"]
        told["entered"] = copied = now()
        while True:
            if len(losses) == warm:
                if warm:
                    way.warm()
                told["timed_from"] = now()
            begin = now()
            ids = next(batches, None)
            drawn = now()
            if ids is None:
                break
            loss = task.loss(way.module, ids)
            loss.backward()
            computed = now()
            way.optimize()
            optimized = now()
            way.step(loss)
            end = now()
            losses.append(loss.detach())
            told["ends"].append(end)
            told["examples"].append(len(ids))
            told["draw_s"].append(drawn - begin)
            told["optimize_s"].append(optimized - computed)
            told["step_s"].append(end - optimized)
            if copy_s is not None and end - copied >= copy_s:
                copied = end
                copies.append((end, {name: value.clone()
                                     for name, value in model.state_dict().items()}))
        told["end_s"] = drawn - begin
        if isinstance(way, Rpc):
            way.finish()
    told["losses"] = [loss.item() for loss in losses]
    return told, way, copies
