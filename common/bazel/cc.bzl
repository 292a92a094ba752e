"""C++ targets: what most of them are, and the rules of Bazel with precompiled headers."""

# The system's headers that most sources include, parsed once a build (pch.bzl).
_HEADERS = "//common/bazel:system_headers"
_TEST_HEADERS = "//common/bazel:test_headers"

# Flags of a target's own with which its sources still fit the precompiled headers.
_FITTING_COPTS = ([], ["-w"], ["-O3"])

def _is_c(srcs):
    return type(srcs) == "list" and len([src for src in srcs if src.endswith(".c")]) > 0

def _precompiled(headers, attributes):
    copts = attributes.get("copts", [])
    srcs = attributes.get("srcs")
    if not srcs or _is_c(srcs) or copts not in _FITTING_COPTS:
        return attributes
    return dict(
        attributes,
        copts = copts + ["$(PRECOMPILED)"],
        toolchains = [headers],
        deps = attributes.get("deps", []) + [headers],
    )

def cc_library(**attributes):
    """The rule, with precompiled headers."""
    native.cc_library(**_precompiled(_HEADERS, attributes))

def cc_binary(**attributes):
    """The rule, with precompiled headers."""
    native.cc_binary(**_precompiled(_HEADERS, attributes))

def cc_test(**attributes):
    """The rule, with precompiled headers, GoogleTest's among them."""
    native.cc_test(**_precompiled(_TEST_HEADERS, attributes))

# Of every test.
_OF_TESTS = [
    "//common/testing:gtest_main",
    "//common/testing:status_matchers",
    "@abseil",
    "@gtest",
]

def _test(kind, name, srcs, deps, size, tags, others):
    cc_test(
        name = name,
        size = size,
        srcs = srcs or [name + ".cc"],
        tags = [kind] + tags,
        deps = deps + [dep for dep in _OF_TESTS if dep not in deps],
        **others
    )

def unit_test(name, srcs = None, deps = [], size = "small", tags = [], **others):
    """A cc_test of one process that takes seconds, with GoogleTest and its main().

    Args:
      name: ends in _test.
      srcs: NAME.cc where they are not given.
      deps: beside GoogleTest, its main, the matchers of absl::Status, and Abseil.
      size: as everywhere.
      tags: beside `unit`, by which tests/run.sh finds it.
      **others: of cc_test.
    """
    _test("unit", name, srcs, deps, size, tags, others)

def cluster_test(name, srcs = None, deps = [], size = "small", tags = [], **others):
    """As unit_test, of several processes or of a whole cluster in one (tag `cluster`)."""
    _test("cluster", name, srcs, deps, size, tags, others)

def convergence_test(name, srcs = None, deps = [], size = "small", tags = [], **others):
    """As unit_test, of what training reaches (tag `convergence`)."""
    _test("convergence", name, srcs, deps, size, tags, others)

def pairs(name, of, srcs = [], hdrs = [], **others):
    """A cc_library of several headers with their sources.

    Args:
      name: of the library.
      of: the names of the pairs, without .h and .cc.
      srcs: beside them.
      hdrs: beside them.
      **others: of cc_library.
    """
    cc_library(
        name = name,
        srcs = [pair + ".cc" for pair in of] + srcs,
        hdrs = [pair + ".h" for pair in of] + hdrs,
        **others
    )

def pair(name, srcs = [], deps = [], test_deps = None, test_size = "small", test_tags = [], **others):
    """NAME.h and NAME.cc; with `test_deps` NAME_test.cc too, the unit_test NAME_test.

    Args:
      name: of the files.
      srcs: beside NAME.cc.
      deps: of the library.
      test_deps: of the test, beside the library and its deps; [] where it needs no more.
      test_size: of the test.
      test_tags: of the test, beside `unit`.
      **others: of the library.
    """
    pairs(name = name, of = [name], srcs = srcs, deps = deps, **others)
    _test_of(name, deps, test_deps, test_size, test_tags)

def header(name, deps = [], test_deps = None, test_size = "small", test_tags = [], **others):
    """As pair, where all stands in NAME.h."""
    cc_library(
        name = name,
        hdrs = [name + ".h"],
        deps = deps,
        **others
    )
    _test_of(name, deps, test_deps, test_size, test_tags)

def _test_of(name, deps, test_deps, size, tags):
    if test_deps != None:
        unit_test(
            name = name + "_test",
            size = size,
            tags = tags,
            deps = [":" + name] + deps + [dep for dep in test_deps if dep not in deps],
        )
