#!/usr/bin/python3
"""Packs the wheels from what Bazel has built; deploy/wheel.sh calls it.

    python3 -m deploy.wheel.build --bin=BAZEL_BIN --out=DIR [--only=WHEEL]

The same input makes the same bytes: files in order, of one time (SOURCE_DATE_EPOCH), of one
mode. Exit 0: written; 1: something does not fit, which the message names.
"""

import argparse
import base64
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile

from deploy.wheel import contents, licenses, linked

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TAG = "py3-none-manylinux_2_36_x86_64"
PROGRAM_MODE = 0o100755
FILE_MODE = 0o100644


class Refused(Exception):
    """A wheel that must not be made."""


def read(path):
    with open(path, "rb") as f:
        return f.read()


def version(root=ROOT):
    """What common/base/version.h says, the one place."""
    path = os.path.join(root, "common/base/version.h")
    found = re.search(r'kVersion\[\] = "([^"]+)"', read(path).decode())
    if not found:
        raise Refused(f"{path}: there is no kVersion")
    return found.group(1)


def package_files(folder, place):
    """{place: path} of a Python package's modules."""
    found = {}
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in names:
            if name.endswith(".py") or name == "py.typed":
                path = os.path.join(parent, name)
                found[os.path.join(place, os.path.relpath(path, folder))] = path
    if not found:
        raise Refused(f"{folder}: there is no Python package")
    return found


def check_package_version(folder, expected):
    """The package must say the version that the programs say."""
    path = os.path.join(folder, "_version.py")
    text = read(path).decode() if os.path.exists(path) else ""
    found = re.search(r'^__version__ = "([^"]+)"', text, re.MULTILINE)
    if not found or found.group(1) != expected:
        raise Refused(f"{path}: __version__ is {found.group(1) if found else 'missing'}, and "
                      f"common/base/version.h says {expected}")


def binary_path(target, bin_dir):
    package, name = target[2:].split(":")
    return os.path.join(bin_dir, package, name)


def stripped(path):
    with tempfile.TemporaryDirectory() as work:
        out = os.path.join(work, "stripped")
        subprocess.run(["strip", "--strip-all", "-o", out, path], check=True)
        return read(out)


def library_path(soname):
    """Where the loader finds a shared object."""
    out = subprocess.run(["/sbin/ldconfig", "-p"], stdout=subprocess.PIPE, check=True)
    found = re.search(rf"^\s*{re.escape(soname)} \([^)]*x86-64[^)]*\) => (\S+)$",
                      out.stdout.decode(), re.MULTILINE)
    if not found:
        raise Refused(f"{soname} is not installed; run deploy/setup.sh")
    return found.group(1)


def check_needed(path, carried, may):
    for name in linked.needed(path):
        if name not in may and name not in carried:
            raise Refused(f"{path} needs {name}, which the wheel neither carries nor may ask the "
                          "system for (deploy/wheel/contents.py)")


def programs_of(wheel, bin_dir):
    """({place: (mode, bytes)}, {package: (program, why)}) of what is linked or carried."""
    files, found = {}, {}
    carried = [soname for soname, _ in wheel.libraries]
    for program in wheel.programs:
        path = binary_path(program.target, bin_dir)
        if not os.path.exists(path):
            raise Refused(f"{path} is not there; build {program.target}")
        check_needed(path, carried, contents.SHARED_MAY_NEED if program.shared
                     else contents.SYSTEM_LIBRARIES)
        for package, why in linked.evidence(path, bin_dir).items():
            found.setdefault(package, (os.path.basename(program.place), why))
        files[program.place] = PROGRAM_MODE, stripped(path)
    for soname, place in wheel.libraries:
        path = library_path(soname)
        check_needed(path, carried, contents.SHARED_MAY_NEED)
        package = linked.package_of(path)
        if package is None:
            raise Refused(f"{path} is of no Debian package, so no licence is known")
        found.setdefault(package, (os.path.basename(place), "carried"))
        files[place] = PROGRAM_MODE, read(path)
    return files, found


