"""Builds the wheels, installs them, and trains with what was installed.

--bin is a bazel-bin built with --config=opt --config=wheel. Needs no network but for
auditwheel, the first time; without it that check is skipped.
"""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import zipfile

from deploy.wheel import build, contents, licenses, linked
from tests.tools.local_cluster import ROOT, end, poll
from tests.tools.tiny_job import tiny_job

JOB = tiny_job(units=50, examples=2000, more="""
batch_size: 10
downpour { optimizer { adagrad { rate: 0.02 } } }
stop { epochs: 2 }
""")
# A replica without torch, on a cluster that the package starts by itself.
PROGRAM = """
import sys
import numpy
import monsoon as ms

assert "torch" not in sys.modules, "imports torch"
random = numpy.random.default_rng(1)
x = random.normal(size=(640, 8)).astype(numpy.float32)
y = x @ numpy.arange(8, dtype=numpy.float32)
model = {"w": numpy.zeros(8, numpy.float32)}
job = ms.join(None, job="line", model=model, epochs=4, optimizer=ms.SGD(0.05))
losses = []
with job:
    for ids in job.blocks(len(x), batch=16):
        wrong = x[ids] @ model["w"] - y[ids]
        numpy.copyto(job.gradients["w"], wrong @ x[ids] / len(ids))
        losses.append(float(numpy.mean(wrong ** 2)))
        job.step(losses[-1])
print(ms.__file__, len(losses), losses[0], losses[-1])
"""
DEADLINE = 60  # seconds, for what takes one or two


def call(command, **more):
    return subprocess.run([str(part) for part in command], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                          timeout=300, check=False, **more)


class Installed:
    """A venv with wheels in it, and a cluster of its programs on sockets of its own."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.venv = self.folder / "venv"
        self.work = self.folder / "work"  # where no configs/ lies above
        self.work.mkdir()
        home = self.folder / "home"
        home.mkdir()
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}
        # Debian's NumPy; all else of Debian is the same as without.
        call(["/usr/bin/python3", "-m", "venv", "--system-site-packages",
             self.venv]).check_returncode()
        self.site = next(self.venv.glob("lib/python3*/site-packages"))

    def install(self, *wheels):
        return call([self.venv / "bin/python", "-m", "pip", "install", "--no-index", "--no-deps",
                    "--disable-pip-version-check", *wheels])

    def command(self, *arguments, name="monsoon"):
        return call([self.venv / "bin" / name, *arguments], cwd=self.work, env=self.environment)

    def python(self, text):
        return call([self.venv / "bin/python", "-c", text], cwd=self.work, env=self.environment)

    def cluster_file(self):
        """The one that `monsoon` takes, of those that the wheels have brought."""
        for folder in ("monsoon/bin", "monsoon"):
            path = self.site / folder / "configs/cluster/localhost.textproto"
            if path.exists():
                return path
        raise FileNotFoundError(f"no cluster file in {self.site}")

    def leave_the_ports(self):
        """Has the cluster listen on sockets in this check's folder, in place of the ports
        that a cluster of the machine's user may have."""
        path = self.cluster_file()
        path.write_text(re.sub(r"127\.0\.0\.1:(\d+)",
                               rf"unix:{self.work}/\1",
                               path.read_text()))

    def up(self, log):
        """`monsoon up` without arguments, once it answers. It ends with this process."""
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", str(self.venv / "bin/monsoon"), "up"],
            cwd=self.work, env=self.environment, stdout=log, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL)
        seen = poll(lambda: process.poll() is not None or self.answers(), DEADLINE, every_s=0.1)
        if seen and process.poll() is None:
            return process
        stop(process)
        raise RuntimeError("monsoon up does not answer:\n" + pathlib.Path(log.name).read_text())

    def answers(self):
        return self.command("jobs", "--json").returncode == 0


def stop(process):
    """Ends `up`; its exit code."""
    end(process, timeout_s=DEADLINE)
    return process.returncode


