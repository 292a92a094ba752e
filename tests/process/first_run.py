"""What a first run on a GPU meets: no code for it, an old driver or none, no cuBLAS, a
precision that it lacks, too little memory, a device that is lost. Each message, exit code
and the job's fate as the table of docs/gpu.md, Messages, has them, with the real programs
and a worker on the emulated device.

Nothing may hang: a job that does not end within a minute fails its row.
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

from tests.tools.local_cluster import PATIENCE_S, LocalCluster
from tests.tools.tiny_job import tiny_job

EMULATOR = "tests/gpu/emulator"
MORE = """
batch_size: 10
downpour { optimizer { adagrad { rate: 0.02 } } }
stop { epochs: 1 }
evaluation { batch_size: 10 }
"""
# Few for speed; many for rows where a larger batch needs more memory than a small one.
FEW, MANY = 32, 4000
# A job that no worker can compute ends at once, not after the cluster's worker_wait_ms.
AT_ONCE_S = 20
REFUSED = 2   # exit codes of the worker
NO_DEVICE_LEFT = 1
# Two more than a job of this model allocates would mean that the loop never ends.
MOST_ALLOCATIONS = 100


def emulator(**settings):
    """The environment of an emulated device; CHECK is for other tests."""
    return {"MONSOON_EMULATOR_CHECK": "off",
            **{f"MONSOON_EMULATOR_{name}": str(value) for name, value in settings.items()}}


class Rows:
    def __init__(self, checks, bin_dir, only, work):
        self._check = checks.check
        self._bin = bin_dir
        self._only = only
        self._work = work

    def wants(self, name):
        return self._only in name

    def _cluster(self, environment, worker, settings=(), bin_dir=None):
        """A ps and one worker; `worker` is more of its line in the cluster file."""
        return LocalCluster(
            ps=1, workers=0, bin_dir=bin_dir or self._bin, environment=environment,
            settings=[f'worker {{ address: "unix:{{sockets}}/w" threads: 1 {worker} }}', *settings])

    def _run(self, cluster, settings=None, units=FEW, limit=PATIENCE_S):
        """The job's description when it has ended, or after `limit` seconds, and those."""
        path = self._work / "job.textproto"
        path.write_text(tiny_job(units, MORE, examples=400))
        began = time.monotonic()
        job = cluster.submit(path, settings)
        try:
            cluster.command("watch", job, check=False, timeout=limit)
        except subprocess.TimeoutExpired:
            pass
        described = cluster.describe(job)
        return described, time.monotonic() - began

    def _logged(self, cluster, pattern):
        return [line for line in cluster.log_path.read_text().splitlines()
                if re.search(pattern, line)]

    def refused(self, name, environment, message, worker="", bin_dir=None):
        """device: CUDA is refused with the message."""
        path = self._work / "refused.textproto"
        path.write_text('name: "first"\ncoordinator { address: "unix:first-none" }\n'
                        'ps { address: "unix:first-ps" }\nworker { address: '
                        f'"unix:{self._work}/refused" device: CUDA {worker} }}\n')
        answer = subprocess.run(
            [(bin_dir or self._bin) / "worker" / "worker", f"--cluster={path}", "--task=0"],
            capture_output=True, text=True, timeout=PATIENCE_S, stdin=subprocess.DEVNULL,
            env={**os.environ, **environment})
        self._check(f"{name}, CUDA: exit code", answer.returncode == REFUSED, answer)
        self._check(f"{name}, CUDA: the message", re.search(message, answer.stderr),
                    answer.stderr)

    def falls_back(self, name, environment, message, level="WARNING", worker="", bin_dir=None):
        """device: AUTO computes on the CPU, with the message at that level."""
        with self._cluster(environment, f"device: AUTO {worker}", bin_dir=bin_dir) as cluster:
            described, _ = self._run(cluster)
            told = self._logged(cluster, message)
            log = cluster.log_path.read_text()
        self._check(f"{name}, AUTO: the job", described["state"] == "SUCCEEDED",
                    described["reason"])
        self._check(f"{name}, AUTO: the device",
                    [worker["device"] for worker in described["workers"]] == ["CPU"],
                    described["workers"])
        # Lines of spdlog: WARNING is told by its letter or name.
        self._check(f"{name}, AUTO: the message", told and all(
            re.search(rf"\b{level[0]}\b|{level}", line, re.IGNORECASE) for line in told),
            told or log[-2000:])

    def ends_at_once(self, name, environment, reason, settings=None, worker="", units=FEW):
        """The job fails by itself, soon, with the reason; the worker stays."""
        with self._cluster(environment, f"device: CUDA {worker}") as cluster:
            described, seconds = self._run(cluster, settings, units)
            gone = self._logged(cluster, r"exit code|killed by")
        self._check(f"{name}: the job fails", described["state"] == "FAILED", described["state"])
        self._check(f"{name}: the reason", re.search(reason, described["reason"]),
                    described["reason"])
        self._check(f"{name}: at once", seconds < AT_ONCE_S, seconds)
        self._check(f"{name}: the worker stays", not gone, gone)

    def succeeds(self, name, environment, settings=None, worker=""):
        """The job is computed on the GPU; returns its description and log."""
        with self._cluster(environment, f"device: CUDA {worker}") as cluster:
            described, _ = self._run(cluster, settings)
            log = cluster.log_path.read_text()
        self._check(f"{name}: the job", described["state"] == "SUCCEEDED",
                    (described["state"], described["reason"]))
        self._check(f"{name}: the device",
                    [worker["device"] for worker in described["workers"]] == ["CUDA"],
                    described["workers"])
        return described, log

    def does_without_cublas_lt(self, name, message, **settings):
        """The job is computed, and why biases take a kernel of their own is told once."""
        environment = {**emulator(), **settings}
        _, log = self.succeeds(name, environment)
        told = [line for line in log.splitlines() if "are added by a kernel" in line]
        self._check(f"{name}: told {1 if message else 0} times",
                    len(told) == (1 if message else 0) and
                    all(re.search(message, line) for line in told), told or log[-2000:])

    def each_allocation_fails(self):
        """The nth fails once, for each n: the replica leaves, comes back and goes on."""
        last = 0
        for n in range(1, MOST_ALLOCATIONS):
            described, log = self.succeeds(f"allocation {n} fails", emulator(FAIL_ALLOCATION=n))
            told = re.findall(r"CUDA error 2\b|cuBLAS status 3\b", log)
            if not told and not any(e["kind"] == "worker_failed" for e in described["events"]):
                break  # there are no so many
            last = n
            texts = [e["text"] for e in described["events"] if e["kind"] == "worker_failed"]
            self._check(f"allocation {n} fails: it is told", told, log[-1000:])
            if texts:
                self._check(f"allocation {n} fails: the event names the GPU",
                            all("GPU 0" in text for text in texts), texts)
        self._check("there are allocations, and an end to them", 5 <= last < MOST_ALLOCATIONS - 1,
                    last)

    def device_is_lost(self, name, after):
        """A worker on a GPU that is lost leaves and ends; the job goes on with the other."""
        with self._cluster({}, "device: CPU", settings=["open: true"]) as cluster:
            guest = subprocess.Popen(
                [self._bin / "worker" / "worker", f"--cluster={cluster.path}", "--device=CUDA"],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                stdin=subprocess.DEVNULL, env={**os.environ, **emulator(LOSE_DEVICE_AFTER=after)})
            try:
                described, _ = self._run(cluster, {"stop.epochs": 200})
                try:
                    stderr = guest.communicate(timeout=PATIENCE_S)[1]
                except subprocess.TimeoutExpired:
                    stderr = "it goes on"
            finally:
                guest.kill()
                guest.wait()
        self._check(f"{name}: the worker's exit code", guest.returncode == NO_DEVICE_LEFT,
                    (guest.returncode, stderr[-2000:]))
        self._check(f"{name}: the worker says so",
                    "no device is left to compute with" in stderr and "error 719" in stderr,
                    stderr[-2000:])
        failed = [e["text"] for e in described["events"] if e["kind"] == "worker_failed"]
        self._check(f"{name}: the job's event", any("what this GPU held is lost" in text
                                                    for text in failed), described["events"])
        self._check(f"{name}: the job", described["state"] == "SUCCEEDED", described["reason"])


