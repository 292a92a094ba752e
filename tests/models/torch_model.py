"""A model file as a PyTorch module, layer by layer as proto/model.proto says it: the peer that
tests of accuracy and speed compare with. Parameters have the names that an exported model has."""

import math

import torch
import torch.nn.functional as F

from model_text import of, one

KINDS = {"dense": "dense", "conv2d": "conv", "average_pool2d": "average_pool",
         "max_pool2d": "max_pool", "relu": "relu", "sigmoid": "sigmoid", "tanh": "tanh",
         "dropout": "dropout", "flatten": "flatten", "add": "add", "multiply": "multiply",
         "concat": "concat", "locally_connected2d": "local", "local_contrast_norm": "contrast",
         "batch_norm": "batch_norm", "layer_norm": "layer_norm", "embedding": "embedding",
         "position_embedding": "position", "lstm": "lstm", "self_attention": "attention",
         "gelu": "gelu", "global_average_pool": "global_pool", "rescale": "rescale",
         "augment": "augment"}


class TorchModel(torch.nn.Module):
    """`tensors`: arrays by name, as numpy has them."""

    def __init__(self, model, tensors):
        super().__init__()
        self.loss_kind = one(model, "loss", "SOFTMAX_CROSS_ENTROPY")
        self._layers = []
        counts = {}
        before = "input"
        for layer in of(model, "layer"):
            kind = next(kind for kind in KINDS if kind in layer)
            counts[kind] = counts.get(kind, 0) + 1
            name = one(layer, "name") or f"{KINDS[kind]}{counts[kind]}"
            inputs = of(layer, "input") or [before]
            self._layers.append((kind, name, inputs, one(layer, kind)))
            before = name
        self._tensors = {}
        for name, values in tensors.items():
            tensor = torch.from_numpy(values).clone()
            if name.endswith(("/mean", "/variance")):
                self._tensors[name] = tensor  # running statistics: no parameters
            else:
                self._tensors[name] = torch.nn.Parameter(tensor)
                self.register_parameter(name.replace("/", "__").replace(".", "_"),
                                        self._tensors[name])
        self._lstms = torch.nn.ModuleDict()
        for kind, name, _, settings in self._layers:
            if kind == "lstm":
                self._lstms[name] = self._lstm(name, settings)

    def tensors(self):
        return self._tensors

    def gradients(self):
        """Of the last backward pass, by name."""
        found = {name: tensor.grad for name, tensor in self._tensors.items()
                 if tensor.requires_grad and tensor.grad is not None}
        for name, lstm in self._lstms.items():
            for ours, theirs in self._lstm_names(name, lstm.bidirectional):
                found[ours] = getattr(lstm, theirs).grad
        return found

    def forward(self, sample):
        values = {"input": sample}
        for kind, name, inputs, settings in self._layers:
            taken = [values[i] for i in inputs]
            values[name] = getattr(self, "_" + kind)(name, settings, *taken)
        return values[self._layers[-1][1]]

    def loss(self, outputs, labels=None, targets=None):
        if self.loss_kind == "SOFTMAX_CROSS_ENTROPY":
            return F.cross_entropy(outputs.flatten(0, -2), labels.flatten())
        if self.loss_kind == "ONE_VERSUS_ALL_LOGISTIC":
            hot = F.one_hot(labels, outputs.shape[-1]).to(outputs.dtype)
            return F.binary_cross_entropy_with_logits(outputs, hot, reduction="sum") / len(labels)
        if self.loss_kind == "BINARY_CROSS_ENTROPY":
            goal = targets if targets is not None else labels.to(outputs.dtype).view_as(outputs)
            return F.binary_cross_entropy_with_logits(outputs, goal)
        goal = targets if targets is not None else labels.to(outputs.dtype).view_as(outputs)
        return F.mse_loss(outputs, goal)

    def _of(self, name, suffix):
        return self._tensors.get(f"{name}/{suffix}")

    def _dense(self, name, settings, x):
        weight = self._of(one(settings, "tied_to") or name, "weight")
        return F.linear(x, weight, self._of(name, "bias"))

    def _conv2d(self, name, settings, x):
        return F.conv2d(x, self._of(name, "weight"), self._of(name, "bias"),
                        stride=one(settings, "stride", 1), padding=one(settings, "padding", 0))

    def _average_pool2d(self, _, settings, x):
        return F.avg_pool2d(x, one(settings, "window"), one(settings, "stride"))

    def _max_pool2d(self, _, settings, x):
        return F.max_pool2d(x, one(settings, "window"), one(settings, "stride"))

    def _relu(self, _, __, x):
        return F.relu(x)

    def _sigmoid(self, _, __, x):
        return torch.sigmoid(x)

    def _tanh(self, _, __, x):
        return torch.tanh(x)

    def _gelu(self, _, __, x):
        return F.gelu(x)

    def _dropout(self, _, settings, x):
        return F.dropout(x, one(settings, "rate", 0.0), self.training)

    def _flatten(self, _, __, x):
        return x.flatten(1)

    def _add(self, _, __, *inputs):
        return sum(inputs[1:], inputs[0])

    def _multiply(self, _, __, *inputs):
        return math.prod(inputs[1:], start=inputs[0])

    def _concat(self, _, __, *inputs):
        return torch.cat(inputs, dim=1 if inputs[0].dim() == 4 else -1)

    def _locally_connected2d(self, name, settings, x):
        weight, bias = self._of(name, "weight"), self._of(name, "bias")
        kernel = one(settings, "kernel")
        columns = F.unfold(x, kernel, padding=one(settings, "padding", 0),
                           stride=one(settings, "stride", 1))
        height, width, filters = weight.shape[:3]
        products = torch.einsum("nkp,pfk->nfp", columns,
                                weight.reshape(height * width, filters, -1))
        out = products.reshape(len(x), filters, height, width)
        return out if bias is None else out + bias

    def _local_contrast_norm(self, _, settings, x):
        window = one(settings, "window", 0) or 9
        mode = one(settings, "mode", "SUBTRACTIVE_AND_DIVISIVE")
        epsilon = one(settings, "epsilon", 0) or 1e-4
        places = torch.arange(window, dtype=x.dtype) - window // 2
        line = torch.exp(-0.5 * (places / (window / 4)) ** 2)
        weights = (line[:, None] * line[None, :])[None, None]

        def mean(values):
            """The Gaussian mean over the neighbourhood and all channels."""
            summed = F.conv2d(values.mean(1, keepdim=True), weights, padding=window // 2)
            there = F.conv2d(torch.ones_like(values[:1, :1]), weights, padding=window // 2)
            return summed / there

        if mode != "DIVISIVE":
            x = x - mean(x)
        if mode == "SUBTRACTIVE":
            return x
        deviation = mean(x * x).sqrt()
        floor = deviation.mean(dim=(2, 3), keepdim=True).clamp(min=epsilon)
        return x / torch.maximum(deviation, floor)

    def _batch_norm(self, name, settings, x):
        return F.batch_norm(x, self._of(name, "mean"), self._of(name, "variance"),
                            self._of(name, "weight"), self._of(name, "bias"), self.training,
                            one(settings, "momentum", 0) or 0.1, one(settings, "epsilon", 0) or 1e-5)

    def _layer_norm(self, name, settings, x):
        return F.layer_norm(x, x.shape[-1:], self._of(name, "weight"), self._of(name, "bias"),
                            one(settings, "epsilon", 0) or 1e-5)

    def _embedding(self, name, _, x):
        return F.embedding(x.long(), self._of(name, "weight"))

    def _position_embedding(self, name, _, x):
        return x + self._of(name, "weight")

    @staticmethod
    def _lstm_names(name, bidirectional):
        pairs = [("weight", "weight_ih_l0"), ("recurrent", "weight_hh_l0"), ("bias", "bias_ih_l0")]
        if bidirectional:
            pairs += [("backward_" + ours, theirs + "_reverse") for ours, theirs in pairs]
        return [(f"{name}/{ours}", theirs) for ours, theirs in pairs]

    def _lstm(self, name, settings, x=None):
        if x is None:
            weight = self._of(name, "weight")
            bidirectional = bool(one(settings, "bidirectional", False))
            lstm = torch.nn.LSTM(weight.shape[1], weight.shape[0] // 4, batch_first=True,
                                 bidirectional=bidirectional)
            with torch.no_grad():
                for ours, theirs in self._lstm_names(name, bidirectional):
                    getattr(lstm, theirs).copy_(self._tensors[ours])
                    other = theirs.replace("bias_ih", "bias_hh")
                    if other != theirs:
                        getattr(lstm, other).zero_().requires_grad_(False)
            return lstm
        outputs, (last, _) = self._lstms[name](x)
        if one(settings, "sequences", False):
            return outputs
        return last.transpose(0, 1).flatten(1)

    def _self_attention(self, name, settings, x):
        heads = one(settings, "heads", 1) or 1
        n, steps, features = x.shape
        q, k, v = (part.view(n, steps, heads, -1).transpose(1, 2)
                   for part in F.linear(x, self._of(name, "weight"),
                                        self._of(name, "bias")).split(features, dim=2))
        scores = (q @ k.transpose(-2, -1)) * (features // heads) ** -0.5
        if one(settings, "causal", False):
            scores = scores.masked_fill(~torch.ones(steps, steps, dtype=torch.bool).tril(),
                                        float("-inf"))
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(n, steps, features)
        return F.linear(mixed, self._of(name, "out_weight"), self._of(name, "out_bias"))

    def _global_average_pool(self, _, __, x):
        return x.mean(dim=(2, 3)) if x.dim() == 4 else x.mean(dim=1)

    def _rescale(self, _, settings, x):
        return x * (one(settings, "scale", 0) or 1) + one(settings, "offset", 0)

    def _augment(self, _, settings, x):
        crop = one(settings, "crop", 0)
        if not crop:
            return x
        top, left = (x.shape[2] - crop) // 2, (x.shape[3] - crop) // 2
        return x[:, :, top:top + crop, left:left + crop]
