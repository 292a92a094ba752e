"""The optional CUDA toolkit, and how its sources are compiled.

@cuda//:built_in is a config_setting: it matches where nvcc was found. Where it
does not, everything that names @cuda in a select() still builds, without CUDA.

nvcc is looked for in CUDA_HOME, on PATH, in /usr/local/cuda and where
deploy/cuda_toolkit.sh puts it; --repo_env=MONSOON_CUDA=off builds without it on a
machine that has one. A toolkit of version 12 or 13 will do. Headers of cuBLAS are not
needed, nor the library: a worker loads it.
"""

# What the kernels are compiled for: machine code for these, each of which serves the
# later ones of its major version too, and PTX for the others. Those that the toolkit
# does not know (`nvcc --list-gpu-arch`) are left out.
CUDA_ARCHITECTURES = ["75", "80", "90", "100", "120"]
CUDA_PTX = "90"

def nvcc_library(name, srcs, hdrs):
    """C++ with kernels, compiled by nvcc and g++ for all targets.

    Also under clang: kernels have no sanitizer, and host code that nvcc's g++
    compiled links with clang's. `hdrs` are all that the sources include. Linked
    whole (.lo), as who calls the kernels may come after them.
    """
    objects = []
    for src in srcs:
        # An object each: a change compiles one, and several compile at once.
        object = "%s_cuda/%s.o" % (name, src.replace(".cc", ""))
        objects.append(object)
        native.genrule(
            name = object + "_object",
            srcs = [src] + hdrs + ["@cuda//:gencode"],
            outs = [object],
            cmd = " ".join([
                "$(location @cuda//:nvcc) -c -x cu -std=c++20 -O3 -I. -ccbin g++",
                "-Werror all-warnings -Xcompiler -Wall,-Wextra,-Werror,-fPIC",
                "$$(cat $(location @cuda//:gencode))",
                "-o $@ $(location %s)" % src,
            ]),
            tags = ["manual"],
            tools = ["@cuda//:nvcc"],
        )
    native.genrule(
        name = name + "_archive",
        srcs = objects,
        outs = ["lib%s_cuda.lo" % name],
        cmd = "$(location @cuda//:nvcc) -lib -o $@.a $(SRCS) && mv $@.a $@",
        tags = ["manual"],
        tools = ["@cuda//:nvcc"],
    )
    _ptx(name, srcs, hdrs)
    native.cc_library(
        name = name,
        srcs = ["lib%s_cuda.lo" % name],
        tags = ["manual"],
        deps = ["@cuda//:cudart"],
    )

def _ptx(name, srcs, hdrs):
    """<name>_ptx: the PTX of each source, for //tests/gpu/emulator."""
    for src in srcs:
        native.genrule(
            name = "%s_%s_ptx" % (name, src),
            srcs = [src] + hdrs,
            outs = ["%s.ptx" % src],
            cmd = "$(location @cuda//:nvcc) -ptx -x cu -std=c++20 -O3 -I. -ccbin g++ " +
                  "-arch=compute_%s -o $@ $(location %s)" % (CUDA_PTX, src),
            tags = ["manual"],
            tools = ["@cuda//:nvcc"],
        )
    native.filegroup(
        name = name + "_ptx",
        srcs = ["%s.ptx" % src for src in srcs],
        tags = ["manual"],
        visibility = ["//tests/gpu:__subpackages__"],
    )

_DEFS = """
def _built_in_impl(ctx):
    return []

built_in_flag = rule(
    implementation = _built_in_impl,
    build_setting = config.bool(flag = True),
)
"""

_BUILD = """
load(":defs.bzl", "built_in_flag")

package(default_visibility = ["//visibility:public"])

built_in_flag(
    name = "enabled",
    build_setting_default = {enabled},
)

config_setting(
    name = "built_in",
    flag_values = {{":enabled": "True"}},
)

cc_library(
    name = "headers",
    hdrs = glob(["include/*.h", "include/*.hpp", "include/crt/**", "include/nv/**"]),
    includes = ["include"],
    defines = {defines},
)

# cudart is linked in, so that a worker starts on a machine without CUDA.
cc_library(
    name = "cudart",
    linkopts = {cudart},
    deps = [":headers"],
)

filegroup(
    name = "nvcc",
    srcs = {nvcc},
)

# nvcc's options for the targets.
filegroup(
    name = "gencode",
    srcs = ["gencode.txt"],
)
"""

