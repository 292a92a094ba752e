#!/usr/bin/python3
"""The experiment in small: 20 steps a replica of each method, twice, to the bit; and what it does
against a computation by hand. Skipped where Debian's python3-torch is not installed."""

import importlib.util
import sys
import unittest

if importlib.util.find_spec("torch") is None:
    print("skipped: python3-torch is not installed")
    sys.exit(0)

import torch

import methods
import report
from flat_model import Data, FlatModel, rate_at
from simulation import Simulation

PLAN = methods.PLANS["tiny"]
DATA = Data.made_up()
RATES = {"inner": 2e-3, "alone": 2e-3, "sync": 0.7, "delayed": 0.7, "streaming": 0.7,
         "decoupled": 0.4, "downpour": 0.02}


def run(name, seed=1):
    simulation = Simulation(name, PLAN, DATA, seed, RATES)
    return simulation.run(), simulation.judge.vector


def synchronous_by_hand(seed):
    """DiLoCo (arXiv 2311.08105, algorithm 1), without a shard."""
    order, replicas = DATA.order(seed), []
    for _ in methods.SPEEDS:
        model = FlatModel(PLAN, seed)
        replicas.append((model, model.adam_w()))
    theta = replicas[0][0].vector.clone()
    momentum = torch.zeros_like(theta)
    for first in range(0, PLAN.steps, PLAN.local_steps * len(replicas)):
        for i, (model, optimizer) in enumerate(replicas):
            model.vector.copy_(theta)
            for j in range(first + i * PLAN.local_steps, first + (i + 1) * PLAN.local_steps):
                optimizer.param_groups[0]["lr"] = RATES["inner"] * rate_at(PLAN, j)
                model.gradient(DATA.train, DATA.batch(order, j, PLAN.batch))
                optimizer.step()
        delta = sum(theta - model.vector for model, _ in replicas) / len(replicas)
        momentum = methods.MOMENTUM * momentum + delta
        theta = theta - RATES["sync"] * (delta + methods.MOMENTUM * momentum)
    return theta


class Recorded(Simulation):
    """Keeps which batches each replica had: streaming's begin their turns at different times."""

    def __init__(self, *settings):
        super().__init__(*settings)
        self.batches = {}

    def _inner_step(self, model, optimizer, j):
        self.batches.setdefault(model, []).append(j)
        super()._inner_step(model, optimizer, j)


def streaming_by_hand(seed, batches, slices):
    """Streaming DiLoCo (arXiv 2501.18512, algorithm 2), without a shard: fragment f leaves after
    its share of the steps, and lands PLAN.landing_steps later."""
    order = DATA.order(seed)
    models = [FlatModel(PLAN, seed) for _ in batches]
    optimizers = [model.adam_w() for model in models]
    theta, momentum = models[0].vector.clone(), torch.zeros_like(models[0].vector)
    bases = [theta.clone() for _ in models]
    landing = None  # fragment, at which step

    def leave(fragment):
        for begin, end in slices[fragment]:
            delta = sum(base[begin:end] - model.vector[begin:end]
                        for base, model in zip(bases, models)) / len(models)
            momentum[begin:end] = methods.MOMENTUM * momentum[begin:end] + delta
            theta[begin:end] -= RATES["streaming"] * (
                delta + methods.MOMENTUM * momentum[begin:end])

    def land(fragment):
        for begin, end in slices[fragment]:
            for base, model in zip(bases, models):
                model.vector[begin:end] = (methods.MIXING * model.vector[begin:end] +
                                           (1 - methods.MIXING) * theta[begin:end])
                base[begin:end] = theta[begin:end]

    push, steps = 0, PLAN.steps // len(models)
    for step in range(1, steps + 1):
        for model, optimizer, mine in zip(models, optimizers, batches):
            j = mine[step - 1]
            optimizer.param_groups[0]["lr"] = RATES["inner"] * rate_at(PLAN, j)
            model.gradient(DATA.train, DATA.batch(order, j, PLAN.batch))
            optimizer.step()
        if landing is not None and landing[1] <= step:
            land(landing[0])
            landing = None
        if step == (push + 1) * PLAN.local_steps // methods.FRAGMENTS:
            leave(push % methods.FRAGMENTS)
            landing = (push % methods.FRAGMENTS, step + PLAN.landing_steps)
            push += 1
    for fragment in range(push, push + methods.FRAGMENTS - 1):  # what is left of the others
        if landing is not None:
            land(landing[0])
            landing = None
        leave(fragment % methods.FRAGMENTS)
    return theta


class ExperimentTest(unittest.TestCase):
    def test_a_seed_repeats_to_the_bit(self):
        for name in methods.METHODS:
            first, again = run(name)[0], run(name)[0]
            self.assertEqual(first, again, name)
            self.assertEqual(sum(first["replica_steps"]), PLAN.steps, name)
            self.assertEqual(len(first["curve"]), PLAN.evaluations, name)
            self.assertLess(first["final"], 5.4, name)  # ln 256 = 5.545 without training

    def test_a_seed_is_its_start_and_its_data(self):
        self.assertNotEqual(run("naive", 1)[0]["parameters"], run("naive", 2)[0]["parameters"])

    def test_synchronous_is_the_papers_algorithm(self):
        result, vector = run("sync")
        torch.testing.assert_close(vector, synchronous_by_hand(1), rtol=0, atol=2e-6)
        self.assertEqual(result["replica_steps"], [20, 20, 20, 20])
        self.assertEqual(result["virtual_seconds"], 20)  # of the slowest
        self.assertEqual(result["staleness"], 0)

    def test_faster_replicas_do_more(self):
        # Blocks of five steps begin at multiples of 5, 3.85, 2.5 and 1.25 s until there are 16.
        self.assertEqual(run("naive")[0]["replica_steps"], [10, 15, 20, 35])

    def test_slower_ones_take_fewer_local_steps(self):
        # Blocks of 1, 2, 3 and 5 steps follow the first ones of five: at 5, 6, 7, 8 s; at 3.85,
        # 5.38, 6.92, 8.46; at 2.5, 4, 5.5, 7, 8.5; every 1.25 s, the last of the three left.
        result = run("delayed")[0]
        self.assertEqual(result["replica_steps"], [9, 13, 20, 38])
        self.assertEqual(result["pushes"], 24)

    def test_streaming_is_the_papers_algorithm(self):
        simulation = Recorded("streaming", PLAN, DATA, 1, RATES)
        simulation.run()
        by_hand = streaming_by_hand(1, list(simulation.batches.values()), simulation.lab.slices)
        torch.testing.assert_close(simulation.judge.vector, by_hand, rtol=0, atol=2e-6)

    def test_four_bits_are_an_eighth_of_the_bytes(self):
        whole, packed = run("streaming")[0], run("streaming_int4")[0]
        self.assertEqual(whole["pushes"], packed["pushes"])
        # 4 bits a value and a scale for 256 of them, a stripe; of 32 bits each.
        self.assertAlmostEqual(packed["bytes_pushed"] / whole["bytes_pushed"], 1 / 8 + 1 / 256,
                               delta=0.001)
        self.assertNotEqual(whole["parameters"], packed["parameters"])


class ReportTest(unittest.TestCase):
    def test_differences_are_paired(self):
        mean, error = report.difference([1.0, 2.0, 3.0], [1.1, 2.1, 3.4])
        self.assertAlmostEqual(mean, 0.2)
        self.assertAlmostEqual(error, 0.1)  # deviations of 0.1, 0.1, 0.2: 0.1732 / sqrt(3)

    def test_one_seed_has_no_error(self):
        self.assertIsNone(report.difference([1.0], [1.5])[1])


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
