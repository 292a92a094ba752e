#!/usr/bin/python3
"""Examples per second of LeNet where all replicas take each step together: ours, by all-reduce, and
torch's DistributedDataParallel over gloo, two members of one thread each on both sides.

    tests/benchmarks/synchronous_peers.py [--rounds=7] [--quick] [--simd=avx2]

Batch 64 a member, the same optimizer and rate, in turns. Both sides' test accuracy after a turn must
be near the other's, or the benchmark fails. MONSOON_TORCH_PYTHON names another
interpreter, of torch 2, than that of peers_venv.sh.
"""

import contextlib

import cluster_sides
import measure
from cluster_peers import BATCH, EXAMPLES, QUICK_EXAMPLES, demand_near
from measure import Row, at_least, median_of, paired
from peers import NoPeer

MEMBERS = 2
# Ours is faster, and its clock holds the job's begin and end.
OUR_EXAMPLES = 120_000


class Together(cluster_sides.Ours):
    """The preset that sums by RING, with the peers' optimizer."""

    job = cluster_sides.ROOT / "configs/job/lenet_synchronous.textproto"

    def __init__(self):
        super().__init__(MEMBERS)
        self.name = f"ours, {MEMBERS} members by all-reduce"

    def _job(self, batch, seed, setting, **settings):
        return self._cluster.run(self.job, {
            "batch_size": batch, "seed": seed,
            "downpour.optimizer.adagrad.rate": setting.rate,
            "downpour.optimizer.schedule.warm_up_pushes": setting.warm_up,
            **{name.replace("__", "."): value for name, value in settings.items()}})


def measure_together(options):
    rates, accuracies = {}, {}
    with contextlib.ExitStack() as stack:
        ours = Together()
        stack.callback(ours.close)
        try:
            alone = cluster_sides.OneProcess("torch")
            alone.close()  # only for the environment that torch is fastest with
            peer = cluster_sides.TorchRanks("ddp", MEMBERS, alone.environment)
        except NoPeer as reason:
            return [Row("LeNet in step beside torch's DDP", why=str(reason))]
        stack.callback(peer.close)
        for number in range(options.rounds):
            for side in ((ours, peer), (peer, ours))[number % 2]:
                examples = QUICK_EXAMPLES if options.quick else \
                    OUR_EXAMPLES if side is ours else EXAMPLES
                run = side.rate(BATCH, examples, number + 1)
                rates.setdefault(side, []).append(run.examples_per_s)
                accuracies.setdefault(side, []).append(run.accuracy)
                measure.log(f"{side.name}: {run.examples_per_s:.0f} examples/s, accuracy "
                            f"{run.accuracy:.4f}")
    demand_near(peer.name, accuracies[peer], accuracies[ours], options.quick)
    return [Row("LeNet in step, two members of one thread, beside torch's DDP",
                size=f"batch {BATCH}", threads="1 a member", unit="examples/s",
                ours=median_of(rates[ours]), reference=f"{peer.name} {median_of(rates[peer])}",
                ratios=paired(rates[ours], rates[peer]), wanted=at_least(2))]


if __name__ == "__main__":
    measure.run_program(measure_together, measure.options_parser(__doc__))