def without_cublas(bin_dir, work):
    """A folder of programs whose cuBLAS has nothing in it."""
    folder = work / "no_cublas"
    (folder / "worker").mkdir(parents=True)
    for name in ("coordinator", "ps_server"):
        (folder / name).symlink_to(bin_dir / name)
    shutil.copy(bin_dir / "worker" / "worker", folder / "worker" / "worker")
    for major in (12, 13):
        subprocess.run(["g++", "-shared", "-x", "c++", "/dev/null", "-o",
                        folder / "worker" / f"libcublas.so.{major}"], check=True)
    return folder, {"LD_LIBRARY_PATH": str(folder / "worker")}


def has_gpu():
    """As the worker looks: without a driver, a GPU on the bus makes a warning of it."""
    devices = pathlib.Path("/sys/bus/pci/devices")
    return devices.exists() and any(
        (d / "vendor").read_text().strip() == "0x10de" for d in devices.iterdir())


def run_rows(rows, bin_dir, work):
    quiet = "WARNING" if has_gpu() else "INFO"
    empty, search = without_cublas(bin_dir, work)
    for name, environment, message, more in [
            ("no code for the GPU", emulator(CAPABILITY=70),
             r"GPU 0 \(.*sm_70.*\): this build has code for sm_75, ", {}),
            ("old driver", emulator(DRIVER="12.4"),
             r"the driver supports CUDA 12\.4, this build needs 13\.\d: update the driver to 580 "
             r"or later, or build with the 12\.x toolkit", {}),
            ("no driver", emulator(DRIVER="none"), r"no (NVIDIA )?driver", {"level": quiet}),
            ("no GPU", emulator(DEVICES=0), r"CUDA sees no GPU", {"level": "INFO"}),
            ("index too large", emulator(), r"there is no GPU 3; CUDA sees 1, counted from 0",
             {"worker": "device_index: 3"}),
            ("no cuBLAS", {**emulator(), **search},
             r"GPU 0 .*: cuBLAS cannot be loaded: .*; install it", {"bin_dir": empty}),
    ]:
        if rows.wants(name):
            refusal = {key: value for key, value in more.items() if key != "level"}
            rows.refused(name, environment, message, **refusal)
            rows.falls_back(name, environment, message, **more)
    name = "BFLOAT16 on sm_75"
    if rows.wants(name):
        rows.ends_at_once(name, emulator(CAPABILITY=75),
                          r"every worker is left out of this job; last: worker/0: .*GPU 0 .*sm_75.*"
                          r"does not compute BFLOAT16, which needs sm_80 or later",
                          {"compute_precision": "BFLOAT16"})
    name = "FLOAT16 on sm_75"
    if rows.wants(name):
        rows.succeeds(name, emulator(CAPABILITY=75), {"compute_precision": "FLOAT16"})
    name = "out of memory at the start"
    if rows.wants(name):
        rows.ends_at_once(name, emulator(MEMORY_MIB=16),
                          r"every worker is left out of this job; last: worker/0: no device for "
                          r"the model: GPU 0: .*cudaMalloc: CUDA error 2")
    larger_later = {"evaluation.batch_size": 300, "train.synthetic.examples": 40}
    name = "out of memory in a later batch"
    if rows.wants(name):
        rows.ends_at_once(name, emulator(MEMORY_MIB=42),
                          r"every worker is left out of this job; last: worker/0.*GPU 0: .*"
                          r"cudaMalloc: CUDA error 2",
                          larger_later, units=MANY)
    name = "memory limit"
    if rows.wants(name):
        rows.ends_at_once(name, emulator(), r"the limit is 40 MiB; use a smaller batch or raise it",
                          larger_later, worker="device_memory_limit_mib: 40", units=MANY)
    for name, message, settings in [
            ("cuBLASLt knows no algorithm",
             r"cuBLASLt advises nothing for a product of 10 x 32 x 60 with a bias: "
             r"cuBLAS status 15",
             {"MONSOON_EMULATOR_CUBLASLT": "no_algorithm"}),
            ("cuBLASLt is off", "", {"MONSOON_EMULATOR_CUBLASLT": "no_algorithm",
                                     "MONSOON_CUBLASLT": "off"})]:
        if rows.wants(name):
            rows.does_without_cublas_lt(name, message, **settings)
    if rows.wants("each allocation"):
        rows.each_allocation_fails()
    # The first operation is the kernel that tries the device, the third the network's.
    for name, after in [("the device is lost at the start", 3), ("the device is lost", 2000)]:
        if rows.wants(name):
            rows.device_is_lost(name, after)


def add_options(parser):
    parser.add_argument("--worker", type=pathlib.Path,
                        help="a worker linked with the emulator, its libcublas.so and "
                        f"libcublasLt.so beside it; default {EMULATOR}/worker of --bin")
    parser.add_argument("--only", default="", help="the rows with this in their name")


def run(checks, options):
    worker = options.worker or options.bin / EMULATOR / "worker"
    with tempfile.TemporaryDirectory(prefix="monsoon-first-run-") as folder:
        work = pathlib.Path(folder)
        bin_dir = work / "bin"
        bin_dir.mkdir()
        for name in ("coordinator", "ps_server"):
            # `up` finds the other programs beside its own, where it really is.
            (bin_dir / name).mkdir()
            shutil.copy(options.bin / name / name, bin_dir / name / name)
        (bin_dir / "worker").mkdir()
        (bin_dir / "worker" / "worker").symlink_to(worker.resolve())
        run_rows(Rows(checks, bin_dir, options.only, work), bin_dir, work)
