#!/usr/bin/python3
"""Three processes train one model in PyTorch: Monsoon beside today's ways.

    tests/benchmarks/python_peers.py [--rounds=3] [--quick] [--models=lenet,gpt]

LeNet (batch 64, Adagrad) and the GPT over bytes (batch 12, Adam) of python/examples, on the
CPU, one torch thread a process:

- Monsoon: one ps; the optimizer on the shards, a push and a fetch each step, with the GPT
  in turn with computing (overlap=False).
- Monsoon, Local: the optimizer in each process, differences every 100 steps (GPT: 20) to an
  outer optimizer on the shards: SGD(1/3), or delayed Nesterov (0.7, 0.9, period 3).
- torch.distributed.rpc: a process with the parameters and the optimizer; each worker sends
  its gradients by a remote call, which answers with the new parameters. Nobody waits for
  another's gradient.
- DDP over gloo: gradients are averaged each step. It has no server.

All have the same initial parameters by seed, the same samples in total, a new order each
epoch of which each worker has its own part, and the same formulas. Each takes what it is
fastest with of one grid of rates, with Adam also of the first moment's decay (stale gradients
have a momentum of their own), for a seed that is not measured; then they take turns. With
more cores than workers each worker has one for itself, else all have all of them; helper
processes are where their program is, servers are free everywhere.

Examples/s: counted while all three train. Time to a test loss: from when the first worker
has joined (those of Monsoon join one after the other, the others meet before they begin)
to the first copy of worker 0's parameters, kept every second or so, that has it on a part
of the test set; copies are evaluated when the clock has stopped. A way that does not get
there, or does not learn, has a row that says so.
"""

import contextlib
import dataclasses
import math
import statistics
import typing

import measure
import python_loops
import python_programs
from measure import Row, at_least, median_of, paired
from python_programs import TITLES, NoPeer, Program

WORKERS = 3
ROUNDS = 3
CHOOSING_SEED = 1000


class Setting(typing.NamedTuple):
    rate: float
    beta1: typing.Optional[float] = None  # of Adam; None: as it is by itself
    outer: typing.Optional[str] = None    # of Local, a name of python_ways.OUTER

    def __str__(self):
        return (f"rate {self.rate:g}" + ("" if self.beta1 is None else f", beta1 {self.beta1:g}")
                + ("" if self.outer is None else f", outer {self.outer}"))


@dataclasses.dataclass
class Plan:
    steps: int      # of all workers together
    copy_s: float   # seconds between two copies of the parameters
    target: float   # the test loss
    highest: float  # a final test loss above it is no learning
    grid: tuple     # of Local with each outer optimizer
    every: int      # of Local
    block: int = None  # samples of a lease; None: the job's own
    # Of Monsoon without Local. False where a step is long beside a push and a fetch: Adam
    # learns less from stale gradients.
    overlap: bool = True


PLANS = {"lenet": Plan(2400, 0.5, 0.60, 1.0, (Setting(0.01), Setting(0.02), Setting(0.04)), 100),
         "gpt": Plan(900, 2.0, 2.6, 3.0,
                     tuple(Setting(rate, beta1) for rate in (1e-3, 3e-3) for beta1 in (0.9, 0.5)),
                     20, overlap=False)}
QUICK = {"lenet": Plan(300, 0.1, 1.5, 2.2, (Setting(0.02),), 20),
         "gpt": Plan(36, 2.0, 5.4, 5.6, (Setting(1e-3, 0.9),), 2, 12, overlap=False)}
# Title: (the way of python_ways.py, whether it is Local).
WAYS = {"Monsoon": ("monsoon", False), "Monsoon, Local": ("monsoon", True),
        "torch RPC": ("rpc", False), "DDP over gloo": ("ddp", False)}


@dataclasses.dataclass
class Outcome:
    rate: float      # examples a second
    seconds: float   # to the target; infinite where no copy has it
    loss: float      # of the test set, at the end


