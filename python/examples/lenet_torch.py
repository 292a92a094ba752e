"""LeNet in torch on Fashion-MNIST.

    python3 lenet_torch.py --alone --epochs=2
    python3 lenet_torch.py --coordinator=127.0.0.1:2221               # in several terminals
    python3 lenet_torch.py --coordinator=127.0.0.1:2221 --every=100   # AdamW here
"""

import sys

import torch
import torch.nn.functional as F

import common
import monsoon as ms


def make_model(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 6, 5, padding=2), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(6, 16, 5), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
        torch.nn.Linear(400, 120), torch.nn.ReLU(), torch.nn.Linear(120, 84), torch.nn.ReLU(),
        torch.nn.Linear(84, 10))


def main(argv):
    options = common.arguments(__doc__, argv, batch=64, rate=0.02).parse_args(argv)
    parts = [(torch.from_numpy(images)[:, None], torch.from_numpy(labels))
             for images, labels in common.fashion_mnist(options.limit)]
    (x, y), (test_x, test_y) = parts
    model = make_model(options.seed)

    def evaluate(model):
        out = torch.cat([model(part) for part in test_x.split(500)])
        return {"loss": F.cross_entropy(out, test_y),
                "accuracy": (out.argmax(1) == test_y).float().mean()}

    if options.every > 0:
        optimizer = ms.Local(torch.optim.AdamW(model.parameters(), lr=1e-3), every=options.every)
    else:
        # Without a warm-up the first gradients of several programs slow Adagrad for good.
        optimizer = ms.Adagrad(options.rate, schedule=ms.WarmUp(300))
    job = ms.join(job="lenet-torch", model=model, optimizer=optimizer, evaluate=evaluate,
                  **common.settings(options))
    lines = common.Lines()
    with job:
        for ids in job.blocks(len(x), batch=options.batch):
            loss = F.cross_entropy(model(x[ids]), y[ids])
            loss.backward()
            job.step(loss)
            lines.step(job, loss.item)
    with torch.no_grad():
        print("test: " + " ".join(f"{n}={v:.4f}" for n, v in evaluate(model).items()))
    common.finish(job, options)


if __name__ == "__main__":
    main(sys.argv[1:])
