"""Whole jobs on emulated GPUs: the shipped worker, relinked with the emulator, in a cluster
of real processes.

Each job runs on the CPU and then on the emulator. It must end SUCCEEDED with the CPU's
accuracy within a tolerance, kernels must have run on each GPU's behalf, and the emulator
must report nothing. --full: more samples and epochs, without the emulator's checks of
memory. Without CUDA in the build all is skipped.
"""

import json
import pathlib
import re
import shutil
import tempfile

from tests.tools.local_cluster import ROOT, LocalCluster

CONFIGS = ROOT / "configs/job"
EMULATOR = "tests/gpu/emulator"
GRAPH = ROOT / "tests/gpu/graph_model.textproto"
# Samples of the test set; 0.02 of them is twice the deviation of an accuracy near 0.8.
TEST_SAMPLES = 2000

# name, job file, settings of a job, {setting: value} of --full, GPUs, schedule, tolerance
# of the accuracy.
JOBS = [
    # How stale each of so few steps is decides the accuracy (0.52 to 0.61), and time decides how
    # stale they are: without an overlap both devices take the same steps.
    ("downpour", "lenet_downpour",
     {"train.limit": 1600, "stop.epochs": 1, "test.limit": 500, "downpour.overlap": "NONE"},
     {"train.limit": 20000, "stop.epochs": 3}, 1, "late", 0.01),
    ("downpour on two GPUs", "mlp_downpour", {"train.limit": 6000, "stop.epochs": 2},
     {"train.limit": 30000, "stop.epochs": 3}, 2, "7", 0.04),
    ("downpour in FLOAT16", "mlp_downpour",
     {"train.limit": 6000, "stop.epochs": 2, "compute_precision": "FLOAT16"},
     {"train.limit": 30000, "stop.epochs": 3}, 1, "eager", 0.04),
    # Layers with several inputs, and statistics that no optimizer moves.
    ("downpour of a graph", "mlp_downpour",
     {"model_file": GRAPH, "train.limit": 1600, "stop.epochs": 1, "test.limit": 500},
     {"train.limit": 20000, "stop.epochs": 3}, 1, "6", 0.04),
    # Sums, local updates and what the GPUs tell each other stay on them.
    ("downpour with local updates on two GPUs", "mlp_downpour",
     {"train.limit": 6000, "stop.epochs": 2, "downpour.n_fetch": 5, "downpour.n_push": 5},
     {"train.limit": 30000, "stop.epochs": 3}, 2, "9", 0.04),
    # Adam's moments stay there too, and a difference is what the device has moved.
    ("local steps by AdamW on two GPUs", "mlp_downpour",
     {"train.limit": 6000, "stop.epochs": 2,
      "downpour": "{ local { steps: 10 inner { adam_w { rate: 0.002 } } } }"},
     {"train.limit": 30000, "stop.epochs": 3}, 2, "5", 0.04),
    ("sandblaster on two GPUs", "sandblaster_mlp",
     {"train.limit": 2000, "sandblaster.max_iterations": 12},
     {"train.limit": 10000, "sandblaster.max_iterations": 40}, 2, "8", 0.02),
]


def make_programs(folder, binaries):
    """A folder of programs with the emulator's worker; `up` looks beside its own."""
    for name in ("coordinator", "ps_server"):
        (folder / name).mkdir()
        shutil.copy2(binaries / name / name, folder / name / name)
    (folder / "worker").mkdir()
    for name in ("worker", "libcublas.so.13", "libcublasLt.so.13"):
        shutil.copy2(binaries / EMULATOR / name, folder / "worker" / name)
    return folder


class Jobs:
    def __init__(self, checks, options, folder):
        self.check = checks.check
        self.full = options.full
        self.folder = folder
        self.programs = make_programs(folder, options.bin)

    def accuracy(self, job, settings, device, replicas, environment):
        worker = (f'worker {{ address: "unix:{{sockets}}/w" device: {device} '
                  f'replicas: {replicas} }}')
        with LocalCluster(ps=1, workers=0, bin_dir=self.programs, environment=environment,
                          settings=[worker]) as cluster:
            described = cluster.run(CONFIGS / f"{job}.textproto", settings, timeout=900)
            cluster.stop()
            return described["final"]["test_accuracy"], cluster.log_path.read_text()

    def run(self, name, job, settings, full_settings, gpus, schedule, tolerance):
        settings = {"test.limit": TEST_SAMPLES, **settings,
                    **(full_settings if self.full else {})}
        on_cpu = {k: v for k, v in settings.items() if k != "compute_precision"}
        want, _ = self.accuracy(job, on_cpu, "CPU", gpus, {})
        stats = self.folder / "stats.json"
        reports = self.folder / "reports"
        for file in (stats, reports):
            file.unlink(missing_ok=True)
        got, log = self.accuracy(job, settings, "CUDA", gpus, {
            "MONSOON_EMULATOR_SCHEDULE": schedule,
            "MONSOON_EMULATOR_DEVICES": str(gpus),
            "MONSOON_EMULATOR_STATS": str(stats),
            "MONSOON_EMULATOR_REPORTS": str(reports),
            "MONSOON_EMULATOR_CHECK": "off" if self.full else "on",
        })
        self.check(f"{name}: the CPU's accuracy", abs(got - want) <= tolerance,
                   f"{got} for {want} on the CPU")
        self.check(f"{name}: no report", not reports.exists(),
                   reports.read_text() if reports.exists() else "")
        counts = json.loads(stats.read_text()) if stats.exists() else {}
        self.check(f"{name}: kernels and products ran",
                   counts.get("launches", 0) > 0 and counts.get("products", 0) > 0, log[-2000:])
        copied = re.findall(r"MiB crossed, (\d+) bytes were copied by the host", log)
        self.check(f"{name}: the host copied no vector", copied and set(copied) == {"0"},
                   f"{copied}; {log[-2000:]}")
        print(f"{name}: accuracy {got} ({want} on the CPU), "
              f"{counts.get('launches')} launches, {counts.get('products')} products, "
              f"{counts.get('bytes_to_device')} bytes up, {counts.get('bytes_to_host')} down",
              flush=True)


def run(checks, options):
    if not (options.bin / EMULATOR / "libcublas.so.13").exists():
        checks.skip("all jobs", "CUDA is not built in")
        return
    for job in JOBS:
        with tempfile.TemporaryDirectory(prefix="monsoon-jobs-") as folder:
            try:
                Jobs(checks, options, pathlib.Path(folder)).run(*job)
            except RuntimeError as error:
                checks.check(job[0], False, error)
