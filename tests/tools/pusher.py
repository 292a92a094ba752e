"""A process that pushes to a cluster's job, and its books: tests/cluster/ledger_pusher.cc."""

import collections
import mmap
import pathlib
import struct
import subprocess

PROGRAM = "tests/cluster/ledger_pusher"

Books = collections.namedtuple("Books", "worker incarnation sent acknowledged began")


class Pusher:
    """`flags` of the program."""

    def __init__(self, bin_dir, cluster, folder, place, flags, environment):
        self.place = place
        self.path = pathlib.Path(folder) / f"ledger-{place}"
        self.path.write_bytes(bytes(40))
        self.killed = False
        self._file = open(self.path, "rb")
        self._map = mmap.mmap(self._file.fileno(), 40, access=mmap.ACCESS_READ)
        self.errors = pathlib.Path(folder) / f"errors-{place}"
        with open(self.errors, "w") as errors:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", pathlib.Path(bin_dir) / PROGRAM,
                 f"--cluster={cluster.path}", f"--place={place}", f"--ledger={self.path}",
                 *flags],
                stdout=subprocess.DEVNULL, stderr=errors, stdin=subprocess.DEVNULL,
                env=environment)

    def books(self):
        return Books(*struct.unpack("<5Q", self._map[:40]))

    def kill(self):
        self.killed = True
        self.process.kill()
        self.process.wait()
