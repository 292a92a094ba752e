"""One of the processes that run the idioms: idioms_program.py ADDRESS NUMBER COUNT. A line of JSON
for each case: the idiom's name, the way, and what came of it."""

import json
import sys

import torch

import idioms
import idioms_groups  # noqa: F401
import idioms_loops  # noqa: F401
import idioms_memory  # noqa: F401
import idioms_models  # noqa: F401
import idioms_values  # noqa: F401

if __name__ == "__main__":
    torch.set_num_threads(1)
    address, number, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    for name, way in idioms.cases()[number::count]:
        outcome = idioms.outcome(idioms.IDIOMS[name], way, address)
        print(json.dumps([name, way, outcome]), flush=True)
