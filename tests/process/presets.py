"""The models of configs/model as the jobs of configs/job, Downpour and Sandblaster, on a cluster
of real processes: each for a short while, and its test loss must fall.

Where a job file names data that a user has, they are made here in the format it reads: pictures
of Fashion-MNIST as CIFAR-10's files and as folders of PNG files, showers, articles. Without
dictionaries the text jobs are skipped. Prints for each job steps or iterations, the first and
the last test loss, and how much memory a worker and a ps took at most.
"""

import gzip
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import zlib

import numpy

from tests.tools.checks import Unusable
from tests.tools.local_cluster import ROOT, LocalCluster

CONFIGS = ROOT / "configs"
FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")
# One worker of one replica, and one of two.
WORKERS = 1
PAIR = 'worker { address: "unix:{sockets}/pair" device: CPU replicas: 2 threads: 1 }'

# A job's settings beside what all have: samples to train with and to test with, steps of
# Downpour, iterations of Sandblaster. Of more than five million parameters: 20 and 2.
SIZES = {
    "batchnorm_cnn": (4000, 1000, 120, 5), "cifar10": (2000, 500, 100, 5),
    "dsn": (4000, 1000, 200, 8), "gpt": (2400, 200, 200, 5), "image_cnn": (320, 80, 20, 2),
    "lenet": (4000, 1000, 200, 8), "local_contrast": (2000, 500, 100, 5),
    "mlp": (4000, 1000, 200, 8), "nowcast": (64, 16, 20, 2), "resnet": (1000, 300, 60, 4),
    "speech": (2560, 400, 20, 2), "text_classifier": (4000, 1000, 200, 6)}
LARGE = {"image_cnn", "nowcast", "speech"}
TEXT = {"gpt", "text_classifier"}


def fashion(which, count):
    """[count, 28, 28] and [count], uint8."""
    with gzip.open(FASHION / f"{which}-images-idx3-ubyte.gz") as file:
        images = numpy.frombuffer(file.read(16 + count * 784), numpy.uint8, offset=16)
    with gzip.open(FASHION / f"{which}-labels-idx1-ubyte.gz") as file:
        labels = numpy.frombuffer(file.read(8 + count), numpy.uint8, offset=8)
    return images.reshape(-1, 28, 28), labels


def write_cifar10(folder):
    """Padded, in three equal colours: a label and 3 x 32 x 32 values a record."""
    folder.mkdir(parents=True)
    for which, name, count in (("train", "data_batch_1", 2000), ("t10k", "test_batch", 500)):
        images, labels = fashion(which, count)
        images = numpy.pad(images, ((0, 0), (2, 2), (2, 2)))
        records = numpy.concatenate([labels[:, None]] + [images.reshape(count, -1)] * 3, axis=1)
        (folder / f"{name}.bin").write_bytes(records.tobytes())


def png(image):
    height, width = image.shape
    rows = numpy.concatenate([numpy.zeros((height, 1), numpy.uint8), image], axis=1)
    chunks = ((b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)),
              (b"IDAT", zlib.compress(rows.tobytes(), 1)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks)


def write_pictures(folder):
    """Five of the classes, each a folder."""
    images, labels = fashion("train", 900)
    for at, (image, label) in enumerate(zip(images, labels)):
        if label < 5:
            place = folder / f"kind{label}"
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{at:04}.png").write_bytes(png(numpy.kron(image, numpy.ones((4, 4), "u1"))))


def make(script, *arguments):
    subprocess.run([sys.executable, str(CONFIGS / "data" / script), *map(str, arguments)],
                   check=True, stdout=subprocess.DEVNULL)


