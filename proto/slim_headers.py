#!/usr/bin/python3
"""Takes out of generated headers what those who include them need not see.

    proto/slim_headers.py [--options=INCLUDE] [--forward=INCLUDE:MESSAGE[,MESSAGE...]] FILE...

FILE: protoc's .pb.h and .pb.cc, changed in place.
--options: of what options of fields are. The descriptor alone has them, and with it the source, so
the header includes it no more: google/protobuf/descriptor.pb.h would be a tenth of what most
sources compile, and an edit of a range would compile all that include the header.
--forward: of messages that others have fields of. The header declares them, and whoever looks into
such a field includes what they are; so an edit of theirs compiles those, not everybody who knows of
a message around them. protoc's inline functions treat messages of other files as incomplete anyway.
"""

import re
import sys

# The first line of an option behind a field, as protoc shows it in comments: another line of the
# option may be another one tomorrow, and this one says nothing of the code.
OPTION = re.compile(r" \[\(\.monsoon\.\w+\) = {$", re.MULTILINE)


def declarations(messages):
    """What protoc's headers use of messages that another header defines."""
    known = "".join(f"class {name};\nstruct {name}DefaultTypeInternal;\n"
                    f"extern {name}DefaultTypeInternal _{name}_default_instance_;\n"
                    for name in messages)
    made = "".join(f"template <>\n::monsoon::{name}* "
                   f"Arena::CreateMaybeMessage<::monsoon::{name}>(Arena*);\n" for name in messages)
    return (f"namespace monsoon {{\n{known}}}  // namespace monsoon\n"
            f"namespace google::protobuf {{\n{made}}}  // namespace google::protobuf\n")


def read(path):
    with open(path, encoding="utf-8") as file:
        return OPTION.sub(";", file.read())


def slim(path, away):
    """`path` without .pb.h and .pb.cc; `away`: {include directive: what stands in the header}."""
    header, source = read(path + ".pb.h"), read(path + ".pb.cc")
    away = {include: instead for include, instead in away.items() if include in header}
    for include, instead in away.items():
        header = header.replace(include, instead, 1)
    source = source.replace("#include", "".join(away) + "#include", 1)
    for ending, text in ((".pb.h", header), (".pb.cc", source)):
        with open(path + ending, "w", encoding="utf-8") as file:
            file.write(text)


def main(arguments):
    away, paths = {}, []
    for argument in arguments:
        flag, _, value = argument.partition("=")
        include, _, messages = value.partition(":")
        if flag == "--options":
            away[f'#include "{include}"\n'] = ""
        elif flag == "--forward":
            away[f'#include "{include}"\n'] = declarations(messages.split(","))
        elif argument.endswith(".pb.h"):
            paths.append(argument[:-len(".pb.h")])
    for path in paths:
        slim(path, away)


if __name__ == "__main__":
    main(sys.argv[1:])