def processes_of(folder):
    """The command lines of the processes whose program lies in `folder`."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "exe").startswith(str(folder)):
                found.append((process / "cmdline").read_bytes().decode().replace("\0", " "))
        except OSError:
            pass  # it has ended, or is another user's
    return found


def build_twice(checks, options, folder):
    """The wheels, by name; built twice, as two people would."""
    built = []
    for number, zone, mask in (1, "UTC", 0o022), (2, "Asia/Tokyo", 0o077):
        out = folder / f"dist{number}"
        result = call([ROOT / "deploy/wheel.sh", f"--bin={options.bin}", f"--out={out}",
                      "--no-check"],
                     env={**os.environ, "TZ": zone, "SOURCE_DATE_EPOCH": "1700000000"},
                     preexec_fn=lambda mask=mask: os.umask(mask) and None)
        checks.check(f"wheel.sh, time {number}", result.returncode == 0, result.stderr)
        built.append({path.name.split("-")[0]: path for path in sorted(out.glob("*.whl"))})
    checks.check("both wheels are there", set(built[0]) == {"monsoon", "monsoon_worker"}, built)
    for name, path in built[0].items():
        checks.check(f"{name}: the same bytes again",
                     name in built[1] and path.read_bytes() == built[1][name].read_bytes())
    return built[0]


def check_platform(checks, options, folder):
    result = call([ROOT / "deploy/wheel.sh", f"--bin={options.bin}", f"--out={folder / 'checked'}"])
    if "PyPI does not give" in result.stderr:
        checks.skip("auditwheel", result.stderr.strip())
    else:
        checks.check("auditwheel", result.returncode == 0 and
                     result.stdout.count("fits manylinux_2_") == 2, result.stdout + result.stderr)


def check_contents(checks, wheels):
    for wheel in contents.WHEELS:
        path = wheels[wheel.file_name]
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
        checks.check(f"{wheel.name}: at most {wheel.most_bytes >> 20} MiB",
                     path.stat().st_size <= wheel.most_bytes, path.stat().st_size)
        checks.check(f"{wheel.name}: nothing of NVIDIA", not [
            name for name in names if re.search(r"cuda|cublas|cudnn|nvrtc|nvidia", name)], names)
        checks.check(f"{wheel.name}: our licence",
                     any(name.endswith(".dist-info/licenses/LICENSE") for name in names), names)


def check_licenses(checks, options):
    """A library that the list does not know must be told, and one that is not there."""
    for wheel in contents.WHEELS:
        found = build.programs_of(wheel, options.bin)[1]
        patterns = licenses.read_list()[wheel.name]
        checks.check(f"{wheel.name}: the list is right",
                     not licenses.differences(wheel.name, patterns, found))
        for pattern in patterns:
            wrong = licenses.differences(wheel.name, [p for p in patterns if p != pattern], found)
            checks.check(f"{wheel.name}: {pattern} is missed", len(wrong) == 1 and
                         "does not list it" in wrong[0], wrong)
        wrong = licenses.differences(wheel.name, patterns + ["libzstd-dev"], found)
        checks.check(f"{wheel.name}: one too many is told",
                     len(wrong) == 1 and "libzstd-dev is listed" in wrong[0], wrong)
        for program in wheel.programs:
            path = build.binary_path(program.target, options.bin)
            libraries = set(linked.needed(path)) - {soname for soname, _ in wheel.libraries}
            may = contents.SHARED_MAY_NEED if program.shared else contents.SYSTEM_LIBRARIES
            checks.check(f"{program.place} needs the system's libraries only",
                         libraries <= set(may), libraries)


def check_parameter_servers(checks, installed, wheel):
    """The first wheel alone."""
    result = installed.install(wheel)
    checks.check("pip install monsoon", result.returncode == 0, result.stderr)
    result = installed.command("version", "--json")
    said = json.loads(result.stdout) if result.returncode == 0 else {}
    checks.check("monsoon version", said.get("version") == build.version() and
                 said.get("cuda") is False, result.stdout + result.stderr)
    result = installed.command("drian")
    checks.check("messages name the command", result.returncode == 2 and
                 result.stderr.startswith("monsoon: there is no verb"), result.stderr)
    result = installed.python("import importlib.metadata as m; print(m.version('monsoon'))")
    checks.check("pip's version is the program's", result.stdout.strip() == build.version(),
                 result.stdout + result.stderr)
    installed.leave_the_ports()
    with open(installed.folder / "up.log", "w") as log:
        up = installed.up(log)
        running = processes_of(installed.site)
        checks.check("up: a coordinator and a parameter server", len(running) == 3 and any(
            "/ps_server " in line for line in running), running)
        checks.check("up ends", stop(up) in (0, 143), (installed.folder / "up.log").read_text())
    checks.check("and leaves nobody", not processes_of(installed.site),
                 processes_of(installed.site))
    other = installed.work / "other.textproto"
    other.write_text('coordinator { address: "unix:monsoon-wheel-nobody" }\n'
                     'ps { address: "unix:monsoon-wheel-nobody-either" }\n')
    by_flag = installed.command("jobs", f"--cluster={other}")
    installed.environment["MONSOON_CLUSTER"] = str(other)
    by_variable = installed.command("jobs")
    del installed.environment["MONSOON_CLUSTER"]
    for what, result in ("--cluster", by_flag), ("MONSOON_CLUSTER", by_variable):
        checks.check(f"{what} comes before the wheel's file", result.returncode == 3 and
                     str(other) in result.stderr, result.stderr)


def check_program(checks, installed):
    """A Python program with a model of its own, by the first wheel alone."""
    result = installed.python(PROGRAM)
    said = result.stdout.split()
    checks.check("a program of NumPy trains", result.returncode == 0 and len(said) == 4 and
                 said[0].startswith(str(installed.site)) and int(said[1]) == 160 and
                 float(said[3]) < 0.01 * float(said[2]), result.stdout + result.stderr[-3000:])
    check_readme(checks, installed)
    checks.check("and leaves nobody", not processes_of(installed.site),
                 processes_of(installed.site))


def check_readme(checks, installed):
    """Its Python lines as they stand, with Debian's torch."""
    what = "README's lines run as they stand"
    if installed.python("import torch").returncode != 0:
        checks.skip(what, "there is no torch")
        return
    lines = re.search(r"```python file=own_model.py\n(.*?)```",
                      (ROOT / "README.md").read_text(), re.DOTALL)[1]
    result = installed.python(lines)
    checks.check(what, result.returncode == 0 and re.match(r"[01]\.\d+ right;", result.stdout) and
                 (installed.work / "own.safetensors").exists(), result.stdout + result.stderr)


