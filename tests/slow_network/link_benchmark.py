"""How busy replicas are behind slow links, and what their links carry.

    python3 -m tests.slow_network.link_benchmark --way=WAY [--bin=DIR] [--parameters=N]
        [--every=H] [--replicas=N] [--step_s=S] [--cycles=N] [--mbit=R] [--delay_ms=D] [--ps=N]
        [--result=FILE]

Programs (linked_program.py) whose steps take S seconds run each behind a link of its own
(shaped_link.py: R Mbit/s each way, D ms each way), coordinator and servers at the hub, over gRPC.
From the middle of the time between the first two pushes, for N times H steps (of Downpour: for N
steps), it measures the time and the bytes of each link. busy is steps * S / time; in_calls is the
share of the time in calls of the package, and what is left are sleeps that end late; bytes are
Ethernet frames' with all headers. WAY is one of ways.py. Prints JSON; --result keeps it.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import sys

from tests.slow_network import shaped_link, ways
from tests.slow_network.hub_cluster import HubCluster
from tests.slow_network.linked import Program
from tests.tools.local_cluster import BIN

TENSORS = 24
# An exchange of the whole model has to end within rpc_deadline_ms, and by default that is 10 s.
SETTINGS = ["rpc_deadline_ms: 120000", "lost_after_ms: 15000"]


def marks_of(arguments):
    """Steps at which the measurement begins and ends: as far from pushes as can be."""
    if arguments.way == "downpour":
        return [2, 2 + arguments.cycles]
    every = arguments.every
    first = every + every // (2 * ways.fragments_of(arguments.way))
    return [first, first + arguments.cycles * every]


def measured(told, marks, arguments):
    """Of one program."""
    before, after = (told[mark] for mark in marks)
    link = after["link"].since(before["link"])
    steps, seconds = marks[1] - marks[0], after["time"] - before["time"]
    plain = 8 * arguments.parameters * steps
    counts = {name: round(after[name] - before[name], 3)
              for name in ("pushes", "fetches", "bytes_pushed", "bytes_fetched", "computing_s",
                           "stepping_s", "drawing_s", "cpu_program", "cpu_sidecar")}
    return {"steps": steps, "seconds": round(seconds, 3),
            "busy": round(steps * arguments.step_s / seconds, 4),
            "in_calls": round((counts["stepping_s"] + counts["drawing_s"]) / seconds, 4), **counts,
            "link": link._asdict(), "ip_bytes": link.ip_bytes(),
            "times_fewer_frames": round(plain / (link.up + link.down), 1),
            "times_fewer_ip": round(plain / link.ip_bytes(), 1),
            "sessions": after["sessions"]}


def run(arguments):
    marks = marks_of(arguments)
    settings = {"parameters": arguments.parameters, "tensors": TENSORS, "replicas":
                arguments.replicas, "step_s": arguments.step_s, "every": arguments.every,
                "marks": marks, "examples": 100 * marks[1] * arguments.replicas,
                "block": max(4, arguments.every // 4)}
    with shaped_link.ShapedLinks(arguments.replicas, arguments.mbit, arguments.delay_ms) as links, \
            HubCluster(arguments.bin, arguments.ps, SETTINGS) as cluster:
        programs = []
        try:
            programs = [Program(links, i, arguments.bin, cluster, arguments.way, settings)
                        for i in range(arguments.replicas)]
            for mark in ("in", *marks):
                for program in programs:
                    program.await_told(mark, arguments.patience_s)
                print(f"all at {mark}", file=sys.stderr, flush=True)
            cluster.command("cancel", "link-1")
            replicas = [measured(program.told, marks, arguments) for program in programs]
        except BaseException:
            print(cluster.log_path.read_text()[-4000:], file=sys.stderr)
            raise
        finally:
            for program in programs:
                program.end()
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        cpu = next((line.split(":")[1].strip() for line in info if line.startswith("model name")),
                   platform.processor())
    words = ("way", "parameters", "replicas", "ps", "every", "step_s", "mbit", "delay_ms")
    return {**{word: getattr(arguments, word) for word in words},
            "fragments": ways.fragments_of(arguments.way), "links": "namespaces, TUN, carrier",
            "busy": min(replica["busy"] for replica in replicas),
            "load_1min": round(os.getloadavg()[0], 1), "cores": os.cpu_count(), "cpu": cpu,
            "date": datetime.date.today().isoformat(), "each": replicas}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--way", choices=ways.WAYS, required=True)
    parser.add_argument("--bin", type=pathlib.Path, default=BIN)
    parser.add_argument("--parameters", type=int, default=25_000_000 // TENSORS * TENSORS)
    parser.add_argument("--every", type=int, default=224)
    parser.add_argument("--replicas", type=int, default=4)
    parser.add_argument("--ps", type=int, default=2)
    parser.add_argument("--step_s", type=float, default=0.05)
    parser.add_argument("--cycles", type=int, default=2)
    parser.add_argument("--mbit", type=float, default=100)
    parser.add_argument("--delay_ms", type=float, default=50)
    parser.add_argument("--patience_s", type=float, default=300)
    parser.add_argument("--result", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.bin = arguments.bin.resolve()
    if why := shaped_link.refusal():
        print(f"link_benchmark: {why}", file=sys.stderr)
        return 3
    shaped_link.enter_own_network()
    result = json.dumps(run(arguments), indent=1) + "\n"
    print(result, end="")
    if arguments.result:
        arguments.result.write_text(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
