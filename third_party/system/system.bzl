"""Repository rules that turn installed Debian packages into Bazel targets.

Every repository has one cc_library, named like the repository. Under --config=wheel its
linkopts are others, so that programs need no shared object but glibc's; what is compiled
is the same.
"""

_BUILD = """
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "{name}",
    defines = {defines},
    includes = [],
    linkopts = select({{
        "@monsoon//third_party/system:static": {static_linkopts},
        "//conditions:default": {linkopts},
    }}),
)
"""

# Of glibc, which stays shared: its archives do not fit another glibc's files, and name
# look-ups load shared parts of it.
_GLIBC = ["dl", "m", "pthread", "resolv", "rt"]

def _fail_missing(what):
    fail("%s is not installed; run deploy/setup.sh" % what)

def _flags(ctx, pkg_config, arguments):
    """What pkg-config says of ctx.attr.modules, as a list."""
    result = ctx.execute([pkg_config] + arguments + ctx.attr.modules)
    if result.return_code != 0:
        _fail_missing("one of the libraries %s (%s)" % (ctx.attr.modules, result.stderr))
    return [flag.strip() for flag in result.stdout.split(" ") if flag.strip()]

def _static_linkopts(ctx, flags):
    """The archives in place of the libraries that -l names."""
    archives = []
    shared = []
    for flag in flags:
        name = flag[2:] if flag.startswith("-l") else ""
        if name and name not in _GLIBC:
            archive = "-l:lib%s.a" % name
            if ctx.attr.archives and archive not in archives:
                archives.append(archive)
        elif (flag.startswith("-l") or flag == "-pthread") and flag not in shared:
            shared.append(flag)
    if not archives:
        return shared

    # In a group, as archives refer to each other in circles. With the C++ library: Bazel's
    # own -lstdc++ comes last, finds nothing missing, and by --as-needed is left out.
    group = ["-Wl,--start-group"] + archives + ["-l:libstdc++.a", "-Wl,--end-group"]
    return group + shared + ["-static-libgcc", "-Wl,--as-needed"]

def _pkg_config_impl(ctx):
    pkg_config = ctx.which("pkg-config")
    if not pkg_config:
        _fail_missing("pkg-config")
    defines = []
    linkopts = []
    for flag in _flags(ctx, pkg_config, ["--cflags", "--libs"]):
        if flag.startswith("-D"):
            defines.append(flag[2:])
        elif flag.startswith("-l") or flag.startswith("-L") or flag == "-pthread" or flag.startswith("-Wl,"):
            if flag not in linkopts:
                linkopts.append(flag)
    ctx.file("WORKSPACE", "")
    ctx.file("BUILD.bazel", _BUILD.format(
        name = ctx.name,
        defines = repr(defines),
        linkopts = repr(linkopts),
        static_linkopts = repr(_static_linkopts(ctx, _flags(ctx, pkg_config, ["--static", "--libs"]))),
    ))

pkg_config_repository = repository_rule(
    implementation = _pkg_config_impl,
    attrs = {
        "modules": attr.string_list(mandatory = True),
        # False: the library's headers are enough where programs are linked statically.
        "archives": attr.bool(default = True),
    },
    doc = "One cc_library with the flags pkg-config gives for `modules`.",
    local = True,
)

def _system_library_impl(ctx):
    found = False
    for root in ["/usr/include", "/usr/include/x86_64-linux-gnu", "/usr/local/include"]:
        if ctx.path(root + "/" + ctx.attr.header).exists:
            found = True
    if not found:
        _fail_missing("the library with <%s>" % ctx.attr.header)
    ctx.file("WORKSPACE", "")
    ctx.file("BUILD.bazel", _BUILD.format(
        name = ctx.name,
        defines = "[]",
        linkopts = repr(ctx.attr.linkopts),
        static_linkopts = repr(ctx.attr.static_linkopts or ctx.attr.linkopts),
    ))

system_library_repository = repository_rule(
    implementation = _system_library_impl,
    attrs = {
        "header": attr.string(mandatory = True),
        "linkopts": attr.string_list(mandatory = True),
        # Under --config=wheel; default: the same.
        "static_linkopts": attr.string_list(),
    },
    doc = "One cc_library for a system library without a pkg-config file.",
    local = True,
)

def _debian_rules_impl(ctx):
    root = ctx.path("/usr/share/bazel/rules/" + ctx.attr.package)
    if not root.exists:
        _fail_missing("bazel-rules-%s" % ctx.attr.package)
    for entry in root.readdir():
        ctx.symlink(entry, entry.basename)

debian_rules_repository = repository_rule(
    implementation = _debian_rules_impl,
    attrs = {"package": attr.string(mandatory = True)},
    doc = "The Starlark rules that Debian installs under /usr/share/bazel/rules.",
    local = True,
)

def _installed_impl(ctx):
    # One that is missing is named on stderr, which nothing reads.
    versions = ctx.execute(["dpkg-query", "-W"] + ctx.attr.packages).stdout
    ctx.file("WORKSPACE", "")
    ctx.file("versions.txt", versions)
    ctx.file("BUILD.bazel", 'exports_files(["versions.txt"])\n')

installed_repository = repository_rule(
    implementation = _installed_impl,
    attrs = {"packages": attr.string_list(mandatory = True)},
    doc = "versions.txt: of what is installed of `packages`, which are patterns.",
    local = True,
)
