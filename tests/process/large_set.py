"""Trains on a .npy file of 4 GiB and says what memory a worker takes and how fast it reads.

By hand: it writes the file first (with as much free space in the folder, removed at the end) and
takes some minutes. The programs must have been built. The same Downpour job of a softmax layer,
one worker, batches of 64 drawn by the epoch's permutation, runs three times:

    ON_DISK, cold   the file's pages are thrown out of the kernel's cache twice a second
    ON_DISK         they stay there if there is memory for them
    IN_MEMORY       the file is read whole first

One line each: samples a second while it trains, and the worker's VmHWM, the most memory that it
ever had resident, of whatever kind (Linux counts no page of the file in it: it is read, not
mapped). An ON_DISK worker must take less than --limit-mib.
"""

import os
import pathlib
import tempfile
import threading

import numpy

from tests.tools.local_cluster import LocalCluster, training_seconds

SHAPE = (3, 32, 32)
VALUES = 3 * 32 * 32
CLASSES = 10
BATCH = 64
CHUNK = 1 << 14
JOB = """
name: "large"
model {{ input_shape: [3, 32, 32] layer {{ flatten {{}} }} layer {{ dense {{ units: 10 }} }} }}
train {{ npy {{ images: "{images}" labels: "{labels}" }} residence: {residence} }}
batch_size: 64
seed: 1
downpour {{ n_fetch: 20 n_push: 20 optimizer {{ sgd {{ rate: 0.01 }} }} }}
stop {{ steps: {steps} }}
"""


def write_set(folder, samples):
    """Bytes that differ from sample to sample; the label is the band with more light in it."""
    random = numpy.random.default_rng(1)
    images = folder / "images.npy"
    with open(images, "wb") as file:
        numpy.lib.format.write_array_header_1_0(
            file, {"descr": "|u1", "fortran_order": False, "shape": (samples, *SHAPE)})
        labels = random.integers(0, CLASSES, samples).astype(numpy.uint8)
        for begin in range(0, samples, CHUNK):
            part = labels[begin:begin + CHUNK]
            block = random.integers(0, 128, (len(part), VALUES), dtype=numpy.uint8)
            band = numpy.arange(VALUES) * CLASSES // VALUES
            block[band[None, :] == part[:, None]] += 64
            block.tofile(file)
        file.flush()
        os.fsync(file.fileno())
    numpy.save(folder / "labels.npy", labels)
    return images


def worker_memory_kib(cluster_path):
    """VmHWM of the worker of that cluster."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().split(b"\0")
            status = (process / "status").read_text()
        except OSError:
            continue
        if line[0].endswith(b"/worker") and any(
                str(cluster_path).encode() in word for word in line):
            return int(status.split("VmHWM:")[1].split()[0])
    raise RuntimeError("the worker is not there")


def throw_out(path, stop):
    """Until `stop` is set."""
    descriptor = os.open(path, os.O_RDONLY)
    while not stop.wait(0.5):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def train(options, folder, images, residence, cold):
    """Samples a second, and KiB."""
    job = folder / "job.textproto"
    job.write_text(JOB.format(images=images, labels=folder / "labels.npy", residence=residence,
                              steps=options.steps))
    stop = threading.Event()
    thread = threading.Thread(target=throw_out, args=(images, stop))
    if cold:
        thread.start()
    try:
        with LocalCluster(ps=1, workers=1, bin_dir=options.bin) as cluster:
            description = cluster.run(job)
            memory = worker_memory_kib(cluster.path)
    finally:
        stop.set()
        if cold:
            thread.join()
    return options.steps * BATCH / training_seconds(description), memory


def add_options(parser):
    parser.add_argument("--gib", type=float, default=4)
    parser.add_argument("--folder", default="/tmp")
    parser.add_argument("--steps", type=int, default=20000)
    parser.add_argument("--limit-mib", type=float, default=512)


def run(checks, options):
    samples = int(options.gib * (1 << 30)) // VALUES
    with tempfile.TemporaryDirectory(prefix="large-set-", dir=options.folder) as name:
        folder = pathlib.Path(name)
        images = write_set(folder, samples)
        print(f"{samples} samples, {images.stat().st_size} bytes", flush=True)
        for residence, cold in (("ON_DISK", True), ("ON_DISK", False), ("IN_MEMORY", False)):
            rate, kib = train(options, folder, images, residence, cold)
            print(f"{residence}{', cold' if cold else ''}: {rate:.0f} samples/s, "
                  f"worker's VmHWM {kib / 1024:.0f} MiB", flush=True)
            if residence == "ON_DISK":
                checks.check(f"less than {options.limit_mib:g} MiB{', cold' if cold else ''}",
                             kib / 1024 < options.limit_mib, kib / 1024)
