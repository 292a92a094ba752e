"""Exported files are whole: they load with strict=True."""

import json
import struct

import numpy
import pytest

torch = pytest.importorskip("torch")

import monsoon as ms  # noqa: E402
from monsoon import layout as layouts, model_file  # noqa: E402
from test_real import cluster, pytestmark as needs_build  # noqa: E402, F401

TYPES = {"F64": "f8", "F32": "f4", "F16": "f2", "BF16": "u2", "I64": "i8", "BOOL": "?"}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.norm = torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)
        self.frozen, self.head = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.frozen.half().requires_grad_(False)
        self.head.weight = self.inner.weight
        self.other = self.frozen
        self.register_buffer("ours", torch.ones(2), persistent=False)
        self.register_buffer("mask", torch.tensor([True, False, True]))

    def forward(self, x):
        return self.head(self.norm(self.inner(x)) + self.frozen.weight.float().sum())


def read_safetensors(path):
    """Values by name, with those of other names; nothing overlaps, and there are no holes."""
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(size)), file.read()
    tied, end = header.pop("__metadata__", {}), 0
    values = {}
    assert (8 + size) % 8 == 0
    for name, part in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end_of = part["data_offsets"]
        assert begin == end
        end = end_of
        array = numpy.frombuffer(data[begin:end], TYPES[part["dtype"]]).reshape(part["shape"])
        values[name] = torch.from_numpy(array.copy())
    assert end == len(data)
    return values, tied


def write_safetensors(path, arrays):
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, array in arrays.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape),
                        "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(
        array.tobytes() for array in arrays.values()))


def read_whole(path):
    if path.endswith(".npz"):
        with numpy.load(path) as file:
            return {name: torch.from_numpy(file[name]) for name in file.files}
    values, tied = read_safetensors(path)
    assert tied["format"] == "pt"
    return {**values, **{name: values[of] for name, of in tied.items() if name != "format"}}


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_a_file_gets_what_stays_here_and_all_names(tmp_path, suffix):
    model, path = Model(), tmp_path / f"model.{suffix}"
    layout = layouts.of_module(model)
    arrays = {entry.name: entry.source.detach().numpy() + 1 for entry in layout.entries}
    if suffix == "npz":
        numpy.savez(path, **arrays)
    else:
        write_safetensors(path, arrays)
    model_file.complete(str(path), layout, model)
    state = read_whole(str(path))
    fresh = Model()
    fresh.load_state_dict(state, strict=True)
    assert {"head.weight", "other.bias", "mask", "norm.num_batches_tracked"} <= state.keys()
    for name, tensor in fresh.state_dict().items():
        of = {"head.weight": "inner.weight"}.get(name, name)
        expected = torch.from_numpy(arrays[of]) if of in arrays else model.state_dict()[name]
        assert torch.equal(tensor, expected), name
    assert sorted(p.name for p in tmp_path.iterdir()) == [path.name]


def test_a_file_that_has_all_stays_as_it_is(tmp_path):
    model, path = torch.nn.Linear(2, 2), tmp_path / "model.safetensors"
    write_safetensors(path, {"weight": numpy.zeros((2, 2), "f4"), "bias": numpy.zeros(2, "f4")})
    before = path.read_bytes()
    model_file.complete(str(path), layouts.of_module(model), model)
    assert path.read_bytes() == before


def test_a_type_that_no_file_has_is_told_by_name(tmp_path):
    model, path = torch.nn.Linear(2, 2), tmp_path / "model.safetensors"
    model.register_buffer("turns", torch.zeros(2, dtype=torch.complex64))
    write_safetensors(path, {"weight": numpy.zeros((2, 2), "f4"), "bias": numpy.zeros(2, "f4")})
    before = path.read_bytes()
    with pytest.raises(ms.UnsupportedTensor, match="turns is of torch.complex64.*whole=False"):
        model_file.complete(str(path), layouts.of_module(model), model)
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1


@needs_build
def test_an_export_loads_with_strict(cluster, tmp_path):  # noqa: F811
    model = Model()
    with ms.join(cluster.address, job="whole", model=model, optimizer=ms.SGD(0.1), max_steps=5,
                 examples=20, batch=4, overlap=False) as job:
        for ids in job.blocks():
            model(torch.randn(len(ids), 4)).sum().backward()
            job.step()
    for suffix in ("npz", "safetensors"):
        path = job.export(str(tmp_path / f"model.{suffix}"))
        fresh = Model()
        fresh.load_state_dict(read_whole(path), strict=True)
        for name, tensor in fresh.state_dict().items():
            assert torch.equal(tensor, model.state_dict()[name]), name
        alone = job.export(str(tmp_path / f"alone.{suffix}"), whole=False)
        told = numpy.load(alone).files if suffix == "npz" else read_safetensors(alone)[0]
        assert "mask" not in told and "head.weight" not in told and "inner.weight" in told
