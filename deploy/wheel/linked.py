"""What is in a linked file besides our own sources, as the linker and the compiler say it.

A program is linked once more by the command that Bazel wrote down, with a map. The result
must be the same bytes, so the map is the program's own.
"""

import filecmp
import functools
import os
import re
import subprocess
import tempfile


class NotAsBuilt(Exception):
    """The files of the build do not fit each other."""


def params_file(binary):
    return binary + "-2.params"


def execution_root(bin_dir):
    """Where Bazel's commands run: above bazel-out, which bazel-bin points into."""
    path = os.path.realpath(bin_dir)
    while os.path.basename(path) != "bazel-out":
        if path == "/":
            raise NotAsBuilt(f"{bin_dir} is no bazel-bin")
        path = os.path.dirname(path)
    return os.path.dirname(path)


def link_map(binary, bin_dir):
    """The text of the linker's map of `binary`. Raises NotAsBuilt."""
    root, params = execution_root(bin_dir), params_file(binary)
    try:
        with open(params, encoding="utf-8") as f:
            arguments = f.read().splitlines()
    except OSError as error:
        raise NotAsBuilt(f"{params}: {error.strerror}; build it again") from error
    with tempfile.TemporaryDirectory() as work:
        output, text = os.path.join(work, "output"), os.path.join(work, "map")
        again = []
        for before, argument in zip([""] + arguments, arguments):
            again.append(output if before == "-o" else argument)
        again_file = os.path.join(work, "params")
        with open(again_file, "w", encoding="utf-8") as f:
            f.write("\n".join(again + [f"-Wl,-Map={text}"]) + "\n")
        done = subprocess.run(["gcc", "@" + again_file], cwd=root, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0:
            raise NotAsBuilt(f"{binary} cannot be linked again:\n{done.stdout.decode()}")
        if not filecmp.cmp(output, binary, shallow=False):
            raise NotAsBuilt(f"{binary} is another one when it is linked again; build it again")
        with open(text, encoding="utf-8", errors="replace") as f:
            return f.read()


def mapped_files(text):
    """Absolute paths of the system's archives and objects that a map names: {path: one
    member or ""}. Archives of which nothing was taken are not among them."""
    found = {}
    for path, member in re.findall(r"^(/\S+\.a)\(([^)]*)\)", text, re.MULTILINE):
        found.setdefault(os.path.normpath(path), member)
    for path in sorted(set(re.findall(r"\s(/\S+\.o)$", text, re.MULTILINE))):
        found.setdefault(os.path.normpath(path), "")
    return found


def headers(binary, bin_dir):
    """Absolute paths of the system's headers that were compiled in: {path: one source}."""
    root = execution_root(bin_dir)
    found = {}
    with open(params_file(binary), encoding="utf-8") as f:
        objects = [line for line in f.read().splitlines() if line.endswith(".o")]
    for name in objects:
        if name.startswith("/"):
            continue  # crt1.o: the map has it
        rule = os.path.join(root, name[:-2] + ".d")
        try:
            with open(rule, encoding="utf-8") as f:
                words = f.read().replace("\\\n", " ").split()
        except OSError as error:
            raise NotAsBuilt(f"{rule}: {error.strerror}; build it again") from error
        source = words[1] if len(words) > 1 else name
        for word in words[1:]:
            if word.startswith("/"):
                found.setdefault(os.path.normpath(word), source)
    return found


def needed(binary):
    """The shared objects that a file asks the loader for."""
    out = subprocess.run(["readelf", "-dW", binary], stdout=subprocess.PIPE, check=True)
    return re.findall(r"\(NEEDED\).*\[(.*)\]", out.stdout.decode())


@functools.lru_cache(maxsize=1)
def _owners():
    """{path: Debian package}, links of /lib to /usr/lib resolved."""
    folder, owners = "/var/lib/dpkg/info", {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".list"):
            package = name[:-len(".list")].split(":")[0]
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                for line in f:
                    path = line.rstrip("\n")
                    if path.startswith("/lib"):
                        path = "/usr" + path
                    owners.setdefault(path, package)
    return owners


def package_of(path):
    """The Debian package that a file is of, or None."""
    owners = _owners()
    for name in (path, os.path.realpath(path)):
        name = "/usr" + name if name.startswith("/lib") else name
        if name in owners:
            return owners[name]
    return None


def evidence(binary, bin_dir):
    """{Debian package: (why it is known to be in `binary`)}. Raises NotAsBuilt, also when a
    file is of no package."""
    found = {}
    mapped = mapped_files(link_map(binary, bin_dir))
    for path, member in mapped.items():
        why = f"{os.path.basename(path)}({member})" if member else os.path.basename(path)
        _add(found, path, why)
    for path, source in headers(binary, bin_dir).items():
        _add(found, path, f"{path} in {source}")
    return found


def _add(found, path, why):
    package = package_of(path)
    if package is None:
        raise NotAsBuilt(f"{path} ({why}) is of no Debian package, so no licence is known")
    found.setdefault(package, why)
