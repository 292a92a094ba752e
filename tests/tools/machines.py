"""Machines of this machine: each has a network, a host name and an /etc/hosts of its own, and a
line to each other one. What runs on them shares the disk.

    if not machines.refusal():
        with Machines("alpha", "beta") as both:
            subprocess.run([*both.on("beta"), "ping", "-c1", "alpha"])

Lines are pairs of veth devices between network namespaces that have no names: they end with the
script, killed or not.
"""

import contextlib
import itertools
import pathlib
import subprocess
import tempfile

_NETWORK = "10.214.0"
_OWN = ["--net", "--uts", "--mount"]


def refusal():
    """Why this machine makes no machines for us; "" where it does."""
    tried = subprocess.run(["unshare", *_OWN, "sh", "-c",
                            "hostname try && ip link add try0 type veth peer name try1"],
                           capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else f"no namespaces with veth ({tried.stderr.strip()})"


class Machines:
    """Thread safety: none."""

    def __init__(self, *names):
        self.names = names
        self._ends = contextlib.ExitStack()
        self._holders = {}

    def __enter__(self):
        with contextlib.ExitStack() as ends:
            folder = pathlib.Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="monsoon-")))
            hosts = folder / "hosts"
            hosts.write_text("127.0.0.1 localhost\n" + "".join(
                f"{self.address(name)} {name}\n" for name in self.names))
            for name in self.names:
                self._holders[name] = ends.enter_context(self._hold(name, hosts))
            for a, b in itertools.combinations(self.names, 2):
                self._connect(a, b)
            self._ends = ends.pop_all()
        return self

    def __exit__(self, *unused):
        self._ends.close()

    def address(self, name):
        return f"{_NETWORK}.{self.names.index(name) + 1}"

    def on(self, name):
        """What a command line begins with to run there. The process ends with this script."""
        return ["setpriv", "--pdeathsig", "KILL", "nsenter", f"--target={self._holders[name].pid}",
                *_OWN]

    def cut(self, a, b, cut=True):
        """Nothing gets from one to the other any more, and a is not told; cut=False: again."""
        subprocess.run([*self.on(b), "ip", "link", "set", f"to-{a}", "down" if cut else "up"],
                       check=True)
        if not cut:
            self._route(b, a)

    @contextlib.contextmanager
    def _hold(self, name, hosts):
        holder = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", *_OWN, "sh", "-c",
             f"hostname {name} && mount --bind {hosts} /etc/hosts && ip link set lo up && "
             "echo made && exec sleep infinity"], stdout=subprocess.PIPE, text=True)
        try:
            if holder.stdout.readline().strip() != "made":
                raise RuntimeError(f"{name}: unshare made no machine")
            yield holder
        finally:
            holder.kill()
            holder.wait()

    def _connect(self, a, b):
        subprocess.run([*self.on(a), "ip", "link", "add", f"to-{b}", "type", "veth", "peer", "name",
                        f"to-{a}", "netns", str(self._holders[b].pid)], check=True)
        for here, there in ((a, b), (b, a)):
            device = f"to-{there}"
            subprocess.run([*self.on(here), "ip", "address", "add", self.address(here), "peer",
                            self.address(there), "dev", device], check=True)
            subprocess.run([*self.on(here), "ip", "link", "set", device, "up"], check=True)

    def _route(self, a, b):
        """The kernel forgets it with a device that goes down."""
        subprocess.run([*self.on(a), "ip", "route", "replace", self.address(b), "dev", f"to-{b}",
                        "src", self.address(a)], check=True)
