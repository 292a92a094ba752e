#!/usr/bin/python3
"""Draws models as SVG: a row a layer with its output's shape and its parameters, and beside them
what skips rows.

    draw_model.py [--check] [--out=docs/models] [MODEL.textproto ...]

Without files: each of configs/model, into docs/models/NAME.svg. --check writes nothing, and
exits with 1 if a picture is not what it would write, or is of no model. Exits with 2 at a file
that is no model; `coordinator validate` judges one more closely.
"""

import argparse
import html
import math
import pathlib
import sys

ROOT = pathlib.Path(__file__).absolute().parents[1]
sys.path.insert(0, str(ROOT / "tests/models"))
import model_text

ROW, GAP, LEFT, BOX, LANE = 22, 8, 12, 660, 12
COLOURS = {"weights": "#cfe2f3", "values": "#eeeeee", "pool": "#d9ead3", "norm": "#fff2cc",
           "join": "#fce5cd", "sequence": "#d9d2e9"}
GROUPS = {"weights": "dense conv2d locally_connected2d",
          "pool": "average_pool2d max_pool2d global_average_pool",
          "norm": "batch_norm layer_norm local_contrast_norm", "join": "add multiply concat",
          "sequence": "embedding position_embedding lstm self_attention"}
# The names that layers without one get, where that is not the kind (common/model/layer_kinds.h).
NAMES = {"conv2d": "conv", "average_pool2d": "average_pool", "max_pool2d": "max_pool",
         "locally_connected2d": "local", "local_contrast_norm": "contrast",
         "position_embedding": "position", "self_attention": "attention",
         "global_average_pool": "global_pool"}
KINDS = {kind for kinds in GROUPS.values() for kind in kinds.split()} | set(
    "relu gelu tanh sigmoid dropout flatten rescale augment".split())
LOSSES = {"SOFTMAX_CROSS_ENTROPY": "softmax cross-entropy",
          "ONE_VERSUS_ALL_LOGISTIC": "one-versus-all logistic",
          "BINARY_CROSS_ENTROPY": "binary cross-entropy",
          "MEAN_SQUARED_ERROR": "mean squared error"}


def one(fields, name, default=0):
    return fields.get(name, [default])[0]


def is_shape(extents):
    return bool(extents) and all(isinstance(n, int) and n > 0 for n in extents)


