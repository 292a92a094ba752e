#!/usr/bin/python3
"""What a training loop in Python pays for being a program of a job.

    tests/benchmarks/python_loops.py [--rounds=7] [--quick] [--models=lenet,gpt]

One program with one torch thread and one ps train LeNet (batch 64) and the GPT over bytes
(batch 12) of python/examples, over the transport that is chosen by itself and over gRPC:
with the shards' optimizer, where each step pushes and fetches, and with Local, every=100.
The same loop with a torch optimizer alone runs in turn with them.

Share: the time within job.step() and job.blocks() over that of the loop. Local's optimizer
steps outside of it (optimizer_stepped=True), since the loop alone has that too. Ratio: the
time of the loop over that of the loop alone, the optimizer included on both sides. Neither
has what entering the job and its end take. Each run's losses must have come down, each step
must be counted, and with the chosen transport helper process and ps must be seen to share
memory while they are timed.
"""

import contextlib

import measure
import python_programs
from measure import Row, at_most, median_of, number, paired
from python_programs import TASKS, TITLES, TRANSPORTS, NoPeer, Program

EVERY = 100
# (Steps that are timed: multiples of EVERY, so that Local's pushes have their part; steps
# before them; rate; rate of Local; highest loss at the end.)
PLANS = {"lenet": (900, 60, 0.02, 0.02, 1.0), "gpt": (100, 10, 1e-3, 1e-3, 4.5)}
QUICK = {"lenet": (200, 20, 0.02, 0.02, 2.0), "gpt": (6, 2, 1e-3, 1e-3, 5.6)}
# The way, whether it is Local, and the goal for its share.
KINDS = {"shards' optimizer, every=1": (0, 0.05), f"Local, every={EVERY}": (EVERY, 0.01)}
SIZES = {"lenet": "batch 64", "gpt": "batch 12"}
SHARED = {"auto": "shared memory", "grpc": "gRPC"}


class Turn:
    """One run of one program."""

    def __init__(self, program, task, plan, seed, **request):
        # The last step waits until the job has ended everywhere, which is no step's affair.
        steps, warm_up, _, _, highest = plan
        total = warm_up + steps + 1
        every = request.get("every", 0)
        told = program.ask("run", task=task, seed=seed, steps=total, warm_up=warm_up,
                           rank=0, world=1, copy_s=None,
                           rate=plan[3] if every else plan[2], **request)
        who = f"{task}, {request['way']}"
        python_programs.demand_learning(who, told["losses"], highest)
        if len(told["losses"]) != total:
            raise RuntimeError(f"{who}: {len(told['losses'])} steps of {total}")
        timed = slice(warm_up, -1)
        self.seconds = (told["ends"][-2] - told["timed_from"]) / steps
        self.draw = sum(told["draw_s"][timed]) / steps
        self.step = sum(told["step_s"][timed]) / steps
        self.shares_memory = told["facts"].get("shares_memory")
        self.ending = told["step_s"][-1]
        if told["facts"].get("job_steps", total) != total:
            raise RuntimeError(f"{who}: the job counts {told['facts']['job_steps']} steps")

    @property
    def share(self):
        return (self.draw + self.step) / self.seconds


def turns_of(task, plan, options, programs, addresses):
    """{(kind, transport): [Turn a round]}, with "alone" under ("alone", "")."""
    cases = [("alone", "")] + [(kind, transport) for kind in KINDS for transport in addresses]
    found = {case: [] for case in cases}
    for number_of_round in range(options.rounds):
        shift = number_of_round % len(cases)
        for case in cases[shift:] + cases[:shift]:
            kind, transport = case
            if kind == "alone":
                turn = Turn(programs["auto"], task, plan, number_of_round, way="alone")
            else:
                turn = Turn(programs[transport], task, plan, number_of_round, way="monsoon",
                            every=KINDS[kind][0], address=addresses[transport], final=True,
                            job=f"{task}-{KINDS[kind][0]}-{number_of_round}-{transport}")
                if turn.shares_memory and transport == "grpc":
                    raise RuntimeError("MONSOON_TRANSPORT=grpc was not heeded")
            found[case].append(turn)
            measure.log(f"{task}, {kind} {transport}: {1e3 * turn.seconds:.3f} ms a step, of it "
                        f"step() {1e3 * turn.step:.3f}, blocks() {1e3 * turn.draw:.3f}; the job's end {turn.ending:.2f} s")
    return found


def rows(task, found, addresses):
    alone = [turn.seconds for turn in found["alone", ""]]
    common = {"size": SIZES[task], "threads": "1 program"}
    for transport in addresses:
        for kind, (_, goal) in KINDS.items():
            turns = found[kind, transport]
            where = f"{TITLES[task]}, {kind}, {SHARED[transport]}"
            if transport == "auto" and not all(turn.shares_memory for turn in turns):
                yield Row(where, **common, why="helper and shard map no memory file in common: "
                          "they exchange over gRPC")
                continue
            mine = [1e3 * (turn.draw + turn.step) for turn in turns]
            yield Row(f"share of step() and blocks(): {where}", **common,
                      ours=f"{median_of(mine)} (step {number_of(turns, 'step')})",
                      reference=f"the loop {number_of(turns, 'seconds')}", unit="ms/step",
                      ratios=[turn.share for turn in turns], wanted=at_most(goal))
            yield Row(f"time over that of torch alone: {where}", **common,
                      ours=number_of(turns, "seconds"),
                      reference=f"alone {median_of([1e3 * s for s in alone])}", unit="ms/step",
                      ratios=paired([turn.seconds for turn in turns], alone))


def number_of(turns, field):
    return median_of([1e3 * getattr(turn, field) for turn in turns])


def measure_loops(options):
    found_rows = []
    try:
        python_programs.versions()
    except NoPeer as reason:
        return [Row("training loops in Python", why=str(reason))]
    with contextlib.ExitStack() as stack:
        programs, addresses = {}, {}
        for transport in TRANSPORTS:
            programs[transport] = stack.enter_context(Program(transport))
            programs[transport].ask("hello")
            addresses[transport] = stack.enter_context(python_programs.cluster(transport))
        for task in options.models.split(","):
            plan = (QUICK if options.quick else PLANS)[task]
            for program in programs.values():
                program.ask("load", task=task)
            found = turns_of(task, plan, options, programs, addresses)
            found_rows += rows(task, found, addresses)
    return found_rows


def options_parser(doc):
    parser = measure.options_parser(doc)
    add_options(parser)
    return parser


def add_options(parser):
    parser.add_argument("--models", default=",".join(TASKS),
                        help="of the Python benchmarks, joined by ','")


if __name__ == "__main__":
    python_programs.run_program(measure_loops, options_parser(__doc__))
