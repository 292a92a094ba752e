"""What several connections to a parameter server gain behind a long link.

    python3 -m tests.slow_network.connections_benchmark [--bin=DIR] [--client=PROGRAM]
        [--mbit=R] [--delay_ms=D] [--mib=M] [--connections=1,2,4] [--rounds=N]

A ps_server at the hub, and behind a link (shaped_link.py: R Mbit/s and D ms each way) transfer_client,
which pushes and fetches M MiB over gRPC by so many connections in turns, and looks at what it gets.
Prints the medians of MB/s, and the ratios to one connection, round by round.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from tests.slow_network import shaped_link
from tests.tools.local_cluster import BIN, end, poll

PORT = 2222


def measure(arguments, folder):
    file, port_file = folder / "cluster.textproto", folder / "port"
    file.write_text(f'coordinator {{ address: "{shaped_link.HUB}:{PORT - 1}" }}\n'
                    f'ps {{ address: "{shaped_link.HUB}:{PORT}" }}\n')
    with shaped_link.ShapedLinks(1, arguments.mbit, arguments.delay_ms) as links, \
            open(folder / "log", "w", encoding="utf-8") as log:
        server = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", arguments.bin / "ps_server" / "ps_server",
             f"--cluster={file}", "--task=0", "--insecure", f"--port_file={port_file}"],
            stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            env={**os.environ, "MONSOON_STATE_DIR": ""})
        try:
            if not poll(lambda: port_file.exists() or server.poll() is not None) or \
                    server.poll() is not None:
                raise RuntimeError((folder / "log").read_text())
            told = subprocess.run(
                [*links.inside(0), arguments.client, f"--address={shaped_link.HUB}:{PORT}",
                 f"--mib={arguments.mib}", f"--connections={arguments.connections}",
                 f"--rounds={arguments.rounds}"], stdout=subprocess.PIPE, text=True, check=True)
            return json.loads(told.stdout)["ways"]
        finally:
            end(server)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, default=BIN)
    parser.add_argument("--client", type=pathlib.Path,
                        default=BIN / "tests" / "slow_network" / "transfer_client")
    parser.add_argument("--mbit", type=float, default=500)
    parser.add_argument("--delay_ms", type=float, default=25)
    parser.add_argument("--mib", type=int, default=16)
    parser.add_argument("--connections", default="1,2,4")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    arguments.bin, arguments.client = arguments.bin.resolve(), arguments.client.resolve()
    if why := shaped_link.refusal():
        print(f"connections_benchmark: {why}", file=sys.stderr)
        return 3
    shaped_link.enter_own_network()
    with tempfile.TemporaryDirectory(prefix="monsoon-") as folder:
        ways = measure(arguments, pathlib.Path(folder))
    size = arguments.mib * 2**20 / 1e6
    for kind in ("fetch", "push"):
        for way in ways:
            seconds = way[f"{kind}_s"]
            ratios = [one / other for one, other in zip(ways[0][f"{kind}_s"], seconds)]
            print(f"{kind} of {arguments.mib} MiB by {way['connections']}: "
                  f"{size / statistics.median(seconds):.1f} MB/s, "
                  f"{statistics.median(ratios):.2f} times the first "
                  f"({min(ratios):.2f} to {max(ratios):.2f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
