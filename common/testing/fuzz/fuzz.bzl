"""fuzz_target: one function that takes any bytes, as a fuzzer and as a test."""

load("//common/bazel:cc.bzl", "cc_binary", "cc_library", "cc_test")

def fuzz_target(name, srcs, corpus, deps, size = "small"):
    """Builds a source that defines LLVMFuzzerTestOneInput twice.

    NAME is the fuzzer: with --config=fuzz alone, see tests/fuzz.sh.
    NAME_corpus_test runs each file of the corpus through the same function, as an
    ordinary test in every configuration.

    Args:
      name: ends in _fuzz.
      srcs: NAME.cc.
      corpus: files, small and at least one.
      deps: of the source.
      size: of the test.
    """
    cc_library(
        name = name + "_function",
        testonly = True,
        srcs = srcs,
        alwayslink = True,
        visibility = ["//visibility:private"],
        deps = deps,
    )
    cc_binary(
        name = name,
        testonly = True,
        linkopts = ["-fsanitize=fuzzer"],
        tags = [
            "fuzz",
            "manual",
        ],
        deps = [":" + name + "_function"],
    )
    cc_test(
        name = name + "_corpus_test",
        size = size,
        args = ["$(location %s)" % file for file in corpus],
        data = corpus,
        tags = ["unit"],
        deps = [
            ":" + name + "_function",
            "//common/testing/fuzz:corpus_main",
        ],
    )
