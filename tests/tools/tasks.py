"""Ports and processes of a cluster's tasks, for checks whose clusters are on TCP."""

import pathlib
import socket
import subprocess


def free_ports(count):
    """Of the loopback, that nobody listened on a moment ago."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def children_by_name(up):
    """Of `up`, a process: the name of a task's program to its pid."""
    children = subprocess.run(["pgrep", "-P", str(up.pid)], capture_output=True, text=True,
                              check=True).stdout.split()
    return {pathlib.Path(f"/proc/{pid}/comm").read_text().strip(): int(pid) for pid in children}
