#!/usr/bin/python3
"""Takes out of generated headers what those who include them need not see.

    proto/slim_headers.py [--options=INCLUDE] FILE...

FILE: protoc's .pb.h and .pb.cc, changed in place.
--options: of what options of fields are. The descriptor alone has them, and with it the source, so
the header includes it no more: google/protobuf/descriptor.pb.h would be a tenth of what most
sources compile, and an edit of a range would compile all that include the header.
"""

import re
import sys

# The first line of an option behind a field, as protoc shows it in comments: another line of the
# option may be another one tomorrow, and this one says nothing of the code.
OPTION = re.compile(r" \[\(\.monsoon\.\w+\) = {$", re.MULTILINE)


def read(path):
    with open(path, encoding="utf-8") as file:
        return OPTION.sub(";", file.read())


def slim(path, away):
    """`path` without .pb.h and .pb.cc; `away`: include directives."""
    header, source = read(path + ".pb.h"), read(path + ".pb.cc")
    away = [include for include in away if include in header]
    for include in away:
        header = header.replace(include, "", 1)
    source = source.replace("#include", "".join(away) + "#include", 1)
    for ending, text in ((".pb.h", header), (".pb.cc", source)):
        with open(path + ending, "w", encoding="utf-8") as file:
            file.write(text)


def main(arguments):
    away, paths = [], []
    for argument in arguments:
        flag, _, include = argument.partition("=")
        if flag == "--options":
            away.append(f'#include "{include}"\n')
        elif argument.endswith(".pb.h"):
            paths.append(argument[:-len(".pb.h")])
    for path in paths:
        slim(path, away)


if __name__ == "__main__":
    main(sys.argv[1:])