class Presets:
    def __init__(self, checks, options, folder):
        self._checks = checks
        self._bin = options.bin
        self._dictionaries = options.dictionaries
        self._folder = folder
        self._made = {}

    def _data(self, model):
        """What to set so that the job finds data."""
        data = self._folder / "data"
        if model in ("cifar10", "resnet"):
            return self._once("cifar10", lambda: write_cifar10(data / "cifar"), {
                "train.cifar10.file": data / "cifar/data_batch_*.bin",
                "test.cifar10.file": data / "cifar/test_batch.bin"})
        if model == "image_cnn":
            return self._once("pictures", lambda: write_pictures(data / "pictures"), {
                "train.image_folder.path": data / "pictures",
                "test.image_folder.path": data / "pictures"})
        if model == "nowcast":
            return self._once("radar", lambda: make(
                "radar.py", f"--out={data}", "--train=64", "--test=16"), {
                    "train.npz.file": data / "radar-train.npz",
                    "test.npz.file": data / "radar-test.npz"})
        if model == "text_classifier":
            return self._once("articles", lambda: make(
                "articles.py", f"--out={data}", f"--yes={self._dictionaries}/foldoc",
                f"--no={self._dictionaries}/gcide"), {
                    "train.npz.file": data / "articles-train.npz",
                    "test.npz.file": data / "articles-test.npz"})
        if model == "gpt":
            file = self._dictionaries / "gcide.dict.dz"
            return {"train.text.file": file, "test.text.file": file}
        return {}

    def _once(self, name, write, settings):
        if name not in self._made:
            (self._folder / "data").mkdir(exist_ok=True)
            write()
            self._made[name] = True
        return settings

    def run(self, model):
        train, test, steps, iterations = SIZES[model]
        suffix = "_synthetic" if model == "speech" else ""
        common = {"train.limit": train, "test.limit": test, **self._data(model)}
        if suffix:
            common = {"train.synthetic.examples": train, "test.synthetic.examples": test}
        self._job(f"{model}_downpour{suffix}", {
            **common, "stop.epochs": 0, "stop.steps": steps,
            "evaluation.every_epochs": 0}, steps, "steps")
        settings = {**common, "sandblaster.max_iterations": iterations,
                    "sandblaster.evaluate_every_iterations": 1}
        if model in LARGE:
            settings["sandblaster.history"] = 3
        if "sample_examples" in self._text(f"sandblaster_{model}{suffix}"):
            settings["sandblaster.sample_examples"] = train
        self._job(f"sandblaster_{model}{suffix}", settings, iterations, "iterations")

    def _text(self, job):
        return (CONFIGS / "job" / f"{job}.textproto").read_text(encoding="utf-8")

    def _job(self, job, settings, limit, what):
        file = CONFIGS / "job" / f"{job}.textproto"
        with LocalCluster(ps=2, workers=WORKERS, bin_dir=self._bin,
                          settings=[PAIR]) as cluster:
            losses = []
            try:
                if what == "steps":  # Where it starts: what one step leaves.
                    first = cluster.run(file, {**settings, "stop.steps": 1}, timeout=600)
                    losses.append(first["evaluations"][-1]["test_loss"])
                described = cluster.run(file, settings, timeout=1200)
            except RuntimeError as error:
                self._checks.check(f"{job} ends SUCCEEDED", False, error)
                return
            memory = {role: max(peaks(described[role])) for role in ("workers", "shards")}
        losses += [e["test_loss"] for e in described["evaluations"]]
        done = (described["progress"]["step"] if what == "steps"
                else described["sandblaster"]["iteration"])
        print(f"{job:36} {described['model']['parameters']:>11,} parameters {done:4} {what:10} "
              f"test loss {losses[0]:8.4f} -> {losses[-1]:8.4f}  worker {memory['workers']} MiB, "
              f"ps {memory['shards']} MiB, {described['elapsed_s']:.0f} s", flush=True)
        self._checks.check(f"{job} does its {what}", done >= limit, done)
        self._checks.check(f"{job}: the test loss falls", losses[-1] < losses[0], losses)


def peaks(tasks):
    """VmHWM in MiB."""
    for task in tasks:
        status = pathlib.Path(f"/proc/{task['pid']}/status").read_text(encoding="utf-8")
        yield int(re.search(r"VmHWM:\s+(\d+)", status).group(1)) >> 10


def add_options(parser):
    parser.add_argument("--dictionaries", type=pathlib.Path, default="/usr/share/dictd")
    parser.add_argument("models", nargs="*", help="default: all")


def run(checks, options):
    unknown = set(options.models) - set(SIZES)
    if unknown:
        raise Unusable(f"no such models: {', '.join(sorted(unknown))}; there are "
                       f"{', '.join(SIZES)}")
    with tempfile.TemporaryDirectory(prefix="monsoon-presets-") as folder:
        presets = Presets(checks, options, pathlib.Path(folder))
        for model in options.models or SIZES:
            if model in TEXT and not (options.dictionaries / "gcide.dict.dz").exists():
                checks.skip(model, f"no dict-gcide in {options.dictionaries}")
                continue
            presets.run(model)
