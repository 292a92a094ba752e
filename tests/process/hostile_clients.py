"""Clients that mean harm, against the real programs on TCP: connections until no descriptors are
left, calls that are taken back as fast as they are made, and calls whose request never comes. The
tasks go on; their threads do not grow, others are served meanwhile, and all is as before at the
end.
"""

import json
import os
import pathlib
import resource
import socket
import subprocess
import tempfile
import threading
import time

from tests.tools import http2
from tests.tools.local_cluster import COORDINATOR, end, poll
from tests.tools.tasks import children_by_name, free_ports

TASKS = ("coordinator", "ps", "worker")
FILES = 512  # what each task may have open
METHODS = {"coordinator": ("/monsoon.ReplicaService/NextWork", "/monsoon.JobService/List",
                           "/monsoon.JobService/None"),
           "ps": ("/monsoon.ParameterServer/GetStatus",)}
RESET_S = 4.0
BURST = 50
# Of an honest call meanwhile, on a machine whose cores the hostile clients take as well.
LONGEST_CALL_S = 4.0
# Those that serve calls, at most, beside the ones that a task has at rest.
MORE_THREADS = 128
MORE_MIB = 400
PROCESSES = {"coordinator": "coordinator", "ps": "ps_server", "worker": "worker"}


class TcpCluster:
    """A coordinator, a ps and a worker, each with few descriptors."""

    def __init__(self, bin_dir):
        self._folder = tempfile.TemporaryDirectory(prefix="monsoon-")
        folder = pathlib.Path(self._folder.name)
        self.ports = dict(zip(TASKS, free_ports(len(TASKS))))
        self._file = folder / "cluster.textproto"
        self._file.write_text(
            'name: "hostile"\n' +
            "".join(f'{task} {{ address: "127.0.0.1:{port}" }}\n'
                    for task, port in self.ports.items()))
        self.log = folder / "up.log"
        self._coordinator = bin_dir / COORDINATOR
        environment = {**os.environ, "MONSOON_STATE_DIR": str(folder / "state")}
        with open(self.log, "w") as log:
            self._up = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", "prlimit", f"--nofile={FILES}:{FILES}",
                 self._coordinator, "up", f"--cluster={self._file}", "--insecure"],
                stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment)
        if not poll(self.answers):
            raise RuntimeError(f"the cluster did not come up:\n{self.log.read_text()}")
        self.pids = self.find()

    def find(self):
        names = children_by_name(self._up)
        return {task: names[process] for task, process in PROCESSES.items()}

    def troubles(self):
        """Why others may not reach tasks, as the coordinator has heard of them."""
        listed = subprocess.run([self._coordinator, "tasks", "--json", f"--cluster={self._file}"],
                                capture_output=True, text=True, stdin=subprocess.DEVNULL,
                                timeout=60).stdout
        return {task["task"].split("/")[0]: task["trouble"]
                for task in json.loads(listed or '{"tasks": []}')["tasks"] if "trouble" in task}

    def answers(self):
        return subprocess.run([self._coordinator, "jobs", f"--cluster={self._file}"],
                              capture_output=True, stdin=subprocess.DEVNULL,
                              timeout=60).returncode == 0

    def figures(self, task):
        """Threads, and MiB of resident memory."""
        lines = pathlib.Path(f"/proc/{self.pids[task]}/status").read_text().splitlines()
        told = dict(line.split(":", 1) for line in lines)
        return int(told["Threads"]), int(told["VmRSS"].split()[0]) >> 10

    def greets(self, task):
        """A new connection gets the server's settings."""
        try:
            with http2.connect("127.0.0.1", self.ports[task]) as connection:
                return bool(connection.recv(1))
        except OSError:
            return False

    def stop(self):
        end(self._up, timeout_s=60)
        self._folder.cleanup()


