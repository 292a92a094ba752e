#!/usr/bin/python3
"""Compares methods of low communication on the real shard at virtual time; resumable.

    experiment.py rates                        chooses rates on a tenth of the model: rates.json
    experiment.py run [--plan=whole] [--seeds=1,2,3] [--methods=sync,delayed]

Each (method, seed) ends in one file of results/PLAN, and is not run again. One thread; needs
Debian's python3-torch, dict-gcide, and a BLAS that is not the reference one (libopenblas0).
"""

import argparse
import json
import os
import pathlib
import sys
import time

import torch

import methods
from flat_model import Data
from simulation import Simulation

HERE = pathlib.Path(__file__).resolve().parent
RESULTS = HERE / "results"
RATES = HERE / "rates.json"
DICTIONARY = "/usr/share/dictd/gcide.dict.dz"
RATES_PLAN, RATES_SEED = "tenth", 100
# (key in the rates, method that is tried, rates), in turn: later ones use what was chosen before.
GRID = [
    ("alone", "alone", (0.001, 0.002, 0.004, 0.008, 0.016)),
    ("inner", "sync", (0.001, 0.002, 0.004, 0.008, 0.016)),
    ("sync", "sync", (0.4, 0.7, 1.0)),
    ("delayed", "delayed", (0.1, 0.2, 0.4, 0.7, 1.0)),
    ("streaming", "streaming", (0.4, 0.7, 1.0, 1.4)),
    ("decoupled", "decoupled", (0.05, 0.1, 0.2, 0.4, 0.7)),
    ("downpour", "downpour", (0.005, 0.01, 0.02, 0.04, 0.08)),
]
FIRST_OUTER = 0.7  # of DiLoCo's paper, while the inner rate is looked for


def write(path, content):
    """All of it or nothing, whenever the process ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    os.replace(draft, path)


def run_once(path, name, plan, data, seed, rates):
    """The result in `path`; computed if it is not there."""
    if path.exists():
        return json.loads(path.read_text(encoding="utf-8"))
    began, cpu = time.monotonic(), time.process_time()
    result = {"method": name, "seed": seed, "plan": plan,
              **Simulation(name, methods.PLANS[plan], data, seed, rates).run(),
              "torch": torch.__version__, "cpu_seconds": round(time.process_time() - cpu, 1)}
    write(path, result)
    print(f"{path.stem}: {result['final']:.4f} after {time.monotonic() - began:.0f} s, "
          f"{result['cpu_seconds']:.0f} s of CPU", flush=True)
    return result


def choose_rates(data):
    rates = {"sync": FIRST_OUTER}
    for key, name, tried in GRID:
        losses = {}
        for rate in tried:
            trial = {**rates, key: rate}
            path = RESULTS / "rates" / f"{key}-{rate:g}.json"
            losses[rate] = run_once(path, name, RATES_PLAN, data, RATES_SEED, trial)["final"]
        # One that diverged is no number.
        rates[key] = min(tried, key=lambda rate: (losses[rate] != losses[rate], losses[rate]))
        print(f"{key}: {rates[key]:g}", flush=True)
    write(RATES, {"plan": RATES_PLAN, "seed": RATES_SEED, **rates})


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("rates", "run"))
    parser.add_argument("--plan", choices=sorted(methods.PLANS), default="quarter")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--methods", default=",".join(methods.METHODS))
    parser.add_argument("--dictionary", default=DICTIONARY, help="dict-gcide's .dict.dz")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    data = Data.dictionary(options.dictionary)
    if options.what == "rates":
        choose_rates(data)
        return 0
    if not RATES.exists():
        parser.error("rates.json is missing: experiment.py rates")
    rates = json.loads(RATES.read_text(encoding="utf-8"))
    # Seed by seed: what is there of a seed can be compared.
    for seed in options.seeds.split(","):
        for name in options.methods.split(","):
            run_once(RESULTS / options.plan / f"{name}-{seed}.json", name, options.plan, data,
                     int(seed), rates)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
