#!/usr/bin/python3
"""Training steps of model files beside PyTorch: the same batch and parameters, one thread each,
the two in turns, and the gradients compared first.

    tests/models/speed.py --bin=BAZEL_BIN [--batch=N] [--rounds=9] [--seconds=1] [MODEL.textproto]...

Default: the presets of configs/model with batch sizes of their own. Prints a line for each with
the milliseconds of a step, medians, and how many times as fast ours is; then the geometric mean.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PRESETS = HERE.parents[1] / "configs" / "model"
# What a step takes by default; others 64.
BATCHES = {"gpt": 12, "text_classifier": 32, "image_cnn": 16, "nowcast": 2, "speech": 128,
           "local_contrast": 32}
TOO_LARGE = {"local_contrast_full"}
# Gradients of one in float32 against the other's; a tensor's largest value is 1. Seen: 1.3e-5.
TOLERANCE = 1e-4
# Samples whose gradient is compared. Of millions of pooled values some are so near to the second
# largest that rounding decides, and each moves a pixel's whole share of the gradient.
CHECKED = 4


class Side:
    def __init__(self, command):
        self._process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answer()

    def ask(self, line):
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self):
        line = self._process.stdout.readline()
        if not line:
            sys.exit("a side ended; see its error above")
        return json.loads(line)

    def close(self):
        self._process.stdin.close()
        self._process.wait()


def begin(options, path, folder, batch):
    """Ours and theirs, with the same parameters and batch; what both say of them."""
    start, gradient = os.path.join(folder, "start.npz"), os.path.join(folder, "gradient.npz")
    ours = Side([f"{options.bin}/tests/models/model_side", str(path), str(batch),
                 str(options.threads), start])
    theirs = Side([options.python, str(HERE / "torch_side.py"), str(path), str(options.threads),
                   start])
    loss = ours.ask(f"check {gradient}")["loss"]
    check = theirs.ask(f"check {gradient}")
    right = abs(loss - check["loss"]) < TOLERANCE * max(1e-3, abs(loss))
    return ours, theirs, right, check


def compare(options, path, folder):
    """How many times as fast, and whether both compute the same."""
    name = pathlib.Path(path).stem
    batch = options.batch or BATCHES.get(name, 64)
    *sides, right, check = begin(options, path, folder, min(batch, CHECKED))
    for side in sides:
        side.close()
    right = right and check["difference"] < TOLERANCE
    ours, theirs, same_loss, _ = begin(options, path, folder, batch)
    right = right and same_loss
    steps = []
    for side in (ours, theirs):
        side.ask("steps 2")
        steps.append(max(1, round(options.seconds / max(1e-4, side.ask("steps 2")["seconds"] / 2))))
    times = ([], [])
    for round_ in range(options.rounds):
        for which in ((0, 1), (1, 0))[round_ % 2]:
            side = (ours, theirs)[which]
            times[which].append(side.ask(f"steps {steps[which]}")["seconds"] / steps[which])
    ours.close()
    theirs.close()
    medians = [statistics.median(t) for t in times]
    ratios = sorted(b / a for a, b in zip(*times))
    ratio = statistics.median(ratios)
    print(f"{name:24} batch {batch:4}  ours {medians[0] * 1e3:9.2f} ms  PyTorch "
          f"{medians[1] * 1e3:9.2f} ms  {ratio:5.2f} times ({ratios[0]:.2f} to {ratios[-1]:.2f})  "
          f"gradients differ by {check['difference']:.1e} ({check['tensor']})"
          f"{'' if right else '  NOT THE SAME'}",
          flush=True)
    return ratio, right


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--python", default="/usr/bin/python3", help="one that has PyTorch")
    parser.add_argument("models", nargs="*")
    options = parser.parse_args()
    models = options.models or sorted(path for path in PRESETS.glob("*.textproto")
                                      if path.stem not in TOO_LARGE)
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for path in models:
            ratio, right = compare(options, path, folder)
            if not right:
                return 1
            ratios.append(ratio)
    mean = math.exp(statistics.fmean(math.log(r) for r in ratios))
    print(f"geometric mean of {len(ratios)}: {mean:.2f} times")
    return 0


if __name__ == "__main__":
    sys.exit(main())
