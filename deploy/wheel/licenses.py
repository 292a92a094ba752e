"""The licence texts that a wheel must carry, and whether the list of them is right."""

import fnmatch
import os
import re

LIST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "licenses.txt")
DOC = "/usr/share/doc"
COMMON = "/usr/share/common-licenses"


def read_list(path=LIST):
    """{wheel: [package pattern]} of licenses.txt."""
    wheels, wheel = {}, None
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            line = line.split("#")[0].strip()
            header = re.fullmatch(r"\[(\S+)\]", line)
            if header:
                wheel = wheels.setdefault(header.group(1), [])
            elif line and wheel is None:
                raise ValueError(f"{path}:{number}: no [wheel] stands before it")
            elif line:
                wheel.append(line)
    return wheels


def differences(wheel, patterns, evidence):
    """What is wrong with the list of `wheel`, as messages. `evidence`: {package: (program,
    why)}."""
    messages = []
    for package, (program, why) in sorted(evidence.items()):
        if not any(fnmatch.fnmatch(package, pattern) for pattern in patterns):
            messages.append(f"{package} is in {program} ({why}), and [{wheel}] of licenses.txt "
                            f"does not list it: read {DOC}/{package}/copyright, and add it")
    for pattern in patterns:
        if not fnmatch.filter(evidence, pattern):
            messages.append(f"{pattern} is listed in [{wheel}] of licenses.txt, and nothing of "
                            "it is in the wheel: take it out")
    return messages


def texts(packages, root="/"):
    """{file name: bytes} of the packages' licences: Debian's copyright files, and the
    licences that these name by their path only. Raises OSError."""
    found, common = {}, set()
    for package in sorted(packages):
        with open(os.path.join(root, DOC[1:], package, "copyright"), "rb") as f:
            found[f"{package}.txt"] = text = f.read()
        names = re.findall(rb"/usr/share/common-licenses/([A-Za-z0-9.+-]*[A-Za-z0-9])", text)
        common.update(name.decode() for name in names)
    for name in sorted(common):
        with open(os.path.join(root, COMMON[1:], name), "rb") as f:
            found[f"common-licenses/{name}.txt"] = f.read()
    return found
