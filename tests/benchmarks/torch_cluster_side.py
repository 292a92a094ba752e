"""One rank of torch's ways to train by several processes, or RPC's server: reads one JSON
request a line, answers with one line. cluster_sides.py starts them.

The preset LeNet of torch_side.py, channels_last with the fused Adagrad, by the ways Ddp and
Rpc of python_ways.py. Each rank trains on its part of each epoch's order, one thread.
"""

import math
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed.rpc as rpc  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import python_ways  # noqa: E402
import torch_side  # noqa: E402
from side_service import serve  # noqa: E402


class Task:
    """What python_ways.py asks of a task."""

    def __init__(self, data, batch, warm_up):
        self._data, self.batch, self.warm_up = data, batch, warm_up
        self.samples = len(data.y)

    @staticmethod
    def build(seed):
        torch.manual_seed(seed)
        return torch_side.build("lenet").to(memory_format=torch.channels_last)

    def loss(self, model, ids):
        return F.cross_entropy(model(self._data.x[ids]), self._data.y[ids])

    @staticmethod
    def torch_optimizer(parameters, rate):
        return torch.optim.Adagrad(parameters, lr=rate, eps=1e-8, fused=True)


class Ddp(python_ways.Ddp):
    def all_end(self, mine):
        """Whether rank 0 has ended; all ask at the same step."""
        flag = torch.tensor([int(mine)])
        dist.broadcast(flag, 0)
        return bool(flag.item())


_stopped = False  # of the process that serves


def _push_unless_stopped(gradients):
    return [] if _stopped else python_ways._server.push(gradients)


def _stop():
    global _stopped
    _stopped = True


class Rpc(python_ways.Rpc):
    stopped = False

    def step(self, loss):
        values = rpc.rpc_sync("ps", _push_unless_stopped,
                              args=([p.grad for p in self._parameters],))
        self.stopped = not values
        if values:
            self._take(values)

    def all_end(self, mine):
        """Who has ended tells the server, whose next answers tell the others."""
        if mine:
            rpc.rpc_sync("ps", _stop)
        return mine or self.stopped


WAYS = {"ddp": Ddp, "rpc": Rpc}


def accuracy(model, data):
    right = 0
    with torch.no_grad():
        for begin in range(0, len(data.y), torch_side.EVALUATION_BATCH):
            rows = slice(begin, begin + torch_side.EVALUATION_BATCH)
            right += int((model(data.x[rows]).argmax(1) == data.y[rows]).sum())
    return right / len(data.y)


class Service:
    def __init__(self):
        self._data = {}

    @staticmethod
    def hello():
        torch.set_num_threads(1)
        return {"version": torch.__version__}

    def load(self, folder):
        for kind in ("train", "t10k"):
            self._data[kind] = torch_side.Data(folder, kind)
        return {}

    def serve(self, **request):
        global _stopped
        _stopped = False
        task = Task(self._data["train"], request["batch"], request["warm_up"])
        python_ways.serve(task, task.build(request["seed"]), request)
        return {}

    def run(self, way, target, every_steps, max_seconds, final, **request):
        """`steps` of all ranks together, or until rank 0, which evaluates all `every_steps`
        of its own, has `target`, or `max_seconds` are over (null: never, each)."""
        task = Task(self._data["train"], request["batch"], request["warm_up"])
        model, now, rank = task.build(request["seed"]), time.perf_counter, request["rank"]
        told = {"ends": [], "seconds": None, "best": 0.0}
        losses = []
        with WAYS[way](task, model, request) as training:
            began = now()
            for step, ids in enumerate(training.batches(), 1):
                loss = task.loss(training.module, ids)
                loss.backward()
                training.optimize()
                training.step(loss)
                told["ends"].append(now())
                losses.append(loss.detach())
                ended = False
                if target is not None and step % every_steps == 0 and rank == 0:
                    told["best"] = max(told["best"], accuracy(model, self._data["t10k"]))
                    seconds = now() - began
                    late = max_seconds is not None and seconds > max_seconds
                    if told["best"] >= target and not late:
                        told["seconds"] = seconds
                    ended = late or told["best"] >= target
                if target is not None and (way == "rpc" or step % every_steps == 0):
                    if training.all_end(ended):
                        break
            if way == "rpc":
                training.finish()
        if not math.isfinite(float(torch.stack(losses).sum())):
            raise ArithmeticError("a loss is not finite")
        if final:
            told["accuracy"] = accuracy(model, self._data["t10k"])
        return {**told, "began": began}


def main():
    serve(Service())


if __name__ == "__main__":
    main()
