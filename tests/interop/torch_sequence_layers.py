"""What PyTorch makes of the layers of sequences, for the reference backend's test.

    torch_sequence_layers.py [--write] TABLE

Computes loss and gradients of the models of CASES in double and compares with TABLE
(worker/backend/reference/testdata/torch_sequence_layers.txt), from which
worker/backend/reference:sequence_layers_test takes its values; --write writes it anew.
Needs Debian's python3-torch; the test itself needs nothing.

A line is the case's name, "loss" and the loss, or the case's name, a tensor's number in the
order of the layout, and its gradient in C order.
"""

import sys

import kept_table
import torch
from torch.nn import functional

EXAMPLES = 3


def parameter(tensor, index):
    """As in sequence_layers_test.cc."""
    return ((index * 7 + tensor * 13 + index * index) % 33 - 16) / 32.0


def sample_value(index):
    return ((index * 11 + index * index) % 31 - 15) / 8.0


def sample_id(index, rows):
    return (index * 5 + index * index) % rows


def label(index, classes):
    return (index * 3 + 1) % classes


class Tensors:
    """Makes a model's parameters in the order of their layout."""

    def __init__(self):
        self.all = []

    def __call__(self, *shape):
        count = 1
        for extent in shape:
            count *= extent
        values = [parameter(len(self.all), i) for i in range(count)]
        tensor = torch.tensor(values, dtype=torch.float64).reshape(shape).requires_grad_()
        self.all.append(tensor)
        return tensor


def samples(*shape):
    count = EXAMPLES
    for extent in shape:
        count *= extent
    values = [sample_value(i) for i in range(count)]
    return torch.tensor(values, dtype=torch.float64).reshape(EXAMPLES, *shape)


def attend(x, heads, causal, weight, bias, out_weight, out_bias):
    steps = x.shape[1]
    mask = torch.full((steps, steps), float("-inf"), dtype=torch.float64).triu(1)
    y, _ = functional.multi_head_attention_forward(
        x.transpose(0, 1), x.transpose(0, 1), x.transpose(0, 1), x.shape[2], heads, weight, bias,
        None, None, False, 0.0, out_weight, out_bias, attn_mask=mask if causal else None,
        need_weights=False)
    return y.transpose(0, 1)


def make_lstm(tensors, features, units, bidirectional):
    lstm = torch.nn.LSTM(features, units, batch_first=True, bidirectional=bidirectional)
    lstm = lstm.to(torch.float64)
    for suffix in [""] + (["_reverse"] if bidirectional else []):
        for name, shape in (("weight_ih_l0", (4 * units, features)),
                            ("weight_hh_l0", (4 * units, units)), ("bias_ih_l0", (4 * units,))):
            delattr(lstm, name + suffix)
            setattr(lstm, name + suffix, torch.nn.Parameter(tensors(*shape).detach()))
            tensors.all[-1] = getattr(lstm, name + suffix)
        getattr(lstm, "bias_hh_l0" + suffix).data.zero_()
    return lstm


def gpt(tensors):
    """Embedding, positions, a block with causal attention of three heads, tied outputs."""
    ids = torch.tensor([sample_id(i, 7) for i in range(EXAMPLES * 5)]).reshape(EXAMPLES, 5)
    table = tensors(7, 6)
    x = table[ids] + tensors(5, 6)
    y = functional.layer_norm(x, (6,), tensors(6), tensors(6))
    x = x + attend(y, 3, True, tensors(18, 6), tensors(18), tensors(6, 6), tensors(6))
    y = functional.layer_norm(x, (6,), tensors(6), tensors(6), eps=1e-3)
    y = functional.gelu(functional.linear(y, tensors(8, 6), tensors(8)))
    x = x + functional.linear(y, tensors(6, 8), tensors(6))
    return functional.linear(x, table, tensors(7))


def lstms(tensors):
    """A bidirectional one that tells all steps, and one that tells the last."""
    y, _ = make_lstm(tensors, 3, 4, True)(samples(5, 3))
    y, _ = make_lstm(tensors, 8, 5, False)(y)
    return functional.linear(y[:, -1], tensors(4, 5), tensors(4))


def ends(tensors):
    """Attention without biases and mask; a bidirectional LSTM that tells its two ends."""
    y = functional.layer_norm(samples(4, 6), (6,), tensors(6))
    y = attend(y, 2, False, tensors(18, 6), None, tensors(6, 6), None)
    y, _ = make_lstm(tensors, 6, 3, True)(y)
    y = torch.cat([y[:, -1, :3], y[:, 0, 3:]], dim=1)
    return functional.linear(y, tensors(4, 6))


CASES = [gpt, lstms, ends]


def lines():
    torch.set_num_threads(1)
    for case in CASES:
        tensors = Tensors()
        outputs = case(tensors)
        outputs = outputs.reshape(-1, outputs.shape[-1])
        labels = torch.tensor([label(i, outputs.shape[1]) for i in range(outputs.shape[0])])
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        yield f"{case.__name__} loss {loss.item():.12g}"
        for number, tensor in enumerate(tensors.all):
            values = tensor.grad.reshape(-1).tolist()
            yield " ".join([case.__name__, str(number)] + [f"{value:.12g}" for value in values])


if __name__ == "__main__":
    sys.exit(kept_table.main(__doc__, lines(), 1e-11))
