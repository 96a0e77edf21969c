"""Repositories made of libraries that the system's package manager installed."""

_HEADER = """load("@rules_cc//cc:defs.bzl", "cc_library")

package(default_visibility = ["//visibility:public"])
"""

_LIBRARY = """
cc_library(
    name = "{name}",
    linkopts = {linkopts},
)
"""

def _linkopts(ctx, spec):
    """"-lfoo" and "" stand for themselves; "pkg:foo" asks pkg-config."""
    if not spec.startswith("pkg:"):
        return spec.split(" ") if spec else []
    result = ctx.execute(["pkg-config", "--libs", spec[len("pkg:"):]])
    if result.return_code:
        fail("%s: pkg-config does not know %s; run ./dev setup, or define @%s in your WORKSPACE" %
             (ctx.name, spec, ctx.name))
    return [option for option in result.stdout.strip().split(" ") if option]

def _impl(ctx):
    packages = {}
    for label, spec in ctx.attr.libraries.items():
        package, _, name = label.partition(":")
        text = packages.get(package, _HEADER)
        packages[package] = text + _LIBRARY.format(name = name, linkopts = _linkopts(ctx, spec))
    ctx.file("WORKSPACE", "")
    for package, text in packages.items():
        ctx.file(package + "/BUILD" if package else "BUILD", text)

# libraries: {"package:name": link spec}, under the labels that the library's own Bazel build uses.
system_repository = repository_rule(
    implementation = _impl,
    attrs = {"libraries": attr.string_dict()},
    local = True,
)

def _protobuf_impl(ctx):
    ctx.file("WORKSPACE", "")
    protoc = ctx.which("protoc")
    if not protoc:
        fail("no protoc on PATH; run ./dev setup, or define @com_google_protobuf in your WORKSPACE")
    ctx.symlink(protoc, "protoc_bin")
    ctx.file("BUILD", _HEADER + """
filegroup(name = "protoc", srcs = ["protoc_bin"])

proto_lang_toolchain(
    name = "cc_toolchain",
    blacklisted_protos = [],
    command_line = "--cpp_out=$(OUT)",
    runtime = ":protobuf",
)
""" + _LIBRARY.format(name = "protobuf", linkopts = ["-lprotobuf", "-lpthread"]))

# The system's protoc and runtime under the labels that Bazel's proto rules look for.
system_protobuf_repository = repository_rule(implementation = _protobuf_impl, local = True)

def _links_impl(ctx):
    for label, path in ctx.attr.files.items():
        ctx.symlink(label, path)

# A repository made of this project's own files, wherever the project itself is checked out.
linked_repository = repository_rule(
    implementation = _links_impl,
    attrs = {"files": attr.label_keyed_string_dict(allow_files = True)},
)
