"""Keeps models and reuses them, with the real programs as a user calls them.

Trains a small job on two shards, ends the cluster, and without it inspects, exports,
evaluates and predicts from the disk; then goes on with the checkpoint on three shards,
from theirs on one, where nothing is left to train: parameters, optimizer state and
versions must be the same to the last bit.
"""

import json
import pathlib
import struct
import tempfile

import numpy

from tests.tools.local_cluster import LocalCluster
from tests.tools.tiny_job import tiny_job

JOB = tiny_job(units=50, more="""
batch_size: 10
stripe_kib: 1
downpour { optimizer { adagrad { rate: 0.02 } } }
stop { epochs: 2 }
""")
EPOCHS = 2


def read_safetensors(path):
    """{name: array} of the float32 tensors, by the format's own words."""
    data = pathlib.Path(path).read_bytes()
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    return {name: numpy.frombuffer(data[8 + length + entry["data_offsets"][0]:
                                        8 + length + entry["data_offsets"][1]],
                                   dtype="<u4").reshape(entry["shape"])
            for name, entry in header.items()
            if name != "__metadata__" and entry["dtype"] == "F32"}


def read_generation(report, generation):
    """{tensor: bits} of all parts of a generation, put together from their pieces, as a
    stranger would."""
    pieces = {}
    for part in of_generation(report, generation)["parts"]:
        for name, bits in read_safetensors(
                part["manifest"].removesuffix(".manifest") + ".safetensors").items():
            tensor, piece = name.split("[")
            begin, end = (int(number) for number in piece.rstrip(")").split(":"))
            assert bits.shape == (end - begin,), name
            pieces.setdefault(tensor, []).append((begin, end, bits))
    tensors = {}
    for tensor, found in pieces.items():
        found.sort(key=lambda piece: piece[0])
        assert [piece[0] for piece in found] == [0] + [piece[1] for piece in found[:-1]], tensor
        tensors[tensor] = numpy.concatenate([piece[2] for piece in found])
    return tensors


def of_generation(report, generation):
    return next(one for one in report["generations"] if one["generation"] == generation)


def same_tensors(one, other):
    return one.keys() == other.keys() and all(
        numpy.array_equal(one[name], other[name]) for name in one)