class Layer:
    """With its kind, settings, inputs (rows; 0 is the sample), output's shape and parameters."""

    def __init__(self, fields, rows, counts):
        if not isinstance(fields, dict):
            raise ValueError("is no layer { ... }")
        kinds = [field for field in fields if field not in ("name", "input")]
        if len(kinds) != 1 or kinds[0] not in KINDS:
            raise ValueError(f"has {' and '.join(kinds) or 'nothing'} for its kind")
        self.kind = kinds[0]
        self.settings = fields[self.kind][0]
        counts[self.kind] = counts.get(self.kind, 0) + 1
        usual = NAMES.get(self.kind, self.kind) + str(counts[self.kind])
        self.name = str(one(fields, "name", usual))
        names = [row.name for row in rows]
        unknown = [name for name in fields.get("input", []) if name not in names]
        if unknown:
            raise ValueError(f"has the input {unknown[0]}, which is no layer before it")
        self.inputs = [names.index(name) for name in fields.get("input", [names[-1]])]
        shapes = [rows[i].shape for i in self.inputs]
        try:
            self.shape, self.parameters = self.design(shapes, rows)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            self.shape = []
        if not is_shape(self.shape):
            raise ValueError(f"does not fit an input of {' and '.join(map(str, shapes))}")

    def extents(self, shape):
        """Of a window that moves over an image."""
        window = one(self.settings, "window") or one(self.settings, "kernel")
        stride = one(self.settings, "stride") or (window if "pool" in self.kind else 1)
        _, height, width = shape
        return window, [(n + 2 * one(self.settings, "padding") - window) // stride + 1
                        for n in (height, width)]

    def design(self, shapes, rows):
        s, kind, shape = self.settings, self.kind, shapes[0]
        bias = 0 if one(s, "no_bias") else 1
        if kind == "dense":
            tied = [row.shape_of_weight for row in rows if row.name == one(s, "tied_to", None)]
            units = tied[0][0] if tied else one(s, "units")
            weights = 0 if tied else units * shape[-1]
            return shape[:-1] + [units], weights + bias * units
        if kind in ("conv2d", "locally_connected2d"):
            window, extents = self.extents(shape)
            filters = one(s, "filters")
            places = math.prod(extents) if kind == "locally_connected2d" else 1
            return [filters] + extents, places * filters * (shape[0] * window * window + bias)
        if kind in ("max_pool2d", "average_pool2d"):
            return [shape[0]] + self.extents(shape)[1], 0
        if kind == "flatten":
            return [math.prod(shape)], 0
        if kind == "global_average_pool":
            return [shape[0] if len(shape) == 3 else shape[1]], 0
        if kind == "concat":
            axis = 0 if len(shape) == 3 else -1
            joined = list(shape)
            joined[axis] = sum(other[axis] for other in shapes)
            return joined, 0
        if kind == "batch_norm":
            return shape, shape[0] * (2 if one(s, "no_scale") else 4)
        if kind == "layer_norm":
            return shape, shape[-1] * (1 if one(s, "no_shift") else 2)
        if kind == "embedding":
            self.shape_of_weight = [one(s, "rows"), one(s, "columns")]
            return [shape[0], one(s, "columns")], math.prod(self.shape_of_weight)
        if kind == "position_embedding":
            return shape, math.prod(shape)
        if kind == "lstm":
            units, directions = one(s, "units"), 2 if one(s, "bidirectional") else 1
            steps = [shape[0]] if one(s, "sequences") else []
            return (steps + [directions * units],
                    directions * 4 * units * (shape[1] + units + 1))
        if kind == "self_attention":
            return shape, 4 * shape[1] * (shape[1] + bias)
        if kind == "augment" and one(s, "crop"):
            return [shape[0], one(s, "crop"), one(s, "crop")], 0
        return shape, 0

    def text(self):
        s, parts = self.settings, []
        for name in ("units", "filters", "rows", "heads"):
            if name in s:
                parts.append(f"{one(s, name)} {name}")
        if "columns" in s:
            parts[-1] += f" of {one(s, 'columns')}"
        window = one(s, "kernel") or one(s, "window")
        if window:
            parts.append(f"{window} x {window}")
        for name in ("stride", "padding", "rate", "scale", "offset", "shift", "crop"):
            said = one(s, name) != 1 if name == "stride" and "conv" in self.kind else one(s, name)
            if said and one(s, name):
                parts.append(f"{name} {one(s, name)}")
        parts += [text for name, text in (("bidirectional", "both directions"),
                                          ("sequences", "all steps"), ("causal", "causal"),
                                          ("flip", "flip"), ("no_bias", "no bias"))
                  if one(s, name)]
        if "tied_to" in s:
            parts.append(f"weight of {one(s, 'tied_to')}")
        return f"{self.kind} {', '.join(parts)}".strip()


class Sample:
    name, kind, inputs, parameters = "input", "input", [], 0

    def __init__(self, shape):
        self.shape = shape

    def text(self):
        return "the sample"


def lanes_of(rows):
    """(from, to, lane) of each edge that does not lead to the next row; none crosses another in
    its lane."""
    edges = sorted(((source, to) for to, row in enumerate(rows) for source in row.inputs
                    if source != to - 1), key=lambda edge: (edge[1] - edge[0], edge))
    taken, result = [], []
    for source, to in edges:
        free = [i for i, spans in enumerate(taken)
                if all(to <= a or b <= source for a, b in spans)]
        lane = free[0] if free else len(taken)
        if not free:
            taken.append([])
        taken[lane].append((source, to))
        result.append((source, to, lane))
    return result