class Bench:
    """One model's runs on programs that have its data."""

    def __init__(self, task, plan, programs, server, address):
        self._task, self._plan, self._programs = task, plan, programs
        self._server, self._address = server, address
        self._runs = 0

    def run(self, title, setting, seed):
        way, is_local = WAYS[title]
        plan, task = self._plan, self._task
        self._runs += 1
        request = {"way": way, **setting._asdict(), "seed": seed, "steps": plan.steps,
                   "copy_s": plan.copy_s, "final": True, "address": self._address,
                   "job": f"{task}-{self._runs}", "every": plan.every if is_local else 0,
                   "block_examples": plan.block, "overlap": is_local or plan.overlap}
        answers = python_programs.run_together(
            self._programs, self._server if way == "rpc" else None, request, task)
        made = sum(len(answer["ends"]) for answer in answers)
        counted = answers[0]["facts"].get("job_steps", made)
        if not plan.steps <= counted == made:
            raise RuntimeError(f"{title}: {made} steps were made and {counted} counted, of "
                               f"{plan.steps}")
        copy = self._programs[0].ask("time_to", task=task, loss=plan.target)
        began = min(answer["entered"] for answer in answers)
        seconds = math.inf if copy["when"] is None else copy["when"] - began
        outcome = Outcome(measure.together(answers), seconds, answers[0]["final"]["loss"])
        measure.log(f"{task}, {title}, {setting}, seed {seed}: {outcome.rate:.0f} examples/s, "
                    f"{seconds:.1f} s to {plan.target:g} ({copy['copies']} copies), "
                    f"{outcome.loss:.3f} at the end; steps "
                    f"{[len(answer['ends']) for answer in answers]}")
        return outcome

    def best_setting(self, title):
        """Of the grid; where none gets to the target, that with the lowest loss."""
        grid = self._plan.grid
        if WAYS[title][1]:
            grid = [setting._replace(outer=outer) for setting in grid
                    for outer in python_programs.OUTER]
        if len(grid) == 1:
            return grid[0]
        tried = {setting: self.run(title, setting, CHOOSING_SEED) for setting in grid}
        return min(tried, key=lambda setting: (tried[setting].seconds,
                                               nan_last(tried[setting].loss)))


def nan_last(value):
    return math.inf if math.isnan(value) else value


def rows(task, plan, settings, outcomes, where):
    ours = outcomes["Monsoon"]
    common = {"size": python_loops.SIZES[task], "threads": f"{WORKERS} workers, {where}"}
    for title, theirs in outcomes.items():
        if title == "Monsoon":
            continue
        names = {"reference": f"{title}, {settings[title]}: "}
        last = statistics.median(outcome.loss for outcome in theirs)
        lost = f"{title} did not learn: a test loss of {last:.3f} at the end"
        if not last <= plan.highest:
            yield Row(f"{TITLES[task]} beside {title}", **common, reference=title, why=lost)
            continue
        mine, others = ([o.rate for o in side] for side in (ours, theirs))
        if any(map(math.isnan, mine + others)):
            yield Row(f"{TITLES[task]} beside {title}", **common, reference=title,
                      why="in some round a worker had no step while the others trained")
        else:
            yield Row(f"{TITLES[task]} beside {title}", **common, unit="examples/s",
                      ours=median_of(mine), reference=names["reference"] + median_of(others),
                      ratios=paired(mine, others),
                      wanted=None if title.startswith("Monsoon") else at_least(1))
        yield time_row(f"{TITLES[task]}, time to test loss {plan.target:g}, beside {title}",
                       common, names["reference"], settings, ours, theirs,
                       None if title.startswith("Monsoon") else at_least(1))


def time_row(workload, common, reference, settings, ours, theirs, wanted):
    mine, others = ([o.seconds for o in side] for side in (ours, theirs))
    if all(math.isinf(s) for s in mine + others):
        return Row(workload, **common, why="neither got there with so many examples")
    # Who did not get there took for ever; a round that neither finished says nothing for us.
    ratios = [0.0 if math.isinf(a) else b / a for a, b in zip(mine, others)]
    missed = [f"; {sum(map(math.isinf, side))} of {len(side)} did not" if
              any(map(math.isinf, side)) else "" for side in (mine, others)]
    return Row(workload, **common, unit="s", wanted=wanted,
               ours=f"{settings['Monsoon']}: {median_of(mine)}{missed[0]}",
               reference=f"{reference}{median_of(others)}{missed[1]}", ratios=ratios)


def measure_peers(options):
    found = []
    try:
        python_programs.versions()
    except NoPeer as reason:
        return [Row("PyTorch by three processes", why=str(reason))]
    cores, where = python_programs.cores_of(WORKERS)
    for task in options.models.split(","):
        plan = (QUICK if options.quick else PLANS)[task]
        with contextlib.ExitStack() as stack:
            address = stack.enter_context(python_programs.cluster())
            programs = [stack.enter_context(Program(cores=mine)) for mine in cores]
            server = stack.enter_context(Program())
            for program in programs + [server]:
                program.start("hello")
                program.answer()
                program.start("load", task=task)
            for program in programs + [server]:
                program.answer()
            bench = Bench(task, plan, programs, server, address)
            settings = {title: bench.best_setting(title) for title in WAYS}
            outcomes = {title: [] for title in WAYS}
            titles = list(WAYS)
            for number_of_round in range(options.rounds):
                shift = number_of_round % len(titles)
                for title in titles[shift:] + titles[:shift]:
                    outcomes[title].append(bench.run(title, settings[title], number_of_round + 1))
        learnt = statistics.median(outcome.loss for outcome in outcomes["Monsoon"])
        if not learnt <= plan.highest:
            raise RuntimeError(f"{task}: Monsoon ends with a test loss of {learnt:.3f}")
        found += rows(task, plan, settings, outcomes, where)
    return found


def options_parser(doc):
    parser = measure.options_parser(doc)
    parser.set_defaults(rounds=ROUNDS)
    python_loops.add_options(parser)
    return parser


if __name__ == "__main__":
    python_programs.run_program(measure_peers, options_parser(__doc__))
