"""A file system of its own, small enough to be filled: a tmpfs, which takes root to mount."""

import errno
import os
import pathlib
import subprocess


class SmallDisk:
    """Mounted at `path`, which is made, until the block is left. `usable` is False where
    that is not allowed."""

    def __init__(self, path, mib):
        self.path = pathlib.Path(path)
        self._mib = mib
        self._filler = self.path / "filler"
        self.usable = False

    def __enter__(self):
        self.path.mkdir(parents=True, exist_ok=True)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self._mib}m", "tmpfs",
                                  self.path], capture_output=True, check=False)
        self.usable = mounted.returncode == 0
        return self

    def __exit__(self, *unused):
        if self.usable:
            # Lazily: a daemon that is being killed may still hold a file.
            subprocess.run(["umount", "--lazy", self.path], check=False)

    def fill(self, leave_bytes):
        """Leaves so many bytes free, of those that are."""
        with open(self._filler, "wb") as file:
            while True:
                free = os.statvfs(self.path)
                size = free.f_bavail * free.f_frsize - leave_bytes
                try:
                    if size > 0:
                        os.posix_fallocate(file.fileno(), 0, size)
                    return
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    # Somebody else took some of it meanwhile.

    def free(self):
        self._filler.unlink(missing_ok=True)