def _is_known(ctx, home):
    """Whether its nvcc runs and is of version 12 or later; else says why not."""
    asked = ctx.execute([home + "/bin/nvcc", "--version"])
    release = asked.stdout.partition("release ")[2].partition(".")[0]
    if asked.return_code == 0 and release.isdigit() and int(release) >= 12:
        return True

    # buildifier: disable=print
    print("%s/bin/nvcc is not used: %s" % (
        home,
        "its version is %s, not 12 or later" % release if release else "it does not run",
    ))
    return False

def _cuda_home(ctx):
    """The toolkit's folder, or None."""
    if ctx.os.environ.get("MONSOON_CUDA", "") == "off":
        return None
    homes = [ctx.os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"]
    if ctx.os.environ.get("HOME", ""):
        homes.append(ctx.os.environ["HOME"] + "/.cache/monsoon-cuda/13.0")
    on_path = ctx.which("nvcc")
    if on_path:
        homes.insert(1, str(on_path.realpath.dirname.dirname))
    for home in homes:
        if home and ctx.path(home + "/bin/nvcc").exists and \
           ctx.path(home + "/include/cuda_runtime.h").exists and _is_known(ctx, home):
            return home
    return None

def _targets(ctx, home):
    """Of CUDA_ARCHITECTURES and CUDA_PTX, what the toolkit knows."""
    known = ctx.execute([home + "/bin/nvcc", "--list-gpu-arch"]).stdout.split("\n")
    architectures = [a for a in CUDA_ARCHITECTURES if "compute_" + a in known]
    left_out = [a for a in CUDA_ARCHITECTURES if a not in architectures]
    if left_out:
        # buildifier: disable=print
        print("CUDA of %s knows no sm_%s: built without" % (home, ", sm_".join(left_out)))
    return struct(
        architectures = architectures,
        ptx = [a for a in [CUDA_PTX] if "compute_" + a in known],
    )

def _cuda_impl(ctx):
    ctx.file("WORKSPACE", "")
    ctx.file("defs.bzl", _DEFS)
    home = _cuda_home(ctx)
    if not home:
        ctx.file("gencode.txt", "")
        ctx.file("BUILD.bazel", _BUILD.format(
            enabled = "False",
            cudart = "[]",
            defines = "[]",
            nvcc = "[]",
        ))
        return
    targets = _targets(ctx, home)
    ctx.file("gencode.txt", " ".join([
        "-gencode arch=compute_%s,code=sm_%s" % (a, a)
        for a in targets.architectures
    ] + ["-gencode arch=compute_%s,code=compute_%s" % (a, a) for a in targets.ptx]))
    names = ["sm_" + a for a in targets.architectures] + ["PTX compute_" + a for a in targets.ptx]
    ctx.symlink(home + "/include", "include")
    ctx.file("nvcc.sh", "#!/bin/sh\nexec %s/bin/nvcc \"$@\"\n" % home, executable = True)
    library = home + ("/lib64" if ctx.path(home + "/lib64").exists else "/lib")
    ctx.file("BUILD.bazel", _BUILD.format(
        enabled = "True",
        cudart = repr([library + "/libcudart_static.a", "-ldl", "-lrt", "-lpthread"]),
        defines = repr([
            # Where cuBLAS is, when it is nowhere on the loader's path.
            "MONSOON_CUDA_LIBRARY=\\\"%s\\\"" % library,
            "MONSOON_CUDA_TARGETS='\"%s\"'" % ", ".join(names),
        ]),
        nvcc = repr(["nvcc.sh"]),
    ))

cuda_repository = repository_rule(
    implementation = _cuda_impl,
    attrs = {},
    environ = ["CUDA_HOME", "HOME", "MONSOON_CUDA", "PATH"],
    doc = "The CUDA toolkit, if there is one.",
    local = True,
)
