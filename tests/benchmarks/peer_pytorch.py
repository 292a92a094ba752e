#!/usr/bin/python3
"""Samples per second of training on one core, against PyTorch with one thread.

    tests/benchmarks/peer_pytorch.py [--rounds=7] [--quick]

worker/baseline --threads=1 and PyTorch train the preset MLP and LeNet on
Fashion-MNIST with Adagrad, batch 64, 128 and 256, in turn. Both are bound to
one core, so that reading ahead in a second thread is not free. Both must have
learnt something, or the benchmark fails.
"""

import json
import os
import subprocess
import sys

import measure
from measure import Row, at_least, median_of, paired
from torch_peer import DEBIAN, NoPeer, TorchPeer, other_pythons, pin_to

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from local_cluster import BASELINE, BIN, ROOT  # noqa: E402

# (model, batch): what is wanted of the ratio.
WANTED = {("mlp", 64): at_least(2.3), ("mlp", 128): at_least(2.0), ("mlp", 256): at_least(1.6),
          ("lenet", 64): None, ("lenet", 128): at_least(2.2), ("lenet", 256): None}
# Examples of one run: a few seconds.
EXAMPLES = {"mlp": 360_000, "lenet": 15_360}
QUICK_EXAMPLES = {"mlp": 36_000, "lenet": 3_840}
MODELS = {"mlp": "MLP", "lenet": "LeNet"}
RATE = 0.02
# Far above chance, 0.1, also after a quick run.
LEAST_ACCURACY = 0.4


def our_training(model, batch, steps, core, bin_dir=BIN):
    """Samples per second of the one-process trainer."""
    job = ROOT / f"configs/job/{model}_downpour.textproto"
    output = subprocess.run(
        [bin_dir / BASELINE, f"--job={job}", "--threads=1", "--json", f"--set=batch_size={batch}",
         # The peer's Adagrad, whatever else the preset has.
         f"--set=downpour.optimizer={{ adagrad {{ rate: {RATE} }} }}", "--set=stop.epochs=0",
         f"--set=stop.steps={steps}", "--set=evaluation.every_epochs=1000"],
        capture_output=True, text=True, check=True, preexec_fn=pin_to(core)).stdout
    result = json.loads(output)
    demand_learning("worker/baseline", result["final"]["test_accuracy"])
    return result["examples_per_s"]


def torch_training(peer, model, batch, steps):
    result = peer.ask("train", model=model, batch=batch, steps=steps, threads=1, seed=1,
                      rate=RATE)
    demand_learning(peer.name, result["accuracy"])
    return result["examples_per_s"]


def demand_learning(who, accuracy):
    if accuracy < LEAST_ACCURACY:
        raise RuntimeError(f"{who} is at accuracy {accuracy}: it did not train")


def compare(peers, model, batch, options, core):
    """Rates of ours and of each peer, a value a round."""
    examples = (QUICK_EXAMPLES if options.quick else EXAMPLES)[model]
    rates = {"ours": [], **{peer.name: [] for peer in peers}}
    for number_of_round in range(options.rounds):
        turns = [("ours", lambda: our_training(model, batch, examples // batch, core))]
        turns += [(peer.name, lambda peer=peer: torch_training(peer, model, batch,
                                                               examples // batch))
                  for peer in peers]
        shift = number_of_round % len(turns)
        for name, train in turns[shift:] + turns[:shift]:
            rates[name].append(train())
            measure.log(f"{model} batch {batch}: {name} {rates[name][-1]:.0f}/s")
    return rates


def rows(peers, options, core):
    """`peers`: the one that decides first, then those that are only reported;
    a NoPeer stands for one that is not there."""
    running = [peer for peer in peers if isinstance(peer, TorchPeer)]
    for (model, batch), wanted in WANTED.items():
        row = {"workload": f"{MODELS[model]} training", "size": f"batch {batch}",
               "threads": "1, one core", "unit": "samples/s", "wanted": None}
        rates = compare(running, model, batch, options, core) if running else {}
        for index, peer in enumerate(peers):
            row["wanted"] = wanted if index == 0 else None
            if not isinstance(peer, TorchPeer):
                yield Row(**row, reference="PyTorch", why=str(peer))
                continue
            yield Row(**row, ours=median_of(rates["ours"]),
                      reference=f"{peer.name} {median_of(rates[peer.name])}",
                      ratios=paired(rates["ours"], rates[peer.name]))


def measure_training(options):
    core = max(os.sched_getaffinity(0))
    peers = []
    try:
        for python in [DEBIAN] + other_pythons():
            try:
                peers.append(TorchPeer(python, core))
            except NoPeer as reason:
                peers.append(reason)
        return list(rows(peers, options, core))
    finally:
        for peer in peers:
            if isinstance(peer, TorchPeer):
                peer.close()


if __name__ == "__main__":
    measure.run_program(measure_training, measure.options_parser(__doc__))
