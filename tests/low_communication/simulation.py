"""A run of one method: replicas of several speeds around a real shard, at virtual time.

Each replica is a generator that yields the virtual seconds which its next act takes, or None
to wait until something has happened. What is due first runs first; at equal times the replica
with the lower number. So a seed repeats to the bit.
"""

import hashlib
import heapq

import torch

import methods
from flat_model import FlatModel, rate_at
from lab_library import Lab

_AFTER = 1e-6  # virtual seconds; a grace is over by then, whatever was rounded


class Replica:
    """One replica's network, and what it knows of the shard."""

    def __init__(self, number, plan, seed, downpour_fragments):
        self.number, self.speed = number, methods.SPEEDS[number]
        self.model = FlatModel(plan, seed)
        self.optimizer = self.model.adam_w()
        self.base = self.model.vector.clone()
        self.fetched = self.model.vector.clone()
        self.steps = 0
        self.pushes = 0
        self.unpushed = [0] * downpour_fragments  # steps of each fragment
        self.landing = None  # at most one


class Landing:
    """What a replica was when it pushed, until what the shard made of it lands."""

    def __init__(self, fragment, slices, vector, at):
        self.fragment, self.at = fragment, at
        self.parts = [(begin, end, vector[begin:end].clone()) for begin, end in slices]


