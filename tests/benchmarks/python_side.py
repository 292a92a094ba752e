"""A training process of the benchmarks of the Python package: reads one JSON request a
line, answers with one line. python_programs.py starts it.
"""

import json
import os
import platform
import sys

# Before torch is loaded, which reads it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy  # noqa: E402
import torch  # noqa: E402

import python_tasks  # noqa: E402
import python_ways  # noqa: E402


class Service:
    def __init__(self):
        self._tasks = {}
        self._model = None
        self._copies = []

    def hello(self):
        """Versions, and the libraries that do the matrix products."""
        torch.set_num_threads(1)
        torch.mm(torch.ones(64, 64), torch.ones(64, 64))
        with open("/proc/self/maps", encoding="utf-8") as file:
            maps = file.read()
        blas = [name for name in ("openblas", "mkl", "blis", "atlas") if name in maps]
        return {"python": platform.python_version(), "numpy": numpy.__version__,
                "torch": torch.__version__, "blas": blas}

    def load(self, task):
        """The data, which are kept."""
        if task not in self._tasks:
            self._tasks[task] = python_tasks.TASKS[task]()
        return {"samples": self._tasks[task].samples, "batch": self._tasks[task].batch}

    def run(self, task, final=False, **request):
        """Trains as `request` says; see python_ways.run. `final`: keeps the parameters at
        the end, and evaluates them."""
        task = self._tasks[task]
        told, way, self._copies = python_ways.run(task, request)
        if final:
            self._model = task.build(request["seed"])
            # Of tied weights an export has one name.
            self._model.load_state_dict(way.final(), strict=False)
            told["final"] = task.evaluate(self._model)
        told["facts"] = way.facts
        return told

    def serve(self, task, **request):
        task = self._tasks[task]
        python_ways.serve(task, task.build(request["seed"]), request)
        return {}

    def time_to(self, task, loss):
        """When the first copy was kept whose loss on a part of the test set is at most `loss`;
        null: none."""
        for when, parameters in self._copies:
            self._model.load_state_dict(parameters)
            if self._tasks[task].evaluate(self._model, briefly=True)["loss"] <= loss:
                return {"when": when, "copies": len(self._copies)}
        return {"when": None, "copies": len(self._copies)}


def main():
    # What others print must not get among the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    service = Service()
    for line in sys.stdin:
        request = json.loads(line)
        answer = getattr(service, request.pop("op"))(**request)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
