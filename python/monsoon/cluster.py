"""A cluster of real processes on this machine, for scripts that run alone and for tests."""

from __future__ import annotations

import os
import pathlib
import queue
import signal
import socket
import subprocess
import tempfile
import threading
import weakref
from types import TracebackType
from typing import Any, List, Optional, Sequence, Type

from . import _programs, _text
from .errors import MonsoonError, TimedOut

# `up` says so when all tasks serve.
_READY = "is ready:"
# Its own stop takes 30 s at most.
_STOP_S = 40.0


def free_ports(count: int) -> List[int]:
    """Ports of the loopback that nobody listened on just now, all different."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_STREAM) for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


class LocalCluster:
    """A coordinator, `ps` parameter servers and `workers` workers of ours, on free ports.

    A context manager; also ended when the object is collected and, whatever happens, with
    this process. `address` is the coordinator's, `path` the cluster file. state_dir: where
    jobs and checkpoints stay; None: a folder that goes with the cluster.
    settings: further lines of the cluster file (proto/cluster.proto).

    >>> import monsoon as ms
    >>> with ms.local_cluster(ps=2) as cluster:                       # doctest: +SKIP
    ...     job = ms.join(cluster.address, job="gpt", ...)
    """

    def __init__(self, ps: int = 1, workers: int = 0, *, state_dir: Optional[str] = None,
                 settings: Sequence[str] = (), timeout_s: float = 60.0) -> None:
        self._ps, self._workers, self._settings = ps, workers, list(settings)
        self._state_dir, self._timeout_s = state_dir, timeout_s
        self.address = ""
        self.path = ""
        self._log: "queue.SimpleQueue[Optional[str]]" = queue.SimpleQueue()
        self._stop: Any = None

    def start(self) -> "LocalCluster":
        """Returns when the cluster answers. Raises LibraryNotFound, TimedOut, or MonsoonError
        with what the cluster said."""
        if self._stop is not None and self._stop.alive:
            return self
        program = _programs.find("coordinator")
        folder = tempfile.TemporaryDirectory(prefix="monsoon-")
        self.path = str(pathlib.Path(folder.name) / "cluster.textproto")
        pathlib.Path(self.path).write_text(self._text(folder.name), encoding="utf-8")
        # A session of its own: Ctrl-C is for this program, which then stops the cluster.
        up = subprocess.Popen([program, "up", f"--cluster={self.path}", "--die_with_parent"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace",
                              start_new_session=True)
        self._stop = weakref.finalize(self, _stop, up, folder, os.getpid())
        threading.Thread(target=_read, args=(up.stdout, self._log), daemon=True,
                         name="monsoon-cluster").start()
        self._await_ready()
        return self

    def _text(self, folder: str) -> str:
        ports = free_ports(1 + self._ps + self._workers)
        addresses = [f"127.0.0.1:{port}" for port in ports]
        self.address = addresses[0]
        state = self._state_dir if self._state_dir is not None else os.path.join(folder, "state")
        return _text.write({
            "name": "local",  # one name, so that a state folder is found again
            "coordinator": {"address": self.address},
            "ps": [{"address": address} for address in addresses[1:1 + self._ps]],
            "worker": [{"address": address} for address in addresses[1 + self._ps:]],
            "state_dir": os.path.abspath(state),
        }) + "".join(line + "\n" for line in self._settings)

    def _await_ready(self) -> None:
        seen: List[str] = []
        deadline = threading.Event()
        log = self._log  # and not self: the timer must not keep a cluster alive
        timer = threading.Timer(self._timeout_s, lambda: (deadline.set(), log.put(None)))
        timer.start()
        try:
            while True:
                line = self._log.get()
                if line is None:
                    break
                seen.append(line)
                if _READY in line:
                    return
        except BaseException:
            self.stop()
            raise
        finally:
            timer.cancel()
        self.stop()
        said = "".join(seen[-20:])
        if deadline.is_set():
            raise TimedOut(f"the cluster did not come up within {self._timeout_s:g} s:\n{said}")
        raise MonsoonError(f"the cluster did not come up:\n{said}")

    def log(self) -> List[str]:
        """What the cluster has said since the last call."""
        lines = []
        while not self._log.empty():
            line = self._log.get()
            if line is not None:
                lines.append(line)
        return lines

    def stop(self) -> None:
        """Ends all its processes in order. Safe to repeat."""
        if self._stop is not None:
            self._stop()

    def __enter__(self) -> "LocalCluster":
        return self.start()

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.stop()


def local_cluster(ps: int = 1, workers: int = 0, **options: Any) -> LocalCluster:
    """LocalCluster(...), for `with monsoon.local_cluster(ps=2) as cluster:`."""
    return LocalCluster(ps, workers, **options)


def _read(stream: Any, lines: "queue.SimpleQueue[Optional[str]]") -> None:
    """Keeps the pipe empty, so that `up` never waits for a reader."""
    for line in stream:
        # Nobody may read for hours.
        if lines.qsize() < 10000:
            lines.put(line)
    lines.put(None)


def _stop(up: "subprocess.Popen[str]", folder: "tempfile.TemporaryDirectory[str]",
          pid: int) -> None:
    if os.getpid() != pid:
        return
    if up.poll() is None:
        up.send_signal(signal.SIGTERM)
        try:
            up.wait(timeout=_STOP_S)
        except subprocess.TimeoutExpired:
            up.kill()
            up.wait()
    folder.cleanup()