class Simulation:
    def __init__(self, name, plan, data, seed, rates):
        self.method, self.plan, self.data = methods.METHODS[name], plan, data
        self.rate = rates[self.method.rate]
        self.inner = rates["inner"] if self.method.downpour else self.rate
        self.order = data.order(seed)
        self.judge = FlatModel(plan, seed)
        self.seed = seed
        self.landing_steps = plan.landing_steps if self.method.lands_late else 0
        self.taken = self.done = 0  # batches given out, and in what was pushed
        self.curve = []
        self.pushes = self.bytes = self.staleness = self.stripes = 0
        self.now = 0.0

    def run(self):
        """What is kept of the run (experiment.py)."""
        if self.method.downpour is None:
            self._alone()
            replicas = [self.plan.steps]
        else:
            replicas = self._distributed()
        final = self.judge.loss(self.data.test, self._samples(self.plan.final_samples))
        return {
            "final": final, "curve": self.curve, "replica_steps": replicas,
            "pushes": self.pushes, "bytes_pushed": self.bytes,
            "staleness": self.staleness / max(1, self.stripes),
            "virtual_seconds": self.now, "rate": self.rate, "inner": self.inner,
            "parameters": hashlib.sha256(self.judge.vector.numpy().tobytes()).hexdigest(),
        }

    # ---- one process ---------------------------------------------------------

    def _alone(self):
        optimizer = self.judge.adam_w()
        for j in range(self.plan.steps):
            self._inner_step(self.judge, optimizer, j)
            self.done += 1
            self._evaluate()
        self.now = self.plan.steps / max(methods.SPEEDS)

    def _inner_step(self, model, optimizer, j):
        for group in optimizer.param_groups:
            group["lr"] = self.inner * rate_at(self.plan, j)
        model.gradient(self.data.train, self.data.batch(self.order, j, self.plan.batch))
        optimizer.step()

    # ---- around the shard ----------------------------------------------------

    def _distributed(self):
        text = methods.downpour_text(self.method, self.plan, self.rate)
        self.lab = Lab(self.judge.text, text, self.plan.stripe_bytes, self.judge.vector)
        try:
            replicas = [Replica(i, self.plan, self.seed, self.lab.fragments)
                        for i in range(len(methods.SPEEDS))]
            for replica in replicas:
                self.lab.fetch(replica.number, None, replica.base)
            act = self._gradients if self.method.gradients else self._differences
            self._play([act(replica) for replica in replicas])
            self.lab.read(self.judge.vector)
        finally:
            self.lab.close()
        return [replica.steps for replica in replicas]

    def _play(self, acts):
        due = [(0.0, i) for i in range(len(acts))]
        heapq.heapify(due)
        waiting = set()
        self.timers = []
        while due or (waiting and self.timers):
            if self.timers and (not due or self.timers[0] < due[0][0]):
                self._move_to(heapq.heappop(self.timers))
                acted = True
            else:
                at, i = heapq.heappop(due)
                self._move_to(at)
                self.acted = False
                rest = next(acts[i], StopIteration)
                acted = self.acted
                if rest is None:
                    waiting.add(i)
                elif rest is not StopIteration:
                    heapq.heappush(due, (self.now + rest, i))
            if acted:
                for i in waiting:
                    heapq.heappush(due, (self.now, i))
                waiting.clear()
        if waiting:
            raise RuntimeError(f"replicas {sorted(waiting)} wait for ever at {self.now:g} s")

    def _move_to(self, at):
        if at > self.now:
            self.lab.advance(at - self.now)
            self.now = at

    def _take(self, steps):
        """So many batches of the data, the next ones; fewer at the end."""
        first = self.taken
        self.taken = min(self.plan.steps, first + steps)
        return range(first, self.taken)

    def _gradients(self, replica):
        """Downpour with n_fetch = n_push = 1, a step at a time."""
        vector = replica.model.vector
        self.lab.fetch(replica.number, None, vector)
        while block := self._take(1):
            yield 1 / replica.speed
            ids = self.data.batch(self.order, block[0], self.plan.batch)
            gradient = replica.model.gradient(self.data.train, ids)
            self._push(replica, gradient, 1.0, 1)
            replica.steps += 1
            self.lab.fetch(replica.number, None, vector)
        self._leave(replica)

    def _differences(self, replica):
        while block := self._take(self._steps_of_next(replica)):
            for j in block:
                yield 1 / replica.speed
                self._inner_step(replica.model, replica.optimizer, j)
                replica.steps += 1
                replica.unpushed = [steps + 1 for steps in replica.unpushed]
                while not self._may_go_on(replica):
                    yield None
            yield from self._push_difference(replica, len(block))
        # What the other fragments have not pushed yet.
        while replica.unpushed[replica.pushes % self.lab.fragments] > 0:
            yield from self._push_difference(replica, 0)
        while not self._land(replica):
            yield None
        self._leave(replica)

    def _steps_of_next(self, replica):
        """As Differences::BeginRound."""
        steps, fragments = self.plan.local_steps, self.lab.fragments
        if self.method.dynamic and replica.steps > 0:
            steps = self.lab.local_steps(replica.number, 1000 / replica.speed)
        steps = max(fragments, steps)
        push = replica.pushes + 1
        return push * steps // fragments - (push - 1) * steps // fragments

    def _push_difference(self, replica, steps):
        while not self._land(replica):  # two are never under way
            yield None
        vector = replica.model.vector
        fragment = replica.pushes % self.lab.fragments
        # Of a whole difference; in a round its share (DifferenceWeigher).
        weight = replica.unpushed[fragment] / self.plan.local_steps if self.method.rounds else 1.0
        replica.unpushed[fragment] = 0
        replica.landing = Landing(fragment, self.lab.slices[fragment], vector,
                                  replica.steps + self.landing_steps)
        self._push(replica, replica.base - vector, weight, steps)
        if self.method.grace:
            heapq.heappush(self.timers, self.now + methods.grace(self.plan) + _AFTER)
        while not self._may_go_on(replica) or (self.method.waits and not self._land(replica)):
            yield None

    def _may_go_on(self, replica):
        """Lands what is to land now. False: it is not there, and the next step waits for it."""
        landing = replica.landing
        if landing is None or replica.steps < landing.at:
            return True
        return self._land(replica) or not self.method.lands_late

    def _land(self, replica):
        """False: it is not there yet."""
        landing = replica.landing
        if landing is None:
            return True
        if not self.lab.fetch(replica.number, landing.fragment, replica.fetched):
            return False
        vector, mixing = replica.model.vector, self.method.mixing
        for begin, end, pushed in landing.parts:
            landed, local = replica.fetched[begin:end], vector[begin:end]
            if mixing > 0:
                local.mul_(mixing).add_(landed, alpha=1 - mixing)
            else:
                local.sub_(pushed).add_(landed)
            replica.base[begin:end] = landed
        replica.landing = None
        return True

    def _push(self, replica, difference, weight, steps):
        _, stripes, size, staleness = self.lab.push(replica.number, difference, weight)
        replica.pushes += 1
        self.acted = True
        self.pushes += 1
        self.bytes += size
        self.stripes += stripes
        self.staleness += staleness
        self.done += steps
        self._evaluate()

    def _leave(self, replica):
        self.lab.leave(replica.number)
        self.acted = True

    # ---- what came of it -----------------------------------------------------

    def _samples(self, wanted):
        return min(wanted, self.data.test_samples)

    def _evaluate(self):
        """At each of the plan's numbers of steps, as soon as they are in what was pushed."""
        marks = self.done * self.plan.evaluations // self.plan.steps
        if marks > len(self.curve):
            if self.method.downpour is not None:
                self.lab.read(self.judge.vector)
            loss = self.judge.loss(self.data.test, self._samples(self.plan.test_samples))
            self.curve += [[self.done, loss]] * (marks - len(self.curve))
