"""Registers, stack and spills of each kernel as ptxas tells them. Spills fail.

Compiles worker/backend/cuda/kernels/*_kernels.cc with the build's options, a source and
target at a time; needs nvcc, where third_party/cuda looks for it, else all is skipped. No
list of kernels. It counts a kernel and target each.
"""

import concurrent.futures
import os
import re
import shutil
import subprocess

from tests.tools.local_cluster import ROOT

KERNELS = ROOT / "worker/backend/cuda/kernels"
COMPILERS = 2
COMPILE_S = 300
NAMES = ("monsoon::cuda::", "(anonymous namespace)::", "(monsoon::HalfType)")
ENTRY = re.compile(
    r"Compiling entry function '(?P<name>\w+)' for '(?P<target>\w+)'.*?"
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads.*?Used (?P<registers>\d+) registers", re.DOTALL)


def find_nvcc():
    homes = [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda",
             os.path.expanduser("~/.cache/monsoon-cuda/13.0")]
    candidates = [f"{home}/bin/nvcc" for home in homes if home]
    candidates.insert(1, shutil.which("nvcc") or "")
    return next((path for path in candidates if path and os.path.exists(path)), None)


def known_targets(nvcc):
    """Of the build's targets, those that nvcc knows."""
    build = (ROOT / "third_party/cuda/cuda.bzl").read_text()
    wanted = re.findall(r'"(\d+)"', re.search(r"CUDA_ARCHITECTURES = (.*)", build).group(1))
    known = subprocess.run([nvcc, "--list-gpu-arch"], capture_output=True, text=True,
                           check=True, timeout=COMPILE_S).stdout.split()
    return [target for target in wanted if f"compute_{target}" in known]


def short_names(mangled):
    """What each kernel is a template of, and with what: "ForEach AddBias"."""
    names = subprocess.run(["c++filt"], input="\n".join(mangled), capture_output=True,
                           text=True, check=True, timeout=60).stdout.splitlines()
    result = {}
    for one, name in zip(mangled, names):
        for part in NAMES:
            name = name.replace(part, "")
        match = re.match(r"void (\w+?)(?:Kernel)?<(.*)>\(", name)
        result[one] = f"{match.group(1)} {match.group(2).strip()}" if match else name
    return result


def compile_one(nvcc, source, target):
    """ptxas's lines of the source's kernels; raises where it does not compile."""
    done = subprocess.run(
        [nvcc, "-cubin", "-x", "cu", "-std=c++20", "-O3", "-I.", "-ccbin", "g++",
         f"-arch=sm_{target}", "-Xptxas", "-v", "-o", os.devnull, str(source)],
        cwd=ROOT, capture_output=True, text=True, timeout=COMPILE_S)
    if done.returncode != 0:
        raise RuntimeError(f"{source.name} for sm_{target}: {done.stderr.strip()}")
    return [match.groupdict() for match in ENTRY.finditer(done.stderr)]


def print_table(kernels, targets):
    print("| kernel | " + " | ".join(f"sm_{target}" for target in targets) + " |")
    print("|---|" + "---|" * len(targets))
    names = short_names(sorted({kernel["name"] for kernel in kernels}))
    registers = {(k["name"], k["target"]): k["registers"] for k in kernels}
    for mangled, name in sorted(names.items(), key=lambda item: item[1]):
        row = [registers.get((mangled, f"sm_{target}"), "") for target in targets]
        print(f"| `{name}` | " + " | ".join(row) + " |")


def add_options(parser):
    parser.add_argument("--arch", default="90", help="the targets, with commas between; all: "
                        "those that the build has machine code for and nvcc knows")
    parser.add_argument("--table", action="store_true",
                        help="also prints a table, registers by kernel and target")


def run(checks, options):
    nvcc = find_nvcc()
    if nvcc is None:
        checks.skip("all", "there is no nvcc")
        return
    targets = known_targets(nvcc) if options.arch == "all" else options.arch.split(",")
    work = [(nvcc, source, target) for source in sorted(KERNELS.glob("*_kernels.cc"))
            for target in targets]
    kernels = []
    with concurrent.futures.ThreadPoolExecutor(COMPILERS) as pool:
        for (_, source, target), found in zip(work, pool.map(lambda w: compile_one(*w), work)):
            checks.check(f"{source.name} for sm_{target}", found, "ptxas told of no kernel")
            kernels += found
    for kernel in kernels:
        spilt = [f"{kernel[key]} bytes {what}" for key, what in
                 (("stack", "of stack"), ("stores", "stored"), ("loads", "loaded"))
                 if kernel[key] != "0"]
        checks.check(f"{kernel['name']} for {kernel['target']}", not spilt, ", ".join(spilt))
    if kernels:
        most = max(kernels, key=lambda kernel: int(kernel["registers"]))
        print(f"at most {most['registers']} registers a thread "
              f"({short_names([most['name']])[most['name']]}, {most['target']})")
    if options.table:
        print_table(kernels, targets)
