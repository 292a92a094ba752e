"""What the wheels carry: the one list of their programs, libraries and files.

Run as a program it prints the targets that Bazel must build.
"""

import dataclasses
from typing import Dict, List, Tuple


@dataclasses.dataclass(frozen=True)
class Program:
    """A program or shared object that Bazel links."""
    target: str  # "//coordinator:coordinator"
    place: str  # in the wheel
    shared: bool = False  # loaded into programs of others, with their C++ library


@dataclasses.dataclass(frozen=True)
class Wheel:
    name: str  # as pip knows it
    summary: str
    programs: List[Program]
    # {place in the wheel: path from the repository root}; of a folder its *.py and py.typed.
    files: Dict[str, str]
    requires: List[str]
    commands: List[str]  # entry points
    # Shared objects of Debian packages that are carried beside a program: (soname, place).
    libraries: List[Tuple[str, str]] = dataclasses.field(default_factory=list)
    most_bytes: int = 100 << 20  # of the wheel

    @property
    def file_name(self):
        return self.name.replace("-", "_")


# `coordinator up` finds ps_server beside itself and the worker in ../worker. Default cluster
# files are found by the coordinator, too: configs/ in its own folder before the one above.
WHEELS = [
    Wheel(
        name="monsoon",
        summary="Parameter servers for the training loops of Python programs",
        programs=[
            Program("//coordinator:coordinator", "monsoon/bin/coordinator"),
            Program("//ps_server:ps_server", "monsoon/bin/ps_server"),
            # The library starts the sidecar beside itself.
            Program("//worker/client:libmonsoon.so", "monsoon/bin/libmonsoon.so", shared=True),
            Program("//worker/sidecar:monsoon_sidecar", "monsoon/bin/monsoon_sidecar"),
        ],
        files={
            "_monsoon_command.py": "deploy/wheel/commands/_monsoon_command.py",
            "monsoon": "python/monsoon",
            "monsoon/include/monsoon.h": "worker/client/monsoon.h",
            "monsoon/configs/cluster/localhost.textproto": "deploy/wheel/cluster.textproto",
        },
        requires=["numpy"],
        commands=["monsoon = _monsoon_command:main"],
        most_bytes=25 << 20,
    ),
    Wheel(
        name="monsoon-worker",
        summary="The worker of Monsoon, which trains the networks of job files on a CPU",
        programs=[Program("//worker:worker", "monsoon/worker/worker")],
        files={
            "_monsoon_worker_command.py": "deploy/wheel/commands/_monsoon_worker_command.py",
            "monsoon/bin/configs/cluster/localhost.textproto":
                "configs/cluster/localhost.textproto",
        },
        requires=["monsoon == {version}"],
        commands=["monsoon-worker = _monsoon_worker_command:main"],
        libraries=[
            ("libdnnl.so.2", "monsoon/worker/libdnnl.so.2"),
            ("libgomp.so.1", "monsoon/worker/libgomp.so.1"),
            ("libOpenCL.so.1", "monsoon/worker/libOpenCL.so.1"),
        ],
    ),
]

# What a program may need of the system besides what its wheel carries.
SYSTEM_LIBRARIES = ["ld-linux-x86-64.so.2", "libc.so.6", "libdl.so.2", "libm.so.6",
                    "libpthread.so.0", "librt.so.1"]
# And what shared objects may need: every system with a C++ program has them, and
# manylinux counts on them.
SHARED_MAY_NEED = SYSTEM_LIBRARIES + ["libgcc_s.so.1", "libstdc++.so.6"]

if __name__ == "__main__":
    for wheel in WHEELS:
        for program in wheel.programs:
            print(program.target)
