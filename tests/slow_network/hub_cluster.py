"""A coordinator and parameter servers at the hub of shaped links, started one by one as on
machines of their own: `coordinator up` starts only what others cannot reach."""

import pathlib
import subprocess

from tests.slow_network.shaped_link import HUB
from tests.tools.local_cluster import LocalCluster, end

# Nobody else is in the script's network namespace.
_FIRST_PORT = 2221


class HubCluster(LocalCluster):
    """As LocalCluster; stop() and start() again are not for it."""

    def __init__(self, bin_dir, ps=1, settings=()):
        super().__init__(ps=ps, workers=0, bin_dir=bin_dir, settings=settings,
                         environment={"MONSOON_TRANSPORT": "grpc"})
        self.address = f"{HUB}:{_FIRST_PORT}"
        servers = [f'ps {{ address: "{HUB}:{_FIRST_PORT + 1 + i}" }}' for i in range(ps)]
        self.path.write_text("\n".join([f'coordinator {{ address: "{self.address}" }}', *servers,
                                        *settings]) + "\n")
        server = pathlib.Path(bin_dir) / "ps_server" / "ps_server"
        self._commands = [[self._coordinator, "serve"],
                          *([server, f"--task={i}"] for i in range(ps))]
        self._tasks = []

    def start(self):
        with open(self.log_path, "w", encoding="utf-8") as log:
            self._tasks = [
                subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command, "--insecure",
                                  f"--cluster={self.path}"], stdout=log, stderr=log,
                                 stdin=subprocess.DEVNULL, env=self._environment)
                for command in self._commands]
        try:
            self._await_answer(self._tasks)
        except RuntimeError:
            self.stop()
            raise

    def stop(self):
        end(*reversed(self._tasks))