def check_training(checks, installed, wheel):
    """With the second one `up` starts workers, and a job file trains."""
    result = installed.install(wheel)
    checks.check("pip install monsoon-worker", result.returncode == 0, result.stderr)
    result = installed.command("--help", name="monsoon-worker")
    checks.check("monsoon-worker --help", result.returncode == 0 and "worker" in
                 result.stdout + result.stderr, result.stdout + result.stderr)
    loaded = call(["ldd", installed.site / "monsoon/worker/worker"]).stdout
    carried = [line for line in loaded.splitlines() if re.search(r"dnnl|gomp|OpenCL", line)]
    checks.check("the worker loads the wheel's libraries", len(carried) == 3 and all(
        f"=> {installed.site}/monsoon/worker/" in line for line in carried), loaded)
    installed.leave_the_ports()
    job = installed.work / "tiny.textproto"
    job.write_text(JOB)
    with open(installed.folder / "up.log", "w") as log:
        up = installed.up(log)
        result = installed.command("submit", job, "--watch")
        checks.check("a job trains", result.returncode == 0 and "state=SUCCEEDED" in result.stdout,
                     result.stdout[-2000:] + result.stderr)
        workers = [line for line in processes_of(installed.site) if "/worker " in line]
        checks.check("on three workers", len(workers) == 3, workers)
        checks.check("up ends", stop(up) in (0, 143), (installed.folder / "up.log").read_text())
    result = call([installed.venv / "bin/python", "-m", "pip", "uninstall", "--yes", "monsoon",
                  "monsoon-worker"])
    left = [str(path) for path in installed.site.rglob("*")
            if "monsoon" in path.name and path.is_file()]
    checks.check("pip uninstall leaves no file", result.returncode == 0 and not left, left)


def run(checks, options):
    with tempfile.TemporaryDirectory(prefix="monsoon-wheel-") as name:
        folder = pathlib.Path(name)
        wheels = build_twice(checks, options, folder)
        if len(wheels) == len(contents.WHEELS):
            check_contents(checks, wheels)
            check_licenses(checks, options)
            installed = Installed(folder)
            check_parameter_servers(checks, installed, wheels["monsoon"])
            check_program(checks, installed)
            check_training(checks, installed, wheels["monsoon_worker"])
            check_platform(checks, options, folder)
