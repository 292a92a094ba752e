"""Device tests and programs on the emulated CUDA machine."""

_BUILT_IN = "@cuda//:built_in"

def ptx_library(name, ptx):
    """The kernels of .ptx files as C++, for the emulator. Needs no list of kernels."""
    native.genrule(
        name = name + "_translated",
        srcs = ptx,
        outs = [name + ".cc"],
        cmd = "/usr/bin/python3 $(location //tests/gpu/emulator/translate:main.py) $@ $(SRCS)",
        tags = ["manual"],
        tools = [
            "//tests/gpu/emulator/translate:main.py",
            "//tests/gpu/emulator/translate:modules",
        ],
    )
    native.cc_library(
        name = name,
        testonly = True,
        srcs = [name + ".cc"],
        copts = [
            "-O1",
            "-ffp-contract=off",
            "-fno-strict-aliasing",
        ],
        linkstatic = True,
        tags = ["manual"],
        alwayslink = True,  # It registers its kernels.
        deps = ["//tests/gpu/emulator:device"],
    )

_GTEST = ["//common/testing:gtest_main"]

def emulated_test(
        name,
        schedule,
        deps,
        tags,
        args = [],
        data = [],
        env = {},
        size = "medium",
        main = _GTEST):
    """A test program on the emulator; one test that is skipped where CUDA is not built in.

    `main`: empty where `deps` bring a main() of their own.
    """
    settings = {"MONSOON_EMULATOR_SCHEDULE": schedule}
    settings.update(env)
    native.cc_test(
        name = name,
        size = size,
        srcs = select({
            _BUILT_IN: [],
            "//conditions:default": ["//tests/gpu:not_built_in_test.cc"],
        }),
        args = select({
            _BUILT_IN: args,
            "//conditions:default": [],
        }),
        data = select({
            _BUILT_IN: ["//tests/gpu/emulator:cublas"] + data,
            "//conditions:default": [],
        }),
        env = settings,
        linkopts = ["-Wl,--enable-new-dtags,-rpath,'$$ORIGIN'"],
        linkstatic = True,
        tags = tags,
        deps = ["@gtest"] + select({
            _BUILT_IN: main + deps,
            "//conditions:default": _GTEST,
        }),
    )
