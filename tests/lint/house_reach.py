"""How many sources see a .proto file of jobs by their includes, and so are compiled by an edit of it
that is more than of comments and options."""

import os
import re

from source_tree import SOURCE

PROTOS = ("job", "downpour", "optimizer", "model", "dataset", "cluster")
IMPORT = re.compile(r'^import (?:public )?"(proto/\w+)\.proto"', re.MULTILINE)
LIBRARY = re.compile(r"^monsoon_proto_library\(\n(.*?)^\)", re.MULTILINE | re.DOTALL)
FORWARD = re.compile(r"forward = \{(.*?)\}", re.DOTALL)


def reach(tree):
    """{file: {"sources": that see it}} of the .proto files of jobs and clusters."""
    users = {}  # {header: who includes it}
    for path in tree.matching(SOURCE):
        for _, header in tree.includes(path):
            users.setdefault(header, set()).add(path)
    for path, imported in _imports(tree).items():
        users.setdefault(path[:-len(".cc")] + ".h", set()).add(path)
        for header in imported:
            users.setdefault(header, set()).add(path[:-len(".cc")] + ".h")
    return {f"proto/{name}.proto": {"sources": _sources(users, f"proto/{name}.pb.h")}
            for name in PROTOS if f"proto/{name}.proto" in tree.files}


def _imports(tree):
    """{generated source: the generated headers that its own header includes}."""
    declared = _declared(tree)
    found = {}
    for path in tree.matching((".proto",)):
        if path.startswith("proto/"):
            headers = {name + ".pb.h" for name in IMPORT.findall("\n".join(tree.lines(path)))}
            found[path[:-len(".proto")] + ".pb.cc"] = headers - declared.get(path, set())
    return found


def _declared(tree):
    """{.proto file: the generated headers whose messages its own only declares}."""
    build = "\n".join(tree.lines("proto/BUILD.bazel")) if "proto/BUILD.bazel" in tree.files else ""
    found = {}
    for library in LIBRARY.findall(build):
        forward = FORWARD.search(library)
        names = re.findall(r'"(\w+)\.proto":', forward[1]) if forward else []
        options = [name for name in ("setting", "figure") if f'":{name}"' in library]
        srcs = re.search(r"srcs = \[(.*?)\]", library, re.DOTALL)
        for name in re.findall(r'"(\w+\.proto)"', srcs[1] if srcs else ""):
            found["proto/" + name] = {f"proto/{other}.pb.h" for other in names + options}
    return found


def _sources(users, header):
    seen, todo = {header}, [header]
    while todo:
        for user in users.get(todo.pop(), ()):
            if user not in seen:
                seen.add(user)
                todo.append(user)
    return sum(os.path.splitext(path)[1] in (".cc", ".cu") for path in seen)
