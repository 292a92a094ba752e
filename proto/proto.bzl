"""cc_library targets from .proto files, with Debian's protoc and gRPC plugin."""

load("//common/bazel:cc.bzl", "cc_library")

def _strip(src):
    return src[:-len(".proto")]

def monsoon_proto_library(name, srcs, deps = [], forward = {}, visibility = None):
    """Messages only: `name` gives NAME.pb.h. `deps` are other such libraries.

    Args:
      name: the target.
      srcs: .proto files of this package.
      deps: libraries of the imported .proto files. Where setting or figure is among them, the
        headers do not include it (slim_headers.py).
      forward: imported .proto files and the messages in them, with a comma between them, that the
        headers only declare; who looks into such a field includes its header.
      visibility: as everywhere.
    """
    slim = ["--options=proto/%s.pb.h" % dep[1:] for dep in deps if dep in [":figure", ":setting"]]
    slim += ["--forward=proto/%s.pb.h:%s" % (_strip(src), forward[src]) for src in forward]
    native.filegroup(
        name = name + "_protos",
        srcs = srcs + [dep + "_protos" for dep in deps],
        visibility = visibility,
    )
    native.genrule(
        name = name + "_gen",
        srcs = srcs + [dep + "_protos" for dep in deps],
        outs = [_strip(src) + ext for src in srcs for ext in [".pb.h", ".pb.cc"]],
        cmd = "protoc -I. --cpp_out=$(GENDIR) " +
              " ".join(["$(location %s)" % src for src in srcs]) +
              " && $(location //proto:slim_headers.py) " + " ".join(slim) + " $(OUTS)",
        tools = ["//proto:slim_headers.py"],
    )
    cc_library(
        name = name,
        srcs = [_strip(src) + ".pb.cc" for src in srcs],
        hdrs = [_strip(src) + ".pb.h" for src in srcs],
        copts = ["-w"],
        visibility = visibility,
        deps = deps + ["@protobuf"],
    )

def monsoon_grpc_library(name, src, deps, visibility = None):
    """The generated service classes of one .proto file: NAME.grpc.pb.h.

    Args:
      name: the target.
      src: the .proto file with the service.
      deps: its monsoon_proto_library first, then those it imports.
      visibility: as everywhere.
    """
    native.genrule(
        name = name + "_gen",
        srcs = [src] + [dep + "_protos" for dep in deps],
        outs = [_strip(src) + ext for ext in [".grpc.pb.h", ".grpc.pb.cc"]],
        cmd = "protoc -I. --plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin " +
              "--grpc_out=$(GENDIR) $(location %s)" % src,
    )
    cc_library(
        name = name,
        srcs = [_strip(src) + ".grpc.pb.cc"],
        hdrs = [_strip(src) + ".grpc.pb.h"],
        copts = ["-w"],
        visibility = visibility,
        deps = deps + ["@grpc"],
    )
