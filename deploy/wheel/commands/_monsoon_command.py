"""The command `monsoon`: the coordinator's program, which lies in the package.

Not a module of the package, whose import would bring NumPy along.
"""

import importlib.util
import os
import sys


def program(*parts):
    """The path of a program of the wheels. They lie in one folder, so that `up` finds all."""
    package = importlib.util.find_spec("monsoon")
    for folder in (package and package.submodule_search_locations) or ():
        path = os.path.join(folder, *parts)
        if os.access(path, os.X_OK):
            return path
    sys.exit(f"{os.path.basename(sys.argv[0])}: {'/'.join(('monsoon',) + parts)} is not among "
             f"this Python's packages ({sys.executable}); install the wheel again")


def become(path):
    """The program takes this process. Its messages name what the user called; the folder says
    where its files are."""
    called = os.path.join(os.path.dirname(path), os.path.basename(sys.argv[0]))
    os.execv(path, [called] + sys.argv[1:])


def main():
    become(program("bin", "coordinator"))
