#!/usr/bin/python3
"""Test accuracy of three Python programs on one job, against torch alone.

    tests/benchmarks/python_accuracy.py [--seeds=3] [--epochs=5] [--quick]

LeNet of python/examples on Fashion-MNIST, batch 64. Three programs with one torch thread
each push every step to one ps, whose optimizer is Adagrad 0.03 with a warm-up of 300 pushes;
torch alone has torch.optim.Adagrad of the same rate, warm-up and epsilon and makes as many
steps as the three together. A seed gives both the same initial parameters. Both are
evaluated by the same function on the whole test set; Monsoon's parameters are those that the
job exports. The row's ratios are differences in percentage points, ours less torch's; the
mean counts.
"""

import contextlib
import statistics

import measure
import python_programs
from measure import Row, at_least
from python_programs import NoPeer, Program

TASK = "lenet"
WORKERS = 3
RATE = 0.03
# Points that the mean may be below torch alone's.
WITHIN = 0.5
QUICK_STEPS = 240
# Far above chance, 0.1, also after a quick run.
LEAST_ACCURACY = 0.4


def accuracy_of(who, answers):
    accuracy = answers[0]["final"]["accuracy"]
    if not accuracy >= LEAST_ACCURACY:
        raise RuntimeError(f"{who} is at accuracy {accuracy}: it did not learn")
    return accuracy


def pairs_of(options, programs, address, data):
    """(ours, torch's) of each seed, and the steps that each made."""
    steps = int(options.epochs * data["samples"] / data["batch"])
    if options.quick:
        steps = QUICK_STEPS
    pairs = []
    for seed in range(1, (1 if options.quick else options.seeds) + 1):
        common = {"rate": RATE, "seed": seed, "steps": steps, "final": True}
        ours = python_programs.run_together(
            programs, None, {**common, "way": "monsoon", "every": 0, "address": address,
                             "job": f"accuracy-{seed}"}, TASK)
        made = [len(answer["ends"]) for answer in ours]
        facts = ours[0]["facts"]
        if not facts["job_steps"] == sum(made) == steps:
            raise RuntimeError(f"seed {seed}: programs made {made} steps, the job counts "
                               f"{facts['job_steps']} of {steps}")
        alone = python_programs.run_together(programs[:1], None, {**common, "way": "alone"}, TASK)
        if len(alone[0]["ends"]) != steps:
            raise RuntimeError(f"seed {seed}: torch alone made {len(alone[0]['ends'])} steps")
        pairs.append((accuracy_of("the job", ours), accuracy_of("torch alone", alone)))
        measure.log(f"seed {seed}: job {pairs[-1][0]:.4f}, torch alone {pairs[-1][1]:.4f}; steps "
                    f"{made}, median staleness {facts['staleness_p50']}")
    return pairs, steps


def measure_accuracy(options):
    row = {"workload": "test accuracy, LeNet in PyTorch (ratio: points of difference)",
           "threads": f"{WORKERS} programs", "unit": "%"}
    try:
        python_programs.versions()
    except NoPeer as reason:
        return [Row(**row, reference="PyTorch", why=str(reason))]
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(python_programs.cluster())
        programs = [stack.enter_context(Program()) for _ in range(WORKERS)]
        for program in programs:
            program.ask("hello")
            data = program.ask("load", task=TASK)
        pairs, steps = pairs_of(options, programs, address, data)
    options.rounds = len(pairs)  # what the report tells
    ours, alone = ([100 * value for value in side] for side in zip(*pairs))
    differences = [a - b for a, b in zip(ours, alone)]
    # The table's figure of a row is the median; the goal is the mean's.
    mean = statistics.mean(differences)
    return [Row(**row, size=f"batch 64, {steps} steps", ours=each(ours),
                reference=f"torch alone {each(alone)}", ratios=differences),
            Row(workload="mean of the differences above, in points", unit="points",
                ratios=[mean], wanted=at_least(-WITHIN))]


def each(values):
    return ", ".join(f"{value:.2f}" for value in values)


def options_parser(doc):
    parser = measure.options_parser(doc)
    add_options(parser)
    return parser


def add_options(parser):
    parser.add_argument("--seeds", type=int, default=3, help="of the accuracy in Python")
    parser.add_argument("--epochs", type=float, default=5, help="of the accuracy in Python")


if __name__ == "__main__":
    python_programs.run_program(measure_accuracy, options_parser(__doc__))
