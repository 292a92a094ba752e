"""Tables of numbers that PyTorch computes and C++ tests read: written anew, or compared.

A line is two words that name it, and numbers.
"""

import argparse

import torch


def largest_difference(old, new, unit_of):
    """In the units of each line, of its words; infinite where the lines are others."""
    worst = 0.0 if len(old) == len(new) else float("inf")
    for before, now in zip(map(str.split, old), map(str.split, new)):
        if before[:2] != now[:2] or len(before) != len(now):
            return float("inf")
        for x, y in zip(before[2:], now[2:]):
            worst = max(worst, abs(float(x) - float(y)) / unit_of(now))
    return worst


def main(description, lines, most, unit_of=lambda words: 1.0, unit=""):
    """`unit` is what `unit_of` is called. The exit code: 0 where nothing differs by more than
    `most`."""
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("table")
    arguments = parser.parse_args()
    new = list(lines)
    if arguments.write:
        with open(arguments.table, "w", encoding="ascii") as file:
            file.write("\n".join(new) + "\n")
        return 0
    with open(arguments.table, encoding="ascii") as file:
        worst = largest_difference(file.read().splitlines(), new, unit_of)
    same = worst <= most
    print(f"torch {torch.__version__}: {len(new)} lines, largest difference {worst:.3g}{unit}: "
          f"{'as in the table' if same else 'DIFFERENT'}")
    return 0 if same else 1
