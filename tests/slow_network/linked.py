"""Programs behind slow links."""

import json
import pathlib
import subprocess
import sys
import threading

from tests.tools.local_cluster import end
from tests.tools.programs import program_environment

PROGRAM = pathlib.Path(__file__).with_name("linked_program.py")


class Program:
    """One behind a link; what it tells is kept with the link's count at that moment."""

    def __init__(self, links, number, bin_dir, cluster, way, settings):
        """`settings` of the program; it enters the job "link" of the hub's cluster."""
        self._links, self._number = links, number
        self.told = {}
        self.seen = threading.Condition()
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *links.inside(number), sys.executable,
             str(PROGRAM), cluster.address, "link", way, json.dumps(settings)],
            stdout=subprocess.PIPE, text=True,
            env=program_environment(bin_dir, MONSOON_TRANSPORT="grpc"))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            told = json.loads(line)
            with self.seen:
                self.told[told["at"]] = {**told, "link": self._links.count(self._number)}
                self.seen.notify_all()
        with self.seen:
            self.told["closed"] = {}
            self.seen.notify_all()

    def await_told(self, what, timeout_s):
        with self.seen:
            self.seen.wait_for(lambda: what in self.told or "closed" in self.told, timeout_s)
            if what not in self.told:
                raise RuntimeError(f"program {self._number} does not get to {what!r}; it told "
                                   f"{list(self.told)}")
            return self.told[what]

    def end(self):
        end(self.process)