def metadata(wheel, number, license_names):
    lines = ["Metadata-Version: 2.4", f"Name: {wheel.name}", f"Version: {number}",
             f"Summary: {wheel.summary}", "License-Expression: Apache-2.0"]
    lines += [f"License-File: {name}" for name in license_names]
    lines += ["Classifier: Operating System :: POSIX :: Linux", "Requires-Python: >=3.9"]
    lines += ["Requires-Dist: " + text.format(version=number) for text in wheel.requires]
    lines += ["Description-Content-Type: text/plain", "", wheel.summary + ".", "",
              "The programs contain and the package carries software of others; the folder",
              "licenses beside this file has the terms of each.", ""]
    return "\n".join(lines).encode()


def license_files(wheel, found):
    """{name below licenses/: bytes}. Raises Refused when the list is wrong."""
    patterns = licenses.read_list().get(wheel.name, [])
    wrong = licenses.differences(wheel.name, patterns, found)
    if wrong:
        raise Refused("\n".join(wrong))
    try:
        files = licenses.texts(found)
    except OSError as error:
        raise Refused(f"a licence's text is missing: {error}") from error
    files["LICENSE"] = read(os.path.join(ROOT, "LICENSE"))
    return files


def record(files, info):
    """The bytes of RECORD: each file with its hash and size."""
    lines = []
    for place in sorted(files):
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[place][1]).digest())
        lines.append(f"{place},sha256={digest.decode().rstrip('=')},{len(files[place][1])}")
    return "\n".join(lines + [f"{info}/RECORD,,", ""]).encode()


def write_zip(path, files, epoch):
    """A zip of {place: (mode, bytes)}, the metadata last as the format recommends."""
    when = time.gmtime(max(epoch, 315532800))[:6]  # a zip begins with 1980
    places = sorted(files, key=lambda place: (".dist-info/" in place, place))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for place in places:
            entry = zipfile.ZipInfo(place, when)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, for the modes
            entry.external_attr = files[place][0] << 16
            archive.writestr(entry, files[place][1])


def build(wheel, options, epoch):
    """Writes one wheel and returns its path."""
    number = version()
    files, found = programs_of(wheel, options.bin)
    for place, source in wheel.files.items():
        path = os.path.join(ROOT, source)
        if os.path.isdir(path):
            check_package_version(path, number)
            for inner, file in package_files(path, place).items():
                files[inner] = FILE_MODE, read(file)
        else:
            files[place] = FILE_MODE, read(path)
    info = f"{wheel.file_name}-{number}.dist-info"
    texts = license_files(wheel, found)
    for name, text in texts.items():
        files[f"{info}/licenses/{name}"] = FILE_MODE, text
    entries = "[console_scripts]\n" + "".join(f"{entry}\n" for entry in wheel.commands)
    files[f"{info}/entry_points.txt"] = FILE_MODE, entries.encode()
    files[f"{info}/METADATA"] = FILE_MODE, metadata(wheel, number, sorted(texts))
    files[f"{info}/WHEEL"] = FILE_MODE, (f"Wheel-Version: 1.0\nGenerator: monsoon ({number})\n"
                                         f"Root-Is-Purelib: false\nTag: {TAG}\n").encode()
    files[f"{info}/RECORD"] = FILE_MODE, record(files, info)
    path = os.path.join(options.out, f"{wheel.file_name}-{number}-{TAG}.whl")
    write_zip(path, files, epoch)
    size = os.path.getsize(path)
    if size > wheel.most_bytes:
        raise Refused(f"{path} has {size} bytes, more than {wheel.most_bytes}")
    return path


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--only")
    options = parser.parse_args()
    try:
        epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    except ValueError:
        sys.exit(f"wheel: SOURCE_DATE_EPOCH={os.environ['SOURCE_DATE_EPOCH']} is no number")
    os.makedirs(options.out, exist_ok=True)
    for wheel in contents.WHEELS:
        if options.only not in (None, wheel.name):
            continue
        try:
            print(build(wheel, options, epoch), flush=True)
        except (Refused, linked.NotAsBuilt) as error:
            sys.exit(f"wheel: {wheel.name}: {error}")


if __name__ == "__main__":
    main()
