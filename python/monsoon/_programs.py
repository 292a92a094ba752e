"""Where the library and the programs are: a variable, the package's folder, or a build."""

from __future__ import annotations

import os
import pathlib
from typing import List

from .errors import LibraryNotFound

_PACKAGE = pathlib.Path(__file__).resolve().parent
# Below a folder of built programs, as Bazel makes it.
_BUILT = {
    "libmonsoon.so": "worker/client",
    "monsoon_sidecar": "worker/sidecar",
    "coordinator": "coordinator",
    "ps_server": "ps_server",
    "worker": "worker",
}


def candidates(name: str) -> List[pathlib.Path]:
    """Where `name` is looked for, in order."""
    places = [_PACKAGE / name, _PACKAGE / "bin" / name, _PACKAGE / "lib" / name]
    builds = []
    if os.environ.get("MONSOON_BIN"):
        builds.append(pathlib.Path(os.environ["MONSOON_BIN"]))
    # The package lies in a source tree.
    builds.append(_PACKAGE.parents[1] / "bazel-bin")
    built = [place for build in builds for place in (build / _BUILT[name] / name, build / name)]
    # Who names a build means that one.
    return built + places if os.environ.get("MONSOON_BIN") else places + built


def find(name: str, variable: str = "") -> str:
    """The path of a library or program of Monsoon, a key of `_BUILT`.

    `variable`, if the environment has it, is the path. Raises LibraryNotFound with all
    the places where it was looked for.
    """
    if variable and os.environ.get(variable):
        named = pathlib.Path(os.environ[variable])
        if named.is_file():
            return str(named)
        raise LibraryNotFound(f"${variable} is {named}, and no such file is there")
    places = candidates(name)
    for place in places:
        if place.is_file():
            return str(place)
    looked = "\n  ".join(str(place) for place in places)
    hint = f"${variable} names it, or " if variable else ""
    raise LibraryNotFound(f"{name} was not found; {hint}$MONSOON_BIN names a folder of built "
                          f"programs (bazel-bin). Looked for:\n  {looked}")
