#!/usr/bin/python3
"""What credentials cost: Downpour through TLS beside the same without, and how fast others join.

    tests/benchmarks/secured_training.py [--rounds=7] [--quick] [--joins=300]

One ps and two one-thread workers train LeNet over TCP on the loopback, in a cluster whose tasks
prove who they are and in one whose tasks do not, in turns; shared memory is off in both. Each run
must end SUCCEEDED, have processed all its examples and have learnt something, and the ports must
speak TLS, or must not. Then so many join that cluster one after the other, each with a key of its
own, by calls of the command, with a token that counts for all of them; all must be members then.
"""

import json
import os
import pathlib
import socket
import ssl
import subprocess
import sys
import time

import measure
from measure import Row, at_least, median_of, paired

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from local_cluster import ROOT, LocalCluster, poll, training_seconds  # noqa: E402
from tasks import free_ports  # noqa: E402

JOB = ROOT / "configs/job/lenet_downpour.textproto"
EXAMPLES = 60_000
WORKERS = 2
BATCH = 128
EPOCHS, QUICK_EPOCHS, FIRST_EPOCHS = 2, 0.1, 0.1
LEAST_ACCURACY = 0.5
JOINS, QUICK_JOINS = 300, 5


def speaks_tls(port):
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as raw:
            with context.wrap_socket(raw):
                return True
    except (ssl.SSLError, ConnectionError):
        return False


class TcpCluster(LocalCluster):
    """As LocalCluster, on ports of the loopback, where `up` makes credentials unless told not to."""

    def __init__(self, tls):
        super().__init__(ps=1, workers=WORKERS, extra_flags=[] if tls else ["--insecure"],
                         environment={"MONSOON_TRANSPORT": "grpc",
                                      "MONSOON_INSECURE": None if tls else "1"})
        self.credentials = pathlib.Path(self._directory.name) / "credentials"
        self._environment["MONSOON_CREDENTIALS"] = str(self.credentials)
        self.tls = tls
        self.ports = free_ports(2 + WORKERS)
        coordinator, ps, *workers = [f'address: "127.0.0.1:{port}"' for port in self.ports]
        self.path.write_text("\n".join(
            [f'name: "secured-{os.getpid()}"', "open: true",
             f"coordinator {{ {coordinator} }}", f"ps {{ {ps} }}",
             *[f"worker {{ {worker} threads: 1 device: CPU }}" for worker in workers]]) + "\n")
        self.address = f"127.0.0.1:{self.ports[0]}"

    def __enter__(self):
        super().__enter__()
        for port in self.ports[:2]:
            if not poll(lambda port=port: speaks_tls(port) == self.tls, timeout_s=10):
                raise RuntimeError(f"port {port} {'does not speak' if self.tls else 'speaks'} TLS")
        return self

    def _call(self, *words, credentials=None):
        environment = {**self._environment,
                       "MONSOON_CREDENTIALS": str(credentials or self.credentials)}
        return subprocess.run([self._coordinator, *words, *(
            [] if credentials else [f"--cluster={self.path}"])], env=environment, text=True,
            stdin=subprocess.DEVNULL, capture_output=True, check=True).stdout

    def _cpu_seconds(self):
        """Of all tasks so far, ended ones' excepted."""
        children = pathlib.Path(f"/proc/{self._up.pid}/task/{self._up.pid}/children").read_text()
        stats = [pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                 for pid in children.split()]
        return sum(int(stat[11]) + int(stat[12]) for stat in stats) / os.sysconf("SC_CLK_TCK")

    def rate(self, epochs):
        """Samples per second of time, and per second that its tasks' threads ran."""
        before = self._cpu_seconds()
        description = self.run(JOB, {
            "batch_size": BATCH, "stop.epochs": epochs, "downpour.workers": WORKERS,
            "evaluation.every_epochs": 1000})
        if description["progress"]["examples"] < int(EXAMPLES * epochs):
            raise RuntimeError(f"{description['progress']['examples']} of "
                               f"{EXAMPLES * epochs} examples")
        if epochs >= EPOCHS and description["final"]["test_accuracy"] < LEAST_ACCURACY:
            raise RuntimeError(f"it did not learn: {description['final']}")
        examples = description["progress"]["examples"]
        return (examples / training_seconds(description),
                examples / (self._cpu_seconds() - before))

    def joins_a_minute(self, count):
        folders = [self.credentials.parent / f"joiner-{i}" for i in range(count)]
        invitation = self._call("token", "create", "--role=worker", f"--uses={count}").split()[2]
        began = time.monotonic()
        for i, folder in enumerate(folders):
            self._call("join", invitation, f"--name=joiner-{i}", credentials=folder)
        seconds = time.monotonic() - began
        members = json.loads(self._call("member", "list", "--json"))["members"]
        names = {member["member"] for member in members}
        missing = [i for i in range(count) if f"worker/joiner-{i}" not in names]
        if missing:
            raise RuntimeError(f"{len(missing)} of {count} are no members: {names}")
        return 60 * count / seconds


def measure_secured(options):
    epochs = QUICK_EPOCHS if options.quick else EPOCHS
    joins = getattr(options, "joins", None) or (QUICK_JOINS if options.quick else JOINS)
    rates = {True: [], False: []}
    joined = []
    with TcpCluster(tls=False) as plain, TcpCluster(tls=True) as secured:
        clusters = {False: plain, True: secured}
        for cluster in clusters.values():
            cluster.rate(FIRST_EPOCHS)  # the workers read their data
        for number_of_round in range(options.rounds):
            for tls in (True, False) if number_of_round % 2 else (False, True):
                rates[tls].append(clusters[tls].rate(epochs))
            measure.log(f"secured round {number_of_round + 1}: samples a second, and a CPU second: "
                        f"plain {rates[False][-1]}, TLS {rates[True][-1]}")
        joined.append(secured.joins_a_minute(joins))
    (fast, lean), (plain_fast, plain_lean) = (zip(*rates[tls]) for tls in (True, False))
    row = {"size": f"batch {BATCH}", "threads": f"{WORKERS} workers", "wanted": at_least(0.95)}
    return [Row("Downpour LeNet through TLS, TCP on the loopback", **row, unit="samples/s",
                ours=median_of(fast), reference=f"plain {median_of(plain_fast)}",
                ratios=paired(fast, plain_fast)),
            Row("the same by CPU seconds of all tasks", **row, unit="samples/CPU s",
                ours=median_of(lean), reference=f"plain {median_of(plain_lean)}",
                ratios=paired(lean, plain_lean)),
            Row("who joins, by `coordinator join`, over 300 a minute", size=f"{joins} in all",
                threads="one after another", unit="joins/min", ours=median_of(joined),
                ratios=[rate / JOINS for rate in joined], wanted=at_least(1))]


def add_options(parser):
    parser.add_argument("--joins", type=int, help=f"how many join; {JOINS} unless --quick")


def main():
    parser = measure.options_parser(__doc__)
    add_options(parser)
    measure.run_program(measure_secured, parser)


if __name__ == "__main__":
    main()
