"""Loops compiled once per SIMD level, of which a program chooses at run time."""

# The loops vectorise only with -O3 and -fno-math-errno. No contraction and no
# -ffast-math: the same bits at every level.
_KERNEL_COPTS = [
    "-O3",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=off",
]

# Beside them, on x86-64. Other machines compile the portable code three times
# and run the first.
_LEVEL_COPTS = {
    "simd_baseline": [],
    "simd_avx2": [
        "-mavx2",
        "-mfma",
    ],
    "simd_avx512": [
        "-mavx512f",
        "-mavx512dq",
        "-mavx512vl",
        "-mavx512bw",
        "-mprefer-vector-width=512",
    ],
}

def simd_library(name, srcs, hdrs, deps = [], fused = False, testonly = False, visibility = None):
    """A cc_library whose `srcs` are compiled for every level.

    They put all they define into namespace monsoon::SIMD_NAMESPACE, which is
    simd_baseline, simd_avx2 and simd_avx512 in turn, and `hdrs` declare it in
    all three; simd_level.h chooses.

    Nothing else may be emitted by such a file: an inline function of a header,
    compiled for AVX-512 here, might be the copy that the linker keeps for a
    machine without. So these files include nothing that defines functions, use
    compiler built-ins instead of <cmath> and <algorithm>, and keep helpers in
    an unnamed namespace.

    `deps`: of headers; they define no functions either, but such as are inlined always.

    `fused`: products and sums may be one instruction, so AVX2 and AVX-512 may give other bits
    than the baseline.
    """
    native.cc_library(
        name = name + "_interface",
        testonly = testonly,
        hdrs = hdrs,
        visibility = ["//visibility:private"],
        deps = deps,
    )
    levels = []
    for level, copts in _LEVEL_COPTS.items():
        levels.append(":" + name + "_" + level)
        native.cc_library(
            name = name + "_" + level,
            testonly = testonly,
            srcs = srcs,
            copts = _KERNEL_COPTS + (["-ffp-contract=fast"] if fused else []) + select({
                "//common/simd:x86_64": copts,
                "//conditions:default": [],
            }),
            local_defines = ["SIMD_NAMESPACE=" + level],
            visibility = ["//visibility:private"],
            deps = deps + [":" + name + "_interface"],
        )
    native.cc_library(
        name = name,
        testonly = testonly,
        hdrs = hdrs,
        visibility = visibility,
        deps = deps + levels,
    )
