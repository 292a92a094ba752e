#!/usr/bin/python3
"""What the results of experiment.py say: tables in Markdown, and the curves as SVG.

    report.py [--plan=quarter] [--svg=docs/low_communication_quarter.svg]
"""

import argparse
import json
import math
import pathlib
import statistics
import sys

import methods

HERE = pathlib.Path(__file__).resolve().parent
# (first, second, what the mean of second - first is to be, in words, and whether it is).
GOALS = [
    ("sync", "delayed", "at most 1 % above",
     lambda mean, error, of: mean <= 0.01 * of),
    ("delayed", "naive", "above by more than two standard errors",
     lambda mean, error, of: None if error is None else mean > 2 * error),
    ("delayed", "naive_small", "above by more than two standard errors",
     lambda mean, error, of: None if error is None else mean > 2 * error),
    ("streaming", "streaming_int4", "within 0.5 %",
     lambda mean, error, of: abs(mean) <= 0.005 * of),
]
COLOURS = {"sync": "#1b6ca8", "naive": "#c0392b", "naive_small": "#e59866", "delayed": "#1e8449",
           "streaming": "#7d3c98", "streaming_int4": "#c39bd3", "decoupled": "#b7950b",
           "downpour": "#5d6d7e", "alone": "#17202a"}


def read(plan):
    """{method: {seed: result}} of what is there."""
    results = {}
    for path in sorted((HERE / "results" / plan).glob("*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        results.setdefault(result["method"], {})[result["seed"]] = result
    return {name: results[name] for name in methods.METHODS if name in results}


def difference(first, second):
    """Mean of second - first, paired, and its standard error; None for one pair."""
    pairs = [b - a for a, b in zip(first, second)]
    error = statistics.stdev(pairs) / math.sqrt(len(pairs)) if len(pairs) > 1 else None
    return statistics.mean(pairs), error


def paired(results, first, second, key="final"):
    """Both methods' values of the seeds that both have."""
    seeds = sorted(set(results.get(first, {})) & set(results.get(second, {})))
    return [[results[name][seed][key] for seed in seeds] for name in (first, second)]


def signed(mean, error):
    return f"{mean:+.4f}" + ("" if error is None else f" ± {error:.4f}")


def table(results):
    lines = ["| method | rate | test loss | seeds | above synchronous | pushes | MB pushed | "
             "staleness | virtual s |", "|---|---|---|---|---|---|---|---|---|"]
    for name, seeds in results.items():
        runs, one = list(seeds.values()), next(iter(seeds.values()))
        method = methods.METHODS[name]
        sync, own = paired(results, "sync", name)
        above = signed(*difference(sync, own)) if own and name != "sync" else "-"
        lines.append(
            f"| {method.title} | {one['rate'] / method.divide_rate:g} | "
            f"{statistics.mean(run['final'] for run in runs):.4f} | {len(runs)} | {above} | "
            f"{one['pushes']} | {one['bytes_pushed'] / 1e6:.1f} | {one['staleness']:.2f} | "
            f"{one['virtual_seconds']:.0f} |")
    return lines


def goals(results):
    lines = ["| | of | wanted | measured, mean ± standard error | seeds | |",
             "|---|---|---|---|---|---|"]
    for first, second, wanted, holds in GOALS:
        a, b = paired(results, first, second)
        if not a:
            continue
        mean, error = difference(a, b)
        of = statistics.mean(a)
        right = holds(mean, error, of)
        lines.append(f"| {methods.METHODS[second].title} | {methods.METHODS[first].title} | "
                     f"{wanted} | {signed(mean, error)} ({100 * mean / of:+.2f} %) | {len(a)} | "
                     f"{'one seed' if right is None else 'yes' if right else 'no'} |")
    return lines


def curves(results):
    """{method: [(steps, mean loss of the seeds), ...]}."""
    lines = {}
    for name, seeds in results.items():
        points = zip(*(run["curve"] for run in seeds.values()))
        lines[name] = [(statistics.mean(steps for steps, _ in at),
                        statistics.mean(loss for _, loss in at)) for at in points]
    return lines


def svg(results, title):
    width, height, left, right, top, bottom = 820, 440, 56, 290, 36, 44
    lines = curves(results)
    last = max(steps for line in lines.values() for steps, _ in line)
    # The first tenth would flatten all else.
    shown = {name: [p for p in line if p[0] >= last / 10] for name, line in lines.items()}
    losses = [loss for line in shown.values() for _, loss in line if math.isfinite(loss)]
    low = math.floor(min(losses) * 20) / 20
    # One that diverges may leave the picture.
    high = min(math.ceil(max(losses) * 20) / 20, low + 1.2)

    def x(steps):
        return left + (width - left - right) * steps / last

    def y(loss):
        return top + (height - top - bottom) * (high - min(loss, high)) / (high - low)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
           f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
           f'<text x="{left}" y="20" font-size="14">{title}</text>']
    for i in range(6):
        loss = low + (high - low) * i / 5
        out.append(f'<path d="M{left} {y(loss):.1f}H{width - right}" stroke="#dddddd"/>'
                   f'<text x="{left - 6}" y="{y(loss) + 4:.1f}" text-anchor="end">{loss:.2f}</text>')
        steps = last * i / 5
        out.append(f'<text x="{x(steps):.1f}" y="{height - bottom + 18}" '
                   f'text-anchor="middle">{steps:.0f}</text>')
    out.append(f'<text x="{(left + width - right) / 2:.0f}" y="{height - 8}" '
               'text-anchor="middle">inner steps of all replicas</text>')
    ends = sorted(shown, key=lambda name: -shown[name][-1][1])
    label = top
    for name in ends:
        line = [p for p in shown[name] if math.isfinite(p[1])]
        path = "L".join(f"{x(steps):.1f} {y(loss):.1f}" for steps, loss in line)
        out.append(f'<path d="M{path}" fill="none" stroke="{COLOURS[name]}" stroke-width="1.6"/>')
        label = max(label + 15, y(line[-1][1]))
        out.append(f'<text x="{width - right + 8}" y="{label + 4:.1f}" fill="{COLOURS[name]}">'
                   f'{line[-1][1]:.3f} {methods.METHODS[name].title}</text>')
    return "\n".join([*out, "</svg>", ""])


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", choices=sorted(methods.PLANS), default="quarter")
    parser.add_argument("--svg", metavar="FILE")
    options = parser.parse_args(argv)
    results = read(options.plan)
    if not results:
        parser.error(f"there are no results of {options.plan}: experiment.py run")
    print("\n".join([*table(results), "", *goals(results)]))
    if options.svg:
        title = "Test loss, nats a byte (mean of the seeds)"
        pathlib.Path(options.svg).write_text(svg(results, title), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