def exhaust_descriptors(checks, cluster, task):
    connections = [socket.create_connection(("127.0.0.1", cluster.ports[task]))
                   for _ in range(FILES + 80)]
    connections[-1].settimeout(10)
    try:
        refused = connections[-1].recv(1) == b""
    except ConnectionError:
        refused = True
    except TimeoutError:
        refused = False
    checks.check(f"{task} closes a connection for which it has no descriptor", refused)
    open_files = len(os.listdir(f"/proc/{cluster.pids[task]}/fd"))
    checks.check(f"{task} keeps descriptors for itself", open_files <= FILES - 32, open_files)
    if task != "coordinator":  # which nobody can ask now
        told = poll(lambda: cluster.troubles().get(task, ""), 20)
        checks.check(f"`tasks` says that {task} takes none", "takes no new" in (told or ""), told)
    for connection in connections:
        connection.close()
    checks.check(f"{task} takes connections again", poll(lambda: cluster.greets(task), 20))
    checks.check(f"{task} is in no trouble any more", poll(lambda: not cluster.troubles(), 30))
    checks.check(f"{task} says so", "takes no new connections" in cluster.log.read_text())


class Resets(threading.Thread):
    """Makes calls and takes them back, until it is told to stop; connects anew when cut off."""

    def __init__(self, port, method):
        super().__init__(daemon=True)
        self._port, self._method = port, method
        self.calls = 0
        self.stopped = threading.Event()

    def run(self):
        while not self.stopped.is_set():
            try:
                with http2.connect("127.0.0.1", self._port) as connection:
                    self._call(connection)
            except OSError:
                pass

    def _call(self, connection):
        threading.Thread(target=self._drain, args=(connection,), daemon=True).start()
        stream = 1
        while not self.stopped.is_set():
            connection.sendall(b"".join(http2.reset_call(self._method, stream + 2 * i)
                                        for i in range(BURST)))
            stream += 2 * BURST
            self.calls += BURST

    @staticmethod
    def _drain(connection):
        try:
            while connection.recv(1 << 16):
                pass
        except OSError:
            pass


def take_back_calls(checks, cluster):
    before = {task: cluster.figures(task) for task in METHODS}
    most = dict(before)
    hostile = [Resets(cluster.ports[task], method)
               for task, methods in METHODS.items() for method in methods]
    for one in hostile:
        one.start()
    longest, answered, stop_at = 0.0, [], time.monotonic() + RESET_S
    while time.monotonic() < stop_at:
        began = time.monotonic()
        answered.append(cluster.answers())
        longest = max(longest, time.monotonic() - began)
        for task in METHODS:
            most[task] = tuple(map(max, most[task], cluster.figures(task)))
    for one in hostile:
        one.stopped.set()
    for one in hostile:
        one.join()
    calls = sum(one.calls for one in hostile)
    checks.check("calls are taken back", calls > 1000, calls)
    checks.check("others are served meanwhile", all(answered), answered)
    checks.check("and soon", longest <= LONGEST_CALL_S, longest)
    for task in METHODS:
        threads, mib = (after - at_rest for after, at_rest in zip(most[task], before[task]))
        checks.check(f"threads of {task} have a bound", threads <= MORE_THREADS, threads)
        checks.check(f"memory of {task} stays small", mib <= MORE_MIB, mib)
    print(f"{calls} calls taken back in {RESET_S:g} s; the longest of {len(answered)} honest "
          f"commands took {longest:.2f} s; threads and MiB: " +
          ", ".join(f"{task} {before[task]} to {most[task]}" for task in METHODS))


def hold_back_requests(checks, cluster):
    before = cluster.figures("coordinator")
    connections = []
    for _ in range(FILES // 4):
        connection = http2.connect("127.0.0.1", cluster.ports["coordinator"])
        connection.sendall(b"".join(http2.open_call(METHODS["coordinator"][0], 1 + 2 * i)
                                    for i in range(16)))
        connections.append(connection)
    checks.check("others are served beside calls without requests", cluster.answers())
    after = cluster.figures("coordinator")
    checks.check("which take no threads", after[0] <= before[0] + 8, (before, after))
    for connection in connections:
        connection.close()


def run(checks, options):
    # The hostile clients are of this process.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4 * FILES), hard))
    cluster = TcpCluster(options.bin)
    try:
        for task in TASKS:
            exhaust_descriptors(checks, cluster, task)
        hold_back_requests(checks, cluster)
        take_back_calls(checks, cluster)
        checks.check("nobody has died", cluster.pids == cluster.find(), cluster.pids)
        checks.check("the cluster answers at the end", poll(cluster.answers, 20))
    finally:
        print("\n".join(cluster.log.read_text().splitlines()[-5:]))
        cluster.stop()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
