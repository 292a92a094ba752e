"""The examples, some steps each, on a fake library."""

import pytest

import common


@pytest.fixture(autouse=True)
def data(monkeypatch):
    """Without the data set: some random images."""
    import numpy
    if common.FASHION_MNIST.is_dir():
        return
    random = numpy.random.default_rng(1)

    def some(limit=None):
        return [(random.random((limit, 28, 28), numpy.float32), random.integers(0, 10, limit))] * 2

    monkeypatch.setattr(common, "fashion_mnist", some)


def losses(out):
    return [float(line.split("loss=")[1].split()[0]) for line in out.splitlines()
            if "loss=" in line]


@pytest.mark.parametrize("every", ["0", "4"])
def test_mlp_numpy(library, capsys, every):
    import mlp_numpy
    mlp_numpy.main(["--coordinator=host:1", "--limit=512", "--epochs=6", "--rate=0.1",
                    f"--every={every}"])
    told = capsys.readouterr().out
    first, *_, last = losses(told)
    assert last < 1.6 < 2.0 < first and "steps=48" in told
    assert told.count("step=") <= 3


@pytest.mark.parametrize("every", ["0", "4"])
def test_lenet_torch(library, capsys, every):
    pytest.importorskip("torch")
    import lenet_torch
    lenet_torch.main(["--coordinator=host:1", "--limit=256", "--epochs=2", f"--every={every}"])
    told = capsys.readouterr().out
    assert losses(told)[-1] < 2.32 and "steps=8" in told


def test_trigrams_torch(library, capsys, monkeypatch):
    pytest.importorskip("torch")
    import trigrams_torch
    kinds = {"/usr/include": [f"int value_{i} = {i};" for i in range(300)]}
    monkeypatch.setattr(trigrams_torch, "lines_of", lambda folder, pattern, count: kinds.get(
        folder, [f"value_{i} = sum({i})" for i in range(300)]))
    trigrams_torch.main(["--coordinator=host:1", "--epochs=2", "--batch=16"])
    told = capsys.readouterr().out
    assert "rows: 1000000" in library.replicas[0].job.tables and "test: loss=" in told


def test_gpt_bytes(library, capsys, tmp_path):
    pytest.importorskip("torch")
    import gpt_bytes
    text = tmp_path / "text"
    text.write_text("".join(f"{i} times {i} is {i * i}.\n" for i in range(600)))
    gpt_bytes.main(["--coordinator=host:1", f"--text={text}", "--limit=48", "--every=2"])
    told = capsys.readouterr().out
    first, *_, last = losses(told)
    assert last < first - 0.2
    assert "head.weight" in library.jobs["gpt-bytes"].tensors[0][3]


def test_articles_are_whole(tmp_path):
    pytest.importorskip("torch")
    import gzip

    import gpt_bytes
    texts = [f"article {i}\n" * (i + 1) for i in range(40)]
    path = tmp_path / "some.dict.dz"
    path.write_bytes(gzip.compress("".join(texts).encode()))
    digits = "".join(gpt_bytes._DIGITS)
    number = lambda value: digits[value // 64] + digits[value % 64]
    offsets = [sum(map(len, texts[:i])) for i in range(20)]
    (tmp_path / "some.index").write_text("".join(
        f"word{i}\t{number(offset)}\t{number(len(texts[i]))}\n"
        for i, offset in enumerate(offsets) if offset < 4096))
    parts = gpt_bytes.articles(path)
    assert [part.decode() for part in parts] == texts[:len(parts)] and len(parts) > 15
    train, test = gpt_bytes.split(parts, every=5)
    assert bytes(test.tolist()).startswith(b"article 0\narticle 5\n")
    assert b"article 5" not in bytes(train.tolist())
