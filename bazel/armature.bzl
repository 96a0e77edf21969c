"""The project's own C++ rules: warnings and the include prefix stand here and nowhere else.

A header //base:clock.h is included as "armature/base/clock.h", so that a host's own base/ can't collide with ours.
"""

load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library", "cc_test")

_COPTS = ["-Wall", "-Wextra", "-Wpedantic"]

# Vector kernels are compiled for the baseline, AVX2 and AVX-512: more targets cost compile time and win little.
# Sums and products are fused only where a kernel says so (MulAdd), so that vector loops and their tails give the same
# bits.
_HIGHWAY_COPTS = [
    "'-DHWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SSE4)'",
    "-ffp-contract=off",
]
_GTEST = ["@com_google_googletest//:gtest_main"]

def _check_srcs(name, srcs):
    for src in srcs:
        # Bazel gives headers in srcs no include prefix: a private header is a target with private visibility.
        if src.endswith(".h"):
            fail("%s: the header %s belongs in hdrs" % (name, src))

def armature_cc_library(name, srcs = [], hdrs = [], copts = [], **kwargs):
    """A library; its headers are found under armature/<package>/."""
    _check_srcs(name, srcs)
    if hdrs:
        kwargs["include_prefix"] = "armature/" + native.package_name()
        kwargs["strip_include_prefix"] = ""
    cc_library(
        name = name,
        srcs = srcs,
        hdrs = hdrs,
        copts = _COPTS + copts,
        linkstatic = True,
        **kwargs
    )

def armature_highway_library(name, copts = [], deps = [], **kwargs):
    """A library of Highway kernels, chosen at run time for the processor at hand.

    Each source starts with
      #undef HWY_TARGET_INCLUDE
      #define HWY_TARGET_INCLUDE "<package>/<source>.cc"
      #include "hwy/foreach_target.h"
      #include "hwy/highway.h"
    and calls its kernels through HWY_EXPORT and HWY_DYNAMIC_DISPATCH.
    """
    armature_cc_library(
        name = name,
        copts = _HIGHWAY_COPTS + copts,
        deps = deps + ["//third_party:highway"],
        **kwargs
    )

def armature_cc_binary(name, srcs, copts = [], **kwargs):
    _check_srcs(name, srcs)
    cc_binary(name = name, srcs = srcs, copts = _COPTS + copts, **kwargs)

def armature_cc_test(name, srcs = None, deps = [], copts = [], size = "small", **kwargs):
    """A GoogleTest; srcs defaults to <name>.cc."""
    srcs = srcs or [name + ".cc"]
    _check_srcs(name, srcs)
    cc_test(
        name = name,
        srcs = srcs,
        deps = deps + _GTEST,
        copts = _COPTS + copts,
        linkstatic = True,
        size = size,
        **kwargs
    )

def armature_cc_benchmark(name, srcs = None, deps = [], copts = []):
    """A Google Benchmark binary: run by hand with `bazel run`, never a timed test."""
    cc_binary(
        name = name,
        srcs = srcs or [name + ".cc"],
        deps = deps + ["@com_github_google_benchmark//:benchmark_main"],
        copts = _COPTS + copts,
        tags = ["benchmark"],
        testonly = True,
    )

def armature_proto_library(name, srcs, deps = [], visibility = None):
    """<name>_proto and <name>_cc_proto; the header is armature/<package>/<src>.pb.h."""
    native.proto_library(
        name = name + "_proto",
        srcs = srcs,
        deps = [dep + "_proto" for dep in deps],
        import_prefix = "armature/" + native.package_name(),
        strip_import_prefix = "/" + native.package_name(),
        visibility = visibility,
    )
    native.cc_proto_library(
        name = name + "_cc_proto",
        deps = [":" + name + "_proto"],
        visibility = visibility,
    )
