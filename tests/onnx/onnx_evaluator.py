"""What an ONNX graph computes (opset 17), in NumPy: the operators that common/onnx writes, as
ONNX's documentation defines them."""

import math

import numpy

F = numpy.float32
_erf = numpy.vectorize(math.erf, otypes=[F])


def _windows(x, kernel, strides):
    """[n, c, height, width, kernel, kernel]."""
    all_windows = numpy.lib.stride_tricks.sliding_window_view(x, kernel, axis=(2, 3))
    return all_windows[:, :, ::strides[0], ::strides[1]]


def conv(a, x, weight, bias=None):
    top, left, bottom, right = a["pads"]
    x = numpy.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    y = numpy.einsum("nchwij,ocij->nohw", _windows(x, a["kernel_shape"], a["strides"]), weight,
                     optimize=True)
    return y if bias is None else y + bias[:, None, None]


def batch_normalization(a, x, scale, shift, mean, variance):
    shape = (-1,) + (1,) * (x.ndim - 2)
    x = (x - mean.reshape(shape)) / numpy.sqrt(variance.reshape(shape) + F(a["epsilon"]))
    return x * scale.reshape(shape) + shift.reshape(shape)


def layer_normalization(a, x, scale, shift=None):
    axes = tuple(range(a["axis"] % x.ndim, x.ndim))
    centred = x - x.mean(axis=axes, keepdims=True)
    variance = (centred ** 2).mean(axis=axes, keepdims=True)
    y = centred / numpy.sqrt(variance + F(a["epsilon"])) * scale
    return y if shift is None else y + shift


def sigmoid(x):
    return 1 / (1 + numpy.exp(-x))


def softmax(x, axis):
    e = numpy.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def lstm(a, x, weight, recurrent, bias):
    """x [steps, n, features]; gates i, o, f, c. All h [steps, directions, n, units], the last."""
    steps, n, _ = x.shape
    units = a["hidden_size"]
    directions = {"forward": 1, "bidirectional": 2}[a["direction"]]
    all_h = numpy.zeros((steps, directions, n, units), F)
    last = numpy.zeros((directions, n, units), F)
    for d in range(directions):
        h = c = numpy.zeros((n, units), F)
        both = bias[d, :4 * units] + bias[d, 4 * units:]
        for t in range(steps) if d == 0 else reversed(range(steps)):
            i, o, f, g = numpy.split(x[t] @ weight[d].T + h @ recurrent[d].T + both, 4, axis=1)
            c = sigmoid(f) * c + sigmoid(i) * numpy.tanh(g)
            h = sigmoid(o) * numpy.tanh(c)
            all_h[t, d] = h
        last[d] = h
    return all_h, last


def gemm(a, x, weight, bias=None):
    y = x @ (weight.T if a.get("transB") else weight)
    return y if bias is None else y + bias


def reshape(x, shape):
    return x.reshape([x.shape[i] if extent == 0 else extent for i, extent in enumerate(shape)])


def slice_of(x, begin, end, axes):
    index = [slice(None)] * x.ndim
    for first, last, axis in zip(begin, end, axes):
        index[axis] = slice(first, last)
    return x[tuple(index)]


OPERATORS = {
    "Add": lambda a, x, y: x + y,
    "AveragePool": lambda a, x: _windows(x, a["kernel_shape"], a["strides"]).mean(axis=(4, 5)),
    "BatchNormalization": batch_normalization,
    "Cast": lambda a, x: x.astype({7: numpy.int64}[a["to"]]),
    "Concat": lambda a, *x: numpy.concatenate(x, axis=a["axis"]),
    "Conv": conv,
    "Erf": lambda a, x: _erf(x),
    "Flatten": lambda a, x: x.reshape(math.prod(x.shape[:a["axis"]]), -1),
    "Gather": lambda a, x, ids: x[ids],
    "Gemm": gemm,
    "GlobalAveragePool": lambda a, x: x.mean(axis=(2, 3), keepdims=True),
    "Identity": lambda a, x: x,
    "LSTM": lstm,
    "LayerNormalization": layer_normalization,
    "MatMul": lambda a, x, y: x @ y,
    "MaxPool": lambda a, x: _windows(x, a["kernel_shape"], a["strides"]).max(axis=(4, 5)),
    "Mul": lambda a, x, y: x * y,
    "ReduceMean": lambda a, x: x.mean(axis=tuple(a["axes"]), keepdims=bool(a["keepdims"])),
    "Relu": lambda a, x: numpy.maximum(x, 0),
    "Reshape": lambda a, x, shape: reshape(x, shape),
    "Sigmoid": lambda a, x: sigmoid(x),
    "Slice": lambda a, x, begin, end, axes: slice_of(x, begin, end, axes),
    "Softmax": lambda a, x: softmax(x, a["axis"]),
    "Split": lambda a, x: numpy.split(x, 3, axis=a["axis"]),
    "Tanh": lambda a, x: numpy.tanh(x),
    "Transpose": lambda a, x: x.transpose(a["perm"]),
}


def evaluate(graph, inputs):
    """The graph's one output for its one input."""
    values = dict(graph.weights)
    values[graph.inputs[0]] = inputs
    for node in graph.nodes:
        results = OPERATORS[node.op](node.attributes, *(values[name] for name in node.inputs))
        if len(node.outputs) == 1:
            results = [results]
        if len(results) != len(node.outputs):
            raise ValueError(f"{node.op} gives {len(results)} values, not {len(node.outputs)}")
        for name, result in zip(node.outputs, results):
            if result.dtype == numpy.float64:
                raise ValueError(f"{node.op} computes in double here")
            values[name] = result
    return values[graph.outputs[0]]
