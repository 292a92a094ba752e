"""Translates PTX files to one C++ source: main.py OUT.cc IN.ptx..."""

import sys

import cpp
import ptx


def main():
    if len(sys.argv) < 3:
        sys.exit("usage: main.py OUT.cc IN.ptx...")
    modules = []
    for path in sys.argv[2:]:
        with open(path, encoding="utf-8") as file:
            modules.append((path, file.read()))
    try:
        text = cpp.translate(modules)
    except ptx.PtxError as problem:
        sys.exit("translate: %s" % problem)
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