class Kept:
    """One job's way through the programs. Files lie in `folder`."""

    def __init__(self, checks, folder, binaries):
        self.checks = checks
        self.folder = pathlib.Path(folder)
        self.binaries = binaries
        self.job = self.folder / "tiny.textproto"
        self.job.write_text(JOB)

    def cluster(self, ps, workers):
        return LocalCluster(ps=ps, workers=workers, bin_dir=self.binaries,
                            state_dir=self.folder / f"state_of_{ps}")

    def export(self, cluster, job, name, *flags):
        path = self.folder / name
        return path, cluster.command("export", job, f"--out={path}", *flags)

    def inspect(self, cluster, job):
        return json.loads(cluster.command("inspect", job, "--json").stdout)

    def check_report(self, report, described, shards):
        newest = report["generations"][0]
        check = self.checks.check
        check("inspect: job and model", report["job"] == described["job"] and report["ok"] and
              report["optimizer"] == "adagrad" and len(report["model"]["tensors"]) == 4 and
              report["model"]["parameters"] == 60 * 50 + 50 + 50 * 3 + 3, report)
        check("inspect: the last generation", newest["complete"] and newest["ok"] and
              newest["shards"] == shards and len(newest["parts"]) == shards and
              newest["context"]["final"] and newest["context"]["epoch"] == EPOCHS and
              newest["context"]["steps"] == described["progress"]["step"], newest)
        return newest

    def train(self):
        """Trains, ends the cluster, reads the disk. The bits that were trained."""
        check = self.checks.check
        with self.cluster(ps=2, workers=2) as cluster:
            described = cluster.run(self.job)
            live, result = self.export(cluster, described["job"], "live.npz")
            check("a live export says nothing of checkpoints", result.stderr == "", result.stderr)
            cluster.stop()

            report = self.inspect(cluster, described["job"])
            newest = self.check_report(report, described, shards=2)
            kept, result = self.export(cluster, "latest", "kept.npz")
            check("export from disk is the live one", kept.read_bytes() == live.read_bytes())
            check("export from disk says so", "not reached" in result.stderr and
                  f"generation {newest['generation']}" in result.stderr, result.stderr)
            tensors, _ = self.export(cluster, described["job"], "kept.safetensors")
            arrays = numpy.load(live)
            check("safetensors are the same tensors", same_tensors(
                read_safetensors(tensors),
                {name: arrays[name].view("<u4") for name in arrays.files}))
            self.check_local_runs(cluster, described, live, tensors)
            bits = read_generation(report, newest["generation"])
            check("a stranger reads the pieces", all(
                numpy.array_equal(bits[name], arrays[name].view("<u4").ravel())
                for name in arrays.files), sorted(bits))
            check("the optimizer's state is there", len(bits) == 2 * len(arrays.files))
            return described, newest, live, bits

    def check_local_runs(self, cluster, described, npz, safetensors):
        results = {what: json.loads(cluster.command("evaluate", "--json", *flags).stdout)
                   for what, flags in {
                       "the live export": [f"--model={npz}", f"--job={self.job}"],
                       "safetensors": [f"--model={safetensors}", f"--job={self.job}"],
                       "the checkpoint": [f"--model={described['job']}"]}.items()}
        self.checks.check("evaluations are the same", len({
            json.dumps(result) for result in results.values()}) == 1, results)
        self.checks.check("evaluation is the job's", abs(
            results["the checkpoint"]["test_accuracy"] -
            described["final"]["test_accuracy"]) < 1e-9, results)
        out = self.folder / "predicted.npy"
        cluster.command("predict", f"--model={described['job']}", f"--out={out}")
        predicted = numpy.load(out)
        self.checks.check("predictions", predicted.shape == (300, 3) and
                          numpy.allclose(predicted.sum(axis=1), 1, atol=1e-5))

    def resume(self, source, shards, trained):
        """Goes on with nothing left to do; the folder of what it has kept."""
        described, newest, live, bits = trained
        check = self.checks.check
        with self.cluster(ps=shards, workers=1) as cluster:
            result = cluster.command("submit", f"--resume={source}", "--name=again", "--watch",
                                     timeout=300)
            check(f"{shards} shards: says what it resumes", " generation " in result.stdout and
                  f"(epoch {EPOCHS}.0, {described['progress']['step']} steps) as again-1\n"
                  in result.stdout, result.stdout)
            check(f"{shards} shards: says that it is at its stop",
                  "is at its stop already" in result.stderr, result.stderr)
            path, _ = self.export(cluster, "again-1", f"again_{shards}.npz")
            check(f"{shards} shards: the same parameters", path.read_bytes() == live.read_bytes())
            report = self.inspect(cluster, "again-1")
            kept = report["generations"][0]
            check(f"{shards} shards: state to the bit",
                  same_tensors(read_generation(report, kept["generation"]), bits))
            versions = [max(part["version_max"] for part in one["parts"])
                        for one in (newest, kept)]
            check(f"{shards} shards: versions go on", versions[0] == versions[1], versions)
            self.resume_held(cluster, "again-1", live, bits)
            return report["folder"]

    def resume_held(self, cluster, source, live, bits):
        """The same by name, of what the shards hold."""
        check = self.checks.check
        result = cluster.command("submit", f"--resume={source}", "--name=held", "--watch",
                                 timeout=300)
        check("the shards hold it: nothing is copied", ", from what the shards hold\n" in
              result.stdout, result.stdout)
        path, _ = self.export(cluster, "held-2", "held.npz")
        check("what they make of it has the same parameters",
              path.read_bytes() == live.read_bytes())
        report = self.inspect(cluster, "held-2")
        check("and the same state", same_tensors(
            read_generation(report, report["generations"][0]["generation"]), bits))

    def train_on(self, source, described):
        """Trains one epoch more, and is refused with another model."""
        check = self.checks.check
        with self.cluster(ps=1, workers=2) as cluster:
            result = cluster.run(None, {"stop.epochs": EPOCHS + 1}, timeout=300,
                                 flags=[f"--resume={source}", "--name=more"])
            check("a resumed job trains on", result["progress"]["epoch"] >= EPOCHS + 1 and
                  result["progress"]["step"] > described["progress"]["step"], result["progress"])
            wide = self.folder / "wide.textproto"
            wide.write_text(JOB.replace("units: 50", "units: 51"))
            refused = cluster.command("submit", str(wide), f"--resume={source}", check=False)
            check("another layout is refused by its first tensor", refused.returncode == 2 and
                  "dense1/weight is (50, 60) in" in refused.stderr, refused.stderr)

    def keep_best(self):
        """The generation that did best stays, with the very parameters that were tested. The
        rate is so large that the accuracy goes up and down."""
        check = self.checks.check
        job = self.folder / "best.textproto"
        job.write_text(JOB.replace("name: \"tiny\"", "name: \"best\"")
                       .replace("adagrad { rate: 0.02 }", "sgd { rate: 0.05 }")
                       + "evaluation { every_epochs: 0.25 }\n"
                         "checkpoint { keep_best: TEST_ACCURACY every_seconds: 0.2 }\n")
        with self.cluster(ps=2, workers=2) as cluster:
            described = cluster.run(job, {"stop.epochs": 60})
            tests = described["evaluations"]
            best = described["durability"]["best"]
            check("each test is of a generation of its own", len(tests) >= 4 and len(
                {test["generation"] for test in tests}) == len(tests), tests)
            first = max(tests, key=lambda test: test["test_accuracy"])
            check("the best is the first that was not beaten",
                  best["generation"] == first["generation"] and
                  best["accuracy"] == first["test_accuracy"], (best, first))
            live, _ = self.export(cluster, described["job"], "best.npz", "--best")
            cluster.stop()

            report = self.inspect(cluster, described["job"])
            kept = [one["generation"] for one in report["generations"]]
            check("it stays beside the two newest", len(kept) <= 3 and
                  best["generation"] in kept and report["ok"], (kept, best))
            disk, _ = self.export(cluster, described["job"], "best_of_disk.npz", "--best")
            check("the disk knows it, too", disk.read_bytes() == live.read_bytes())
            result = json.loads(cluster.command(
                "evaluate", "--json", f"--model={live}", f"--job={job}").stdout)
            check("evaluate gives the recorded figure",
                  abs(result["test_accuracy"] - best["accuracy"]) < 1e-9 and
                  abs(result["test_loss"] - best["loss"]) < 1e-6, (result, best))


def run(checks, options):
    with tempfile.TemporaryDirectory(prefix="monsoon-kept-") as folder:
        kept = Kept(checks, folder, options.bin)
        trained = kept.train()
        source = str(kept.folder / "state_of_2" / "jobs")
        source = next(str(path) for path in pathlib.Path(source).iterdir())
        on_three = kept.resume(source, shards=3, trained=trained)
        on_one = kept.resume(on_three, shards=1, trained=trained)
        kept.train_on(on_one, trained[0])
        kept.keep_best()
