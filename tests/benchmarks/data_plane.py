#!/usr/bin/python3
"""The data plane and Adagrad against the machine's limits, by
data_plane_limits (C++, in this folder).

    tests/benchmarks/data_plane.py [--rounds=7] [--quick] [--only=kernel,transfer]

Groups: kernel, transfer, call, connections.
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

PROGRAM = BIN / "tests/benchmarks/data_plane_limits"
GROUPS = ("kernel", "transfer", "call", "connections")


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
        seconds = statistics.median(self.column(contender))
        return (f"{contender.replace('_', ' ')} {number(self.bytes / seconds / 1e9)} GB/s"
                f" ({self.cpu_words(contender, 1e9 / self.bytes)} CPU s/GB)")

    def cpu_words(self, contender, factor):
        """CPU seconds per operation times `factor`: of the client and, where
        there is one, of the server."""
        sides = [factor * statistics.median(self.column(contender, key))
                 for key in ("client_cpu", "server_cpu")]
        return " + ".join(number(side) for side in sides if side > 0)


def speed_row(work, workload, contender, limit, wanted):
    """How fast `contender` is, as a share of `limit`."""
    if workload.why_not(contender):
        return Row(work, limit=workload.rate(limit), wanted=wanted,
                   why=workload.why_not(contender))
    return Row(work, workload.rate(contender), workload.rate(limit),
               paired(workload.column(limit), workload.column(contender)), wanted)


def kernel_rows(workloads):
    for millions in (10, 100):
        for threads in (1, 2):
            workload = workloads[f"adagrad_{millions}M_{threads}T"]
            limit = measure.best({name: workload.column(name) for name in workload.names()
                                  if name.startswith("in_place_")})
            plural = "s" if threads > 1 else ""
            yield speed_row(f"Adagrad, {millions}M parameters, {threads} thread{plural}", workload,
                            "product", limit, at_least(0.95))


def transfer_rows(workloads):
    for mib in (16, 64):
        fetch, push = workloads[f"fetch_{mib}MiB"], workloads[f"push_{mib}MiB"]
        yield speed_row(f"fetch over gRPC, {mib} MiB", fetch, "grpc", "tcp", at_least(0.60, 0.65))
        yield speed_row(f"push over gRPC with Adagrad, {mib} MiB", push, "grpc", "tcp",
                        at_least(0.45, 0.55))
        work = f"fetch over shared memory, {mib} MiB"
        yield speed_row(work, fetch, "shared_memory", "memcpy", at_least(0.80))
        yield speed_row(work, fetch, "shared_memory", "grpc", at_least(2.5))
        yield speed_row(f"push over shared memory with Adagrad, {mib} MiB", push, "shared_memory",
                        "tcp", at_least(1.5 if mib == 16 else 1.25))
        yield Row(f"CPU seconds per GB fetched over gRPC, both sides, {mib} MiB",
                  cpu_per_gb(fetch, "grpc"), cpu_per_gb(fetch, "tcp"),
                  paired(fetch.cpu("grpc"), fetch.cpu("tcp")), at_most(1.6))
    step = workloads["step_speech"]
    for transport, name in (("grpc", "gRPC"), ("shared_memory", "shared memory")):
        row = speed_row(f"speech-size model (41,777,152), fetch + push over {name}", step,
                        transport, "tcp", None)
        row.limit = f"tcp {per_second(step, 'tcp')}"
        if not row.why:
            row.value = f"{transport.replace('_', ' ')} {per_second(step, transport)}"
        yield row


def cpu_per_gb(workload, name):
    return f"{name} {number(statistics.median(workload.cpu(name)) / workload.bytes * 1e9)} CPU s/GB"


def per_second(workload, name):
    return (f"{number(1 / statistics.median(workload.column(name)))} per s "
            f"({workload.cpu_words(name, 1)} CPU s each)")


def call_rows(workloads):
    workload = workloads["call_64B"]

    def microseconds(name):
        return [1e6 * seconds for seconds in workload.column(name)]

    def words(name):
        return (f"{name.replace('_', ' ')} {number(statistics.median(microseconds(name)))} us "
                f"({workload.cpu_words(name, 1e6)} CPU us)")

    yield Row("round trip of a 64-byte fetch over gRPC", words("grpc"), words("bare_call"),
              paired(workload.column("grpc"), workload.column("bare_call")), at_most(1.1))
    work = "round trip of a 64-byte fetch over shared memory, microseconds"
    if workload.why_not("shared_memory"):
        yield Row(work, wanted=at_most(10), why=workload.why_not("shared_memory"))
    else:
        yield Row(work, words("shared_memory"), "", microseconds("shared_memory"), at_most(10))


def connection_rows(workloads):
    workload = workloads["connections"]

    def rate(name):
        return (f"{name} clients {number(1 / statistics.median(workload.column(name)))} pushes/s "
                f"({workload.cpu_words(name, 1e6)} CPU us each)")

    yield Row("256 client connections on one shard, pushes of 4 KiB", rate("256"), rate("8"),
              paired(workload.column("8"), workload.column("256")), at_least(0.8))
    peak, budget = workload.facts["peak_bytes"], workload.facts["budget_bytes"]
    yield Row("256 client connections, the shard's memory over what it was",
              f"{peak / 2**20:.0f} MiB", f"message_memory {budget / 2**20:.0f} MiB",
              [peak / budget], at_most(1))


ROWS = {"kernel": kernel_rows, "transfer": transfer_rows, "call": call_rows,
        "connections": connection_rows}


def rows_of(output, groups):
    """The rows that the program's output, a JSON text, gives for `groups`."""
    workloads = {entry["name"]: Workload(entry) for entry in json.loads(output)["workloads"]}
    return [row for group in groups for row in ROWS[group](workloads)]


def measure_groups(options, groups):
    command = [PROGRAM, f"--rounds={options.rounds}", f"--only={','.join(groups)}"]
    if options.quick:
        command.append("--quick")
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True,
                            stdin=subprocess.DEVNULL).stdout
    return rows_of(output, groups)


def main():
    parser = measure.options_parser(__doc__)
    parser.add_argument("--only", default=",".join(GROUPS))
    measure.run_program(lambda options: measure_groups(options, options.only.split(",")), parser)


if __name__ == "__main__":
    main()
