"""Tables of real jobs after their end: resumed on other shards, exported, inspected. Skipped
unless a build is named, as test_real."""

import pathlib

import numpy

import monsoon as ms
from monsoon import _library
from test_real import pytestmark  # noqa: F401

TABLES = [ms.Table("words", 500, 3, lr=0.3, initial_sum=0.1, normal=1.0),
          ms.Table("large", 200_000, 8, lr=0.1)]


def train(address, name, epochs):
    random = numpy.random.default_rng(1)
    wanted = {"words": random.normal(size=(500, 3)), "large": random.normal(size=(200_000, 8))}
    with ms.join(address, job=name, model={"w": numpy.zeros(64, "f4")}, epochs=epochs, seed=3,
                 optimizer=ms.Adagrad(0.1), overlap=False, tables=TABLES) as job:
        for ids in job.blocks(40, batch=4):
            for table, rows in (("words", ids * 11 % 500), ("large", ids * 997 % 30_000)):
                fetched = job.fetch_rows(table, rows)
                job.push_rows(table, rows, (fetched - wanted[table][rows]).astype("f4"))
            job.step(gradients={"w": numpy.ones(64, "f4")})
    return job


def test_a_resumed_job_goes_on_with_its_rows_on_any_shards(tmp_path):
    """The bits of a job in one piece: rows, their sums, and rows that nobody has touched."""
    before = _library.use(None)
    try:
        with ms.local_cluster(ps=2, state_dir=str(tmp_path / "a")) as one, \
                ms.local_cluster(ps=3, state_dir=str(tmp_path / "b")) as other:
            whole = train(one.address, "whole", 4)
            half = train(one.address, "half", 2)
            [folder] = (tmp_path / "a" / "jobs").glob(f"{half.id}@*")
            client = ms.Client(other.path)
            resumed = client.resume(str(folder), settings={"stop.epochs": 4})
            job = train(other.address, "half", 4)
            assert job.id == resumed and job.stats.steps == 20
            expected, found = ms.Client(one.path).load(whole.id), client.load(resumed)
            assert {name: a.shape for name, a in found.items()} == {
                "w": (64,), "words": (500, 3), "large": (200_000, 8)}
            for name, array in expected.items():
                assert numpy.array_equal(array, found[name]), name

            # The checkpoint has the same, in both formats.
            told = client._json("inspect", resumed)
            assert told["model"]["tables"] == [{"name": "words", "rows": 500, "columns": 3},
                                               {"name": "large", "rows": 200_000, "columns": 8}]
            parts = told["generations"][0]["parts"]
            # 30,000 rows of 36 bytes are in two stripes of seven; words has one on each shard.
            assert sum(part["tables"][1]["touched_stripes"] for part in parts) == 2
            assert sum(part["tables"][1]["stripes"] for part in parts) == 7
            assert [part["tables"][0]["touched_stripes"] for part in parts] == [1, 1, 1]
            [kept] = (tmp_path / "b" / "jobs").glob(f"{resumed}@*")
            path = pathlib.Path(tmp_path / "kept.npz")
            client._command("export", f"--from={kept}", f"--out={path}")
            with numpy.load(path) as file:
                assert all(numpy.array_equal(file[name], expected[name]) for name in expected)
            client._command("export", f"--from={kept}", f"--out={tmp_path / 'kept.safetensors'}")
            data = (tmp_path / "kept.safetensors").read_bytes()
            assert data.endswith(expected["large"].tobytes())
    finally:
        _library.use(before)
