#!/usr/bin/python3
"""Turns articles of two dictionaries into numbered words, for
configs/job/text_classifier_downpour.textproto.

    articles.py [--out=data] [--yes=/usr/share/dictd/foldoc] [--no=/usr/share/dictd/gcide]
                [--words=50] [--vocabulary=10000] [--limit=N]

Writes articles-train.npz and articles-test.npz (every tenth article), images [n, words] int32 and
labels [n], 1 for an article of --yes; and articles-words.txt, the vocabulary, a word a line. A
sample has an article's first words behind its headword: 0 is no word, 1 one that is not among
the most frequent of the training set. As many articles of either, taken evenly.
Debian: apt-get install dict-foldoc dict-gcide.
"""

import argparse
import collections
import gzip
import pathlib
import re
import sys

import numpy

_DIGITS = {c: i for i, c in enumerate(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")}
FIRST_WORD = 2
TEST_EVERY = 10


def _number(text):
    value = 0
    for character in text:
        value = value * 64 + _DIGITS[character]
    return value


def articles(stem):
    """A dictionary's articles in its order, text each. Its index (dictd's format) says where
    they lie: headword, offset and length a line, in base 64."""
    dictionary, index = pathlib.Path(f"{stem}.dict.dz"), pathlib.Path(f"{stem}.index")
    if not dictionary.exists():
        sys.exit(f"{dictionary} is missing: apt-get install dict-{dictionary.name.split('.')[0]}")
    with gzip.open(dictionary, "rb") as file:
        text = file.read()
    places = set()
    with open(index, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            word, offset, length = line.rstrip("\n").split("\t")[:3]
            if not word.startswith("00-database"):
                places.add((_number(offset), _number(length)))
    return [text[offset:offset + length].decode("utf-8", "replace")
            for offset, length in sorted(places)]


def words_of(article):
    """Without the headword's line, which gives a dictionary's form away."""
    return re.findall(r"[a-z]+|[0-9]+", article.partition("\n")[2].lower())


def evenly(items, count):
    return [items[i * len(items) // count] for i in range(count)]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("data"))
    parser.add_argument("--yes", default="/usr/share/dictd/foldoc")
    parser.add_argument("--no", default="/usr/share/dictd/gcide")
    parser.add_argument("--words", type=int, default=50)
    parser.add_argument("--vocabulary", type=int, default=10000)
    parser.add_argument("--limit", type=int, default=0, help="articles of either")
    options = parser.parse_args()
    kinds = [[words for words in map(words_of, articles(stem)) if words]
             for stem in (options.no, options.yes)]
    count = min(len(kind) for kind in kinds)
    count = min(count, options.limit or count)
    pairs = [(words, label) for both in zip(*(evenly(kind, count) for kind in kinds))
             for label, words in enumerate(both)]
    # Either kind has its test articles: a pair is of one set.
    sets = {"train": [p for i, p in enumerate(pairs) if i // 2 % TEST_EVERY],
            "test": [p for i, p in enumerate(pairs) if i // 2 % TEST_EVERY == 0]}
    seen = collections.Counter(word for words, _ in sets["train"] for word in words)
    kept = sorted(seen, key=lambda word: (-seen[word], word))[:options.vocabulary - FIRST_WORD]
    numbers = {word: FIRST_WORD + i for i, word in enumerate(kept)}
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "articles-words.txt").write_text("".join(word + "\n" for word in kept))
    for name, chosen in sets.items():
        ids = numpy.zeros((len(chosen), options.words), numpy.int32)
        for row, (words, _) in zip(ids, chosen):
            found = [numbers.get(word, 1) for word in words[:options.words]]
            row[:len(found)] = found
        labels = numpy.array([label for _, label in chosen], numpy.int32)
        path = options.out / f"articles-{name}.npz"
        numpy.savez(path, images=ids, labels=labels)
        print(f"{path}: {len(chosen)} samples")


if __name__ == "__main__":
    main()
