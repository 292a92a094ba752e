#!/usr/bin/python3
"""Exported ONNX models against the CPU backend: the logits are the same within 1e-5.

    onnx_cases_test.py [--bin=bazel-bin] [--onnxruntime]

write_cases writes models and what the backend says of some samples. A reader of our own
evaluates the files in NumPy. By hand, with --onnxruntime, onnxruntime does so too, and onnx's
checker judges the files: pip install onnxruntime onnx, and run this with that Python.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy

import onnx_evaluator
import onnx_file

ROOT = pathlib.Path(__file__).absolute().parents[2]
TOLERANCE = 1e-5
OPSET = 17


def centred(x):
    """Softmax leaves the outputs' level open."""
    return x - x.mean(axis=-1, keepdims=True)


def by_reader(path, inputs):
    graph = onnx_file.read(path)
    assert graph.opset == OPSET and graph.inputs == ["input"] and graph.outputs == ["output"]
    return onnx_evaluator.evaluate(graph, inputs)


def by_onnxruntime(path, inputs):
    import onnx
    import onnxruntime
    onnx.checker.check_model(onnx.load(path), full_check=True)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(["output"], {"input": inputs})[0]


def apart(found, expected):
    """The largest difference of all logits, as a share of the largest one above 1."""
    assert found.shape == expected.shape, (found.shape, expected.shape)
    expected = centred(expected.astype(numpy.float64))
    assert numpy.isfinite(expected).all() and expected.std(axis=0).max() > 1e-3, "says nothing"
    return abs(expected - centred(found.astype(numpy.float64))).max() / max(1, abs(expected).max())


def differences(stem, is_built, with_onnxruntime):
    """By what they are of."""
    with numpy.load(f"{stem}.inputs.npz") as file:
        inputs = file["inputs"]
    read = by_reader(f"{stem}.onnx", inputs)
    result = {}
    if is_built:
        with numpy.load(f"{stem}.outputs.npz") as file:
            expected = numpy.log(file["probabilities"].astype(numpy.float64))
        result["CPU backend"] = apart(read, expected)
    if with_onnxruntime:
        ran = by_onnxruntime(f"{stem}.onnx", inputs)
        result["reader and onnxruntime"] = apart(ran, read)
        if is_built:
            result["CPU backend and onnxruntime"] = apart(ran, expected)
    return result


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--bin", default=None)
    parser.add_argument("--onnxruntime", action="store_true")
    options = parser.parse_args()
    binaries = pathlib.Path(options.bin) if options.bin else ROOT
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        told = subprocess.run([str(binaries / "tests/onnx/write_cases"), str(ROOT / "configs"),
                               folder], check=True, stdout=subprocess.PIPE, text=True).stdout
        for line in told.splitlines():
            name, _, state = line.partition(": ")
            is_built = state == "written"
            found = differences(pathlib.Path(folder) / name, is_built, options.onnxruntime)
            print(f"{name}: {state}" + "".join(f"; {of} {by:.1e}" for of, by in found.items()))
            if not all(by < TOLERANCE for by in found.values()):
                failed.append(f"{name} differs")
            if not is_built:
                failed.append(f"{name} is not built in")
    if failed or not told:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