def draw(text):
    model = model_text.parse(text)
    if not is_shape(model.get("input_shape")):
        raise ValueError("there is no input_shape, of numbers of at least 1")
    rows, counts = [Sample(model["input_shape"])], {}
    for number, fields in enumerate(model.get("layer", [])):
        try:
            rows.append(Layer(fields, rows, counts))
        except ValueError as error:
            raise ValueError(f"layer[{number}] {error}") from None
    if len(rows) == 1:
        raise ValueError("there is no layer")
    loss = one(model, "loss", "SOFTMAX_CROSS_ENTROPY")
    if loss not in LOSSES:
        raise ValueError(f"{loss} is no loss")
    edges = lanes_of(rows)
    lanes = max((lane + 1 for _, _, lane in edges), default=0)
    width = 2 * LEFT + BOX + (lanes + 1) * LANE * (lanes > 0)
    height = 40 + len(rows) * (ROW + GAP) + 16
    total = sum(row.parameters for row in rows)
    group = {kind: name for name, kinds in GROUPS.items() for kind in kinds.split()}
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
           f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
           '<defs><marker id="a" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="6" '
           'markerHeight="6" orient="auto"><path d="M0 0 L6 3 L0 6 z"/></marker></defs>',
           f'<rect width="{width}" height="{height}" fill="white"/>',
           f'<text x="{LEFT}" y="22" font-size="14"><tspan font-weight="bold">'
           f'{html.escape(str(one(model, "name", "model")))}</tspan>: {total:,} parameters</text>']

    def top(row):
        return 40 + row * (ROW + GAP)

    middle = LEFT + BOX // 2
    for i, row in enumerate(rows):
        y = top(i)
        colour = COLOURS[group.get(row.kind, "values")]
        out.append(f'<rect x="{LEFT}" y="{y}" width="{BOX}" height="{ROW}" rx="4" '
                   f'fill="{colour}" stroke="#666"/>')
        words = [(LEFT + 8, "start", row.name), (LEFT + 96, "start", row.text()),
                 (LEFT + BOX - 120, "end", " x ".join(map(str, row.shape)))]
        if row.parameters:
            words.append((LEFT + BOX - 8, "end", f"{row.parameters:,}"))
        out += [f'<text x="{x}" y="{y + 15}" text-anchor="{anchor}">{html.escape(word)}</text>'
                for x, anchor, word in words]
        if i > 0 and i - 1 in row.inputs:
            out.append(f'<path d="M{middle} {y - GAP} V{y}" stroke="black" '
                       'marker-end="url(#a)"/>')
    for source, to, lane in edges:
        x = LEFT + BOX + (lane + 1) * LANE
        out.append(f'<path d="M{LEFT + BOX} {top(source) + 14} H{x} V{top(to) + 8} '
                   f'H{LEFT + BOX}" fill="none" stroke="black" marker-end="url(#a)"/>')
    out.append(f'<text x="{middle}" y="{top(len(rows)) + 8}" text-anchor="middle">'
               f'{LOSSES[loss]}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"


def refuse(path, why):
    print(f"draw_model.py: {path}: {why}", file=sys.stderr)
    sys.exit(2)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/models")
    parser.add_argument("models", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    models = options.models or sorted((ROOT / "configs/model").glob("*.textproto"))
    if not models:
        sys.exit("no model files")
    wrong = []
    for model in models:
        picture = options.out / f"{model.stem}.svg"
        try:
            drawn = draw(model.read_text(encoding="utf-8"))
        except OSError as error:
            refuse(model, error.strerror)
        except (ValueError, RecursionError) as error:
            refuse(model, error)
        if not options.check:
            try:
                picture.write_text(drawn, encoding="utf-8")
            except OSError as error:
                refuse(picture, error.strerror)
        elif not picture.exists() or picture.read_text(encoding="utf-8") != drawn:
            wrong.append(f"{picture.name} is not what docs/draw_model.py draws; run it")
    if options.check and not options.models:
        known = {model.stem for model in models}
        wrong += [f"{picture.name} is of no model in configs/model"
                  for picture in options.out.glob("*.svg") if picture.stem not in known]
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
