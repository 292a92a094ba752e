"""The cluster file of a coordinator that is known by its address: checkpoints lie in the state
folder, which the file names."""

from __future__ import annotations

import os
import pathlib
import re
from typing import Any, Mapping, Optional


def own_file(address: str, coordinator: Mapping[str, Any]) -> Optional[str]:
    """The file that the running coordinator was started with, if it runs on this machine and this
    user may see that. `coordinator`: what `coordinator tasks --json` says of it."""
    if coordinator.get("host") != os.uname().nodename or not coordinator.get("pid"):
        return None
    process = pathlib.Path("/proc") / str(coordinator["pid"])
    try:
        words = process.joinpath("cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        named = [word[len("--cluster="):] for word in words if word.startswith("--cluster=")]
        if "serve" not in words or not named:
            return None
        path = os.path.join(os.readlink(process / "cwd"), named[-1])
        text = pathlib.Path(path).read_text(encoding="utf-8")
    except OSError:
        return None
    # In another container the same number is another process.
    port = address.rpartition(":")[2]
    return path if re.search(rf":{re.escape(port)}\b", text) else None


def hint(coordinator: Optional[Mapping[str, Any]]) -> str:
    """What to do where there is none."""
    host = (coordinator or {}).get("host")
    at = f"runs on {host}, where" if host else "is not reached; where it runs"
    return ("; this client knows the cluster by its coordinator's address alone. Checkpoints lie "
            f"in the cluster's state_dir: the coordinator {at} this works; or give "
            "monsoon.Client() the cluster file, on a machine that can read that folder")
