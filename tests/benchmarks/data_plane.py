#!/usr/bin/python3
"""The data plane and Adagrad against the machine's limits, by
data_plane_limits (C++, in this folder).

    tests/benchmarks/data_plane.py [--rounds=7] [--quick] [--filter=kernel,transfer]

Groups: kernel, transfer, secured, call, connections.
"""

import json
import os
import statistics
import subprocess
import sys

import measure
from measure import Row, at_least, at_most, number, paired

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from local_cluster import BIN  # noqa: E402

PROGRAM = "tests/benchmarks/data_plane_limits"
GROUPS = ("kernel", "transfer", "secured", "call", "connections")
# Of which the secured workloads have contenders.
CONNECTIONS = (1, 2, 4)


class Workload:
    """One entry of the program's output."""

    def __init__(self, entry):
        self.bytes = entry["bytes"]
        self.facts = entry["facts"]
        self._contenders = entry["contenders"]
        self._absent = entry["absent"]

    def column(self, contender, key="seconds"):
        return self._contenders[contender][key]

    def cpu(self, contender):
        """CPU seconds of both sides per operation, a value a round."""
        sides = self._contenders[contender]
        return [a + b for a, b in zip(sides["client_cpu"], sides["server_cpu"])]

    def names(self):
        return list(self._contenders)

    def why_not(self, contender):
        return self._absent.get(contender, "")

    def rate(self, contender):
        return number(self.bytes / statistics.median(self.column(contender)) / 1e9)

    def cpu_words(self, contender, limit, factor=None, unit="GB"):
        """CPU seconds of both, client and server added, by GB unless told."""
        factor = 1e9 / self.bytes if factor is None else factor
        return "/".join(number(factor * statistics.median(self.cpu(name)))
                        for name in (contender, limit)) + f" a {unit}"


def speed_row(row, workload, contender, limit, wanted):
    """How fast `contender` is, as a share of `limit`. `row`: what is known of it."""
    reference = f"{limit.replace('_', ' ')} {workload.rate(limit)}"
    if workload.why_not(contender):
        return Row(**row, reference=reference, unit="GB/s", wanted=wanted,
                   why=workload.why_not(contender))
    return Row(**row, ours=workload.rate(contender), reference=reference, unit="GB/s",
               ratios=paired(workload.column(limit), workload.column(contender)),
               cpu=workload.cpu_words(contender, limit), wanted=wanted)


def kernel_rows(workloads):
    for millions in (10, 100):
        for threads in (1, 2):
            workload = workloads[f"adagrad_{millions}M_{threads}T"]
            limit = measure.best({name: workload.column(name) for name in workload.names()
                                  if name.startswith("in_place_")})
            row = {"workload": "Adagrad", "size": f"{millions}M parameters",
                   "threads": str(threads)}
            yield speed_row(row, workload, "product", limit, at_least(0.95))


def transfer_rows(workloads):
    for mib in (16, 64):
        fetch, push = workloads[f"fetch_{mib}MiB"], workloads[f"push_{mib}MiB"]

        def row(workload, size=f"{mib} MiB"):
            return {"workload": workload, "size": size, "threads": "1 client"}

        yield speed_row(row("fetch over gRPC"), fetch, "grpc", "tcp", at_least(0.60, 0.65))
        yield speed_row(row("push over gRPC with Adagrad"), push, "grpc", "tcp",
                        at_least(0.45, 0.55))
        shared = row("fetch over shared memory")
        yield speed_row(shared, fetch, "shared_memory", "memcpy", at_least(0.80))
        yield speed_row(shared, fetch, "shared_memory", "grpc", at_least(2.5))
        yield speed_row(row("push over shared memory with Adagrad"), push, "shared_memory",
                        "tcp", at_least(1.5 if mib == 16 else 1.25))
        yield Row(**row("CPU seconds of a fetch over gRPC, both sides"),
                  ours=cpu_per_gb(fetch, "grpc"), reference=f"tcp {cpu_per_gb(fetch, 'tcp')}",
                  unit="CPU s/GB", ratios=paired(fetch.cpu("grpc"), fetch.cpu("tcp")),
                  cpu=fetch.cpu_words("grpc", "tcp"), wanted=at_most(1.6))
    step = workloads["step_speech"]
    for transport, name in (("grpc", "gRPC"), ("shared_memory", "shared memory")):
        row = speed_row({"workload": f"fetch + push, speech-size model, over {name}",
                         "size": "41,777,152 parameters", "threads": "1 client"},
                        step, transport, "tcp", None)
        row.unit, row.reference = "per s", f"tcp {per_second(step, 'tcp')}"
        if not row.why:
            row.ours = per_second(step, transport)
            row.cpu = step.cpu_words(transport, "tcp", 1, "step")
        yield row


