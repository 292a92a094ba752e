"""How a program becomes a member of a cluster whose members prove who they are."""

from __future__ import annotations

import os
import subprocess
from typing import Optional

from . import _programs
from .client import exception_of

TOKEN_VARIABLE = "MONSOON_TOKEN"


def become_member(coordinator: str, token: Optional[str] = None) -> None:
    """Joins with `token`, or with $MONSOON_TOKEN, where this user is no worker of the cluster
    yet; without either, nothing. The token is a whole invitation, "msn1....@alpha:2221", with or
    without `monsoon join` before it, or what stands before the address.

    Raises what the command says: a token that is used up, another cluster's, ...
    """
    words = (token if token is not None else os.environ.get(TOKEN_VARIABLE, "")).split()
    if not words:
        return
    invitation = next((word for word in words if word.startswith("msn")), words[-1])
    if "@" not in invitation:
        invitation += f"@{coordinator}"
    done = subprocess.run([_programs.find("coordinator"), "join", invitation, "--program"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    if done.returncode != 0:
        raise exception_of(done.returncode, done.stderr.strip() or done.stdout.strip()
                           or f"exit code {done.returncode}")
