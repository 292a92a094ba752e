"""Precompiled headers: the system's headers that most sources include, parsed once a build.

docs/decisions/ has what they cost and save. --define=pch=off builds without them.
"""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

_COMPILE = "c++-compile"

# The Make variable with the flags that put the header before a source (cc.bzl).
_FLAGS = "PRECOMPILED"

_LAYERING_CHECK = "layering_check"

def _features(ctx, toolchain, unsupported):
    return cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features + unsupported,
    )

def _precompile(ctx, toolchain, features, out, inputs, flags, source):
    """Compiles `source`, arguments, to the precompiled header `out`."""
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts + flags,
        preprocessor_defines = depset(transitive = [
            dep[CcInfo].compilation_context.defines
            for dep in ctx.attr.deps
        ]),
        # As Bazel's own rules do.
        use_pic = ctx.var["COMPILATION_MODE"] != "opt" and toolchain.needs_pic_for_dynamic_libraries(
            feature_configuration = features,
        ),
    )
    ctx.actions.run(
        executable = cc_common.get_tool_for_action(
            feature_configuration = features,
            action_name = _COMPILE,
        ),
        arguments = cc_common.get_memory_inefficient_command_line(
            feature_configuration = features,
            action_name = _COMPILE,
            variables = variables,
        ) + ["-x", "c++-header"] + source + ["-o", out.path],
        env = cc_common.get_environment_variables(
            feature_configuration = features,
            action_name = _COMPILE,
            variables = variables,
        ),
        inputs = depset(inputs + ctx.files._installed, transitive = [toolchain.all_files]),
        outputs = [out],
        mnemonic = "CppPrecompile",
        progress_message = "Precompiling %s" % out.short_path,
    )

def _of_gcc(ctx, toolchain):
    """NAME.h, and NAME.h.gch/ with its forms, of which g++ takes the one that fits."""
    features = _features(ctx, toolchain, [])
    header = ctx.actions.declare_file(ctx.label.name + ".h")
    ctx.actions.write(header, "".join(["#include <%s>\n" % name for name in ctx.attr.headers]))
    files = [header]
    for variant, flags in ctx.attr.variants.items():
        out = ctx.actions.declare_file("%s.h.gch/%s" % (ctx.label.name, variant))
        _precompile(ctx, toolchain, features, out, [header], flags, [header.path])
        files.append(out)
    return files, "-include " + header.path

def _of_clang(ctx, toolchain):
    """NAME.pch, in one form: flags that differ only in how far to optimise do no harm."""

    # The check itself asks for a module, which a header of the system is not in.
    features = _features(ctx, toolchain, [_LAYERING_CHECK])
    flags = [
        "-Xclang",
        "-fno-pch-timestamp",  # Files from a cache have other times.
        "-fpch-instantiate-templates",  # Once here, not again in each source.
    ]
    if cc_common.is_enabled(
        feature_configuration = _features(ctx, toolchain, []),
        feature_name = _LAYERING_CHECK,
    ):
        flags.append("-fmodules-strict-decluse")

    # No header of its own: clang would look for it in the sandbox where it was. Whatever is
    # compiled is said to be included, so it is one of the system's, with macros of glibc.
    source = [word for name in ctx.attr.headers for word in ["-include", name]]
    source.append("/usr/include/stdc-predef.h")
    out = ctx.actions.declare_file(ctx.label.name + ".pch")
    _precompile(ctx, toolchain, features, out, [], flags, source)
    return [out], "-include-pch %s -Xclang -fno-validate-pch" % out.path

def _precompiled_header_impl(ctx):
    if ctx.var.get("pch") == "off":
        return [platform_common.TemplateVariableInfo({_FLAGS: ""}), CcInfo()]
    toolchain = find_cpp_toolchain(ctx)
    make = _of_clang if toolchain.compiler == "clang" else _of_gcc
    files, flags = make(ctx, toolchain)
    return [
        platform_common.TemplateVariableInfo({_FLAGS: flags}),
        CcInfo(compilation_context = cc_common.create_compilation_context(headers = depset(files))),
    ]

precompiled_header = rule(
    implementation = _precompiled_header_impl,
    attrs = {
        # As they stand between < and >.
        "headers": attr.string_list(mandatory = True),
        # {name: flags after those of the configuration}, for g++.
        "variants": attr.string_list_dict(mandatory = True),
        # Libraries whose `defines` the headers ask for.
        "deps": attr.label_list(providers = [CcInfo]),
        # Changes whenever the compilers and the headers may have.
        "_installed": attr.label(default = "@installed//:versions.txt", allow_single_file = True),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
    fragments = ["cpp"],
)
