"""Repository rules that turn installed Debian packages into Bazel targets.

Every repository has one cc_library, named like the repository.
"""

_BUILD = """
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "{name}",
    defines = {defines},
    includes = [],
    linkopts = {linkopts},
)
"""

def _fail_missing(what):
    fail("%s is not installed; run deploy/setup.sh" % what)

def _pkg_config_impl(ctx):
    pkg_config = ctx.which("pkg-config")
    if not pkg_config:
        _fail_missing("pkg-config")
    result = ctx.execute([pkg_config, "--cflags", "--libs"] + ctx.attr.modules)
    if result.return_code != 0:
        _fail_missing("one of the libraries %s (%s)" % (ctx.attr.modules, result.stderr))
    defines = []
    linkopts = []
    for flag in result.stdout.split(" "):
        flag = flag.strip()
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
    ))

pkg_config_repository = repository_rule(
    implementation = _pkg_config_impl,
    attrs = {"modules": attr.string_list(mandatory = True)},
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
    ))

system_library_repository = repository_rule(
    implementation = _system_library_impl,
    attrs = {
        "header": attr.string(mandatory = True),
        "linkopts": attr.string_list(mandatory = True),
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
