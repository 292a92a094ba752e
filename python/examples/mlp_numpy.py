"""A perceptron with one hidden layer, in NumPy alone, on Fashion-MNIST.

    python3 mlp_numpy.py --alone --epochs=2
    python3 mlp_numpy.py --coordinator=127.0.0.1:2221        # in several terminals
"""

import sys

import numpy

import common
import monsoon as ms


def make_model(seed, hidden=128):
    random = numpy.random.default_rng(seed)

    def dense(outputs, inputs):
        return random.uniform(-1, 1, (outputs, inputs)).astype(numpy.float32) / inputs ** 0.5

    return {"hidden.weight": dense(hidden, 784), "hidden.bias": numpy.zeros(hidden, numpy.float32),
            "output.weight": dense(10, hidden), "output.bias": numpy.zeros(10, numpy.float32)}


def forward(model, x):
    """Hidden activations and log-probabilities, [n, hidden] and [n, 10]."""
    hidden = numpy.maximum(x @ model["hidden.weight"].T + model["hidden.bias"], 0)
    scores = hidden @ model["output.weight"].T + model["output.bias"]
    scores -= scores.max(axis=1, keepdims=True)
    return hidden, scores - numpy.log(numpy.exp(scores).sum(axis=1, keepdims=True))


def backward(model, x, y, out):
    """Writes the gradient of the mean cross-entropy to `out`; the loss."""
    hidden, logs = forward(model, x)
    rows = numpy.arange(len(y))
    wrong = numpy.exp(logs)
    wrong[rows, y] -= 1
    wrong /= len(y)
    back = (wrong @ model["output.weight"]) * (hidden > 0)
    numpy.matmul(wrong.T, hidden, out=out["output.weight"])
    numpy.sum(wrong, axis=0, out=out["output.bias"])
    numpy.matmul(back.T, x, out=out["hidden.weight"])
    numpy.sum(back, axis=0, out=out["hidden.bias"])
    return float(-logs[rows, y].mean())


def main(argv):
    options = common.arguments(__doc__, argv, batch=64, rate=0.05).parse_args(argv)
    (x, y), (test_x, test_y) = common.fashion_mnist(options.limit)
    x, test_x = x.reshape(len(x), 784), test_x.reshape(len(test_x), 784)
    model = make_model(options.seed)

    def evaluate(model):
        logs = forward(model, test_x)[1]
        return {"loss": -logs[numpy.arange(len(test_y)), test_y].mean(),
                "accuracy": (logs.argmax(axis=1) == test_y).mean()}

    local = options.every > 0
    optimizer = ms.Local(None, every=options.every) if local else ms.Adagrad(options.rate)
    job = ms.join(job="mlp-numpy", model=model, optimizer=optimizer, evaluate=evaluate,
                  **common.settings(options))
    lines = common.Lines()
    own = {name: numpy.empty_like(value) for name, value in model.items()}
    with job:
        for ids in job.blocks(len(x), batch=options.batch):
            loss = backward(model, x[ids], y[ids], own if local else job.gradients)
            if local:
                for name, gradient in own.items():
                    model[name] -= numpy.float32(options.rate) * gradient
            job.step(loss)
            lines.step(job, lambda: loss)
    print("test: " + " ".join(f"{n}={v:.4f}" for n, v in evaluate(model).items()))
    common.finish(job, options)


if __name__ == "__main__":
    main(sys.argv[1:])
