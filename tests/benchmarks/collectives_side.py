"""One member of a group of torch.distributed with gloo, asked as collective_benchmark is:

    python collectives_side.py FOLDER RANK MEMBERS

A line BYTES ALGORITHM ORDER CALLS is answered by {"seconds": [...], "correct": true}; the words
in the middle mean nothing to gloo, which has one algorithm.
"""

import json
import os
import sys
import time

import torch
import torch.distributed


def main(folder, rank, members):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/gloo", rank=rank,
                                         world_size=members)
    for line in sys.stdin:
        size, _, _, calls = line.split()
        pattern = torch.arange(int(size) // 4).remainder(251).float()
        together = torch.ones(1)
        seconds, correct = [], True
        for _ in range(int(calls)):
            values = pattern * (rank + 1)
            torch.distributed.all_reduce(together)
            start = time.perf_counter()
            torch.distributed.all_reduce(values)
            seconds.append(time.perf_counter() - start)
            correct &= bool(torch.equal(values, pattern * (members * (members + 1) // 2)))
        print(json.dumps({"seconds": seconds, "correct": correct}), flush=True)
    # Its own end waits for the others.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