def secured_rows(workloads):
    """TLS beside plain by as many connections, and several connections beside one."""
    for kind in ("fetch", "push"):
        for mib in (16, 64):
            workload = workloads[f"secured_{kind}_{mib}MiB"]
            for count in CONNECTIONS:
                words = f"{count} connection{'s' if count > 1 else ''}"
                row = {"workload": f"{kind} over TLS, {words}", "size": f"{mib} MiB",
                       "threads": "1 client"}
                yield speed_row(row, workload, f"tls_{count}", f"plain_{count}",
                                at_least(0.8) if count > 1 else None)
            for name in ("plain", "tls"):
                for count in CONNECTIONS[1:]:
                    row = {"workload": f"{kind} by {count} connections, {name}",
                           "size": f"{mib} MiB", "threads": "1 client"}
                    yield speed_row(row, workload, f"{name}_{count}", f"{name}_1", None)


def cpu_per_gb(workload, name):
    return number(statistics.median(workload.cpu(name)) / workload.bytes * 1e9)


def per_second(workload, name):
    return number(1 / statistics.median(workload.column(name)))


def call_rows(workloads):
    workload = workloads["call_64B"]

    def microseconds(name):
        return [1e6 * seconds for seconds in workload.column(name)]

    def row(transport):
        return {"workload": f"round trip of a fetch over {transport}", "size": "64 bytes",
                "threads": "1 client", "unit": "us"}

    bare = f"bare call {measure.median_of(microseconds('bare_call'))}"
    yield Row(**row("gRPC"), ours=measure.median_of(microseconds("grpc")), reference=bare,
              ratios=paired(workload.column("grpc"), workload.column("bare_call")),
              cpu=workload.cpu_words("grpc", "bare_call", 1, "call"), wanted=at_most(1.1))
    shared = row("shared memory (ratio: microseconds)")
    if workload.why_not("shared_memory"):
        yield Row(**shared, wanted=at_most(10), why=workload.why_not("shared_memory"))
    else:
        yield Row(**shared, ours=measure.median_of(microseconds("shared_memory")),
                  ratios=microseconds("shared_memory"), wanted=at_most(10))


def connection_rows(workloads):
    workload = workloads["connections"]
    yield Row("pushes over gRPC to one shard", size="4 KiB", threads="256 clients",
              ours=per_second(workload, "256"), reference=f"8 clients {per_second(workload, '8')}",
              unit="pushes/s", ratios=paired(workload.column("8"), workload.column("256")),
              cpu=workload.cpu_words("256", "8", 1, "push"), wanted=at_least(0.8))
    peak, budget = workload.facts["peak_bytes"], workload.facts["budget_bytes"]
    yield Row("the shard's memory over what it was", size="4 KiB", threads="256 clients",
              ours=f"{peak / 2**20:.0f}", reference=f"message_memory {budget / 2**20:.0f}",
              unit="MiB", ratios=[peak / budget], wanted=at_most(1))


ROWS = {"kernel": kernel_rows, "transfer": transfer_rows, "secured": secured_rows,
        "call": call_rows, "connections": connection_rows}


def workloads_of(output):
    """{name: Workload} of the program's output, a JSON text."""
    return {entry["name"]: Workload(entry) for entry in json.loads(output)["workloads"]}


def rows_of(output, groups):
    """The rows that the program's output gives for `groups`."""
    workloads = workloads_of(output)
    return [row for group in groups for row in ROWS[group](workloads)]


def output_of(groups, rounds, quick, bin_dir=BIN):
    """The program's output."""
    command = [bin_dir / PROGRAM, f"--rounds={rounds}", f"--only={','.join(groups)}"]
    if quick:
        command.append("--quick")
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True,
                          stdin=subprocess.DEVNULL).stdout


def measure_groups(options, groups):
    return rows_of(output_of(groups, options.rounds, options.quick), groups)


def main():
    parser = measure.options_parser(__doc__)
    parser.add_argument("--filter", default=",".join(GROUPS))
    measure.run_program(lambda options: measure_groups(options, options.filter.split(",")), parser)


if __name__ == "__main__":
    main()
