"""How much of a synchronous job's exchange is hidden behind its computation.

    python3 -m tests.slow_network.overlap_benchmark [--bin=DIR] [--batch=N] [--fuse_mib=M]
        [--share=F] [--delay_ms=D] [--steps=N] [--rounds=N] [--result=FILE]

Two workers with one thread each, behind a link of their own each (shaped_link.py), sum gradients of
14 MiB over gRPC; coordinator and parameter server are at the hub. The link is made so slow that an
exchange takes F times as long as a step computes. In turns, a job sums its gradient in one part,
which begins when all of it is computed, and in parts of M MiB, which begin as soon as they are
final. From the first, compute is what the workers tell, and exchange is the rest of a step. Prints,
round by round, the step in parts over max(compute, exchange); --result keeps all as JSON.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from tests.slow_network import shaped_link
from tests.slow_network.hub_cluster import HubCluster
from tests.tools.local_cluster import BIN, end, poll

PORT, MEMBERS, WHOLE = 2230, 2, 4096
PARAMETERS = 256 * 2048 + 2048 * 1024 + 1024 * 1024 + 1024 * 10
# An exchange that takes as long as its step computes is no failure.
SETTINGS = ["rpc_deadline_ms: 60000", "lost_after_ms: 15000", "heartbeat_ms: 500"]


def job_text(name, batch, steps, fuse_mib):
    hidden = "\n".join(f"  layer {{ dense {{ units: {units} }} }} layer {{ relu {{}} }}"
                       for units in (2048, 1024, 1024))
    return f"""
name: "{name}"
model {{
  name: "wide"
  input_shape: 256
{hidden}
  layer {{ dense {{ units: 10 }} }}
}}
train {{ synthetic {{ examples: {batch * steps * MEMBERS} classes: 10 seed: 1 }} }}
batch_size: {batch}
downpour {{ workers: {MEMBERS} optimizer {{ sgd {{ rate: 0.01 }} }} }}
synchronous {{ reduce: DIRECT fuse_mib: {fuse_mib} }}
stop {{ epochs: 1 }}
checkpoint {{ every_seconds: 3600 }}
"""


class Cluster(HubCluster):
    """With workers behind links."""

    def __init__(self, bin_dir, links):
        super().__init__(bin_dir, settings=[*SETTINGS, *(
            f'worker {{ address: "10.213.{i + 1}.2:{PORT}" threads: 1 device: CPU }}'
            for i in range(MEMBERS))])
        self._links = links
        self._worker = pathlib.Path(bin_dir) / "worker" / "worker"

    def start(self):
        super().start()
        with open(self.log_path, "a", encoding="utf-8") as log:
            self._workers = [
                subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *self._links.inside(i),
                                  self._worker, f"--task={i}", "--insecure",
                                  f"--cluster={self.path}"], stdout=log, stderr=log,
                                 stdin=subprocess.DEVNULL, env=self._environment)
                for i in range(MEMBERS)]

    def stop(self):
        end(*self._workers)
        super().stop()

    def seconds_a_step(self, text):
        """(of a step from end to end, of its computation) in a job of that text."""
        path = self.path.with_name("job.textproto")
        path.write_text(text)
        job = self.submit(path)
        seen = []

        def look():
            now = self.describe(job)
            updates = (now["synchronous"] or {"updates": 0})["updates"]
            if not seen or updates > seen[-1][1]:
                seen.append((time.monotonic(), updates))
            return now["state"] in ("SUCCEEDED", "FAILED", "CANCELLED") and now

        ended = poll(look, timeout_s=600)
        if not ended or ended["state"] != "SUCCEEDED":
            raise RuntimeError(f"{ended and ended['reason']}\n{self.log_path.read_text()[-3000:]}")
        # Times at which leases ended; the first steps make plans and connections.
        first = next(i for i, (_, updates) in enumerate(seen) if updates >= 5)
        (began, before), (ended_at, after) = seen[first], seen[-1]
        if after - before < 10:
            raise RuntimeError(f"too few steps to measure: {seen}")
        # Of a synchronous job, before its sum.
        compute = ended["latency_ms"]["step_p50"] / 1e3
        return (ended_at - began) / (after - before), compute


def measure(arguments):
    with shaped_link.ShapedLinks(MEMBERS, 10_000, 0.1) as links, \
            Cluster(arguments.bin, links) as cluster:
        _, compute = cluster.seconds_a_step(job_text("probe", arguments.batch, 20, WHOLE))
    mbit = 4 * PARAMETERS * 8 / (arguments.share * compute) / 1e6
    rounds = []
    with shaped_link.ShapedLinks(MEMBERS, mbit, arguments.delay_ms) as links, \
            Cluster(arguments.bin, links) as cluster:
        for number in range(arguments.rounds):
            whole, compute = cluster.seconds_a_step(
                job_text(f"whole-{number}", arguments.batch, arguments.steps, WHOLE))
            parts, _ = cluster.seconds_a_step(
                job_text(f"parts-{number}", arguments.batch, arguments.steps, arguments.fuse_mib))
            exchange = whole - compute
            rounds.append({"compute_s": compute, "exchange_s": exchange, "whole_s": whole,
                           "parts_s": parts, "ratio": parts / max(compute, exchange),
                           "hidden": (whole - parts) / min(compute, exchange)})
            print(", ".join(f"{name} {value:.3f}" for name, value in rounds[-1].items()),
                  flush=True)
    return {"mbit": round(mbit), "delay_ms": arguments.delay_ms, "batch": arguments.batch,
            "fuse_mib": arguments.fuse_mib, "parameters": PARAMETERS, "rounds": rounds,
            "cores": os.cpu_count(), "load_1min": round(os.getloadavg()[0], 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, default=BIN)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--fuse_mib", type=int, default=1)
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--delay_ms", type=float, default=0.5)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--result", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.bin = arguments.bin.resolve()
    if why := shaped_link.refusal():
        print(f"overlap_benchmark: {why}", file=sys.stderr)
        return 3
    shaped_link.enter_own_network()
    # The hub leads from one worker to the other.
    pathlib.Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    os.environ["MONSOON_INSECURE"] = "1"  # as the tasks are, whatever credentials there are
    result = measure(arguments)
    ratios = [one["ratio"] for one in result["rounds"]]
    print(f"a step in parts: {statistics.median(ratios):.2f} times max(compute, exchange) "
          f"({min(ratios):.2f} to {max(ratios):.2f}), {result['mbit']} Mbit/s")
    if arguments.result:
        arguments.result.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
