"""Loops compiled once per SIMD level, of which a program chooses at run time."""

# The loops vectorise only with -O3 and -fno-math-errno. No contraction and no
# -ffast-math: the same bits at every level.
KERNEL_COPTS = [
    "-O3",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=off",
]

# Beside them, on x86-64. Other machines compile the portable code three times
# and run the first.
_LEVEL_COPTS = {
    "simd_baseline": [],
    "simd_avx2": ["-mavx2"],
    "simd_avx512": [
        "-mavx512f",
        "-mavx512dq",
        "-mavx512vl",
        "-mavx512bw",
        "-mprefer-vector-width=512",
    ],
}

def simd_library(name, **kwargs):
    """A cc_library of NAME.h whose NAME.cc is compiled for every level.

    NAME.cc puts all it defines into namespace monsoon::SIMD_NAMESPACE, which is
    simd_baseline, simd_avx2 and simd_avx512 in turn, and NAME.h declares it in
    all three; simd_level.h chooses.

    Nothing else may be emitted by such a file: an inline function of a header,
    compiled for AVX-512 here, might be the copy that the linker keeps for a
    machine without. So NAME.cc and NAME.h include nothing that defines
    functions, use compiler built-ins instead of <cmath> and <algorithm>, and
    helpers stand in an unnamed namespace.
    """
    native.cc_library(
        name = name + "_interface",
        hdrs = [name + ".h"],
        visibility = ["//visibility:private"],
    )
    levels = []
    for level, copts in _LEVEL_COPTS.items():
        levels.append(":" + name + "_" + level)
        native.cc_library(
            name = name + "_" + level,
            srcs = [name + ".cc"],
            copts = KERNEL_COPTS + select({
                "//common/simd:x86_64": copts,
                "//conditions:default": [],
            }),
            local_defines = ["SIMD_NAMESPACE=" + level],
            visibility = ["//visibility:private"],
            deps = [":" + name + "_interface"],
        )
    native.cc_library(
        name = name,
        hdrs = [name + ".h"],
        deps = levels,
        **kwargs
    )
