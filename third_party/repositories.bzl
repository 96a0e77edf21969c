"""Every repository the project needs. A host that already has one under its common name keeps its own."""

load("@bazel_tools//tools/build_defs/repo:utils.bzl", "maybe")
load("//third_party/cuda:configure.bzl", "cuda_configure")
load(":system.bzl", "linked_repository", "system_protobuf_repository", "system_repository")

_ABSL = {
    "absl/algorithm": ["container"],
    "absl/base": ["core_headers"],
    "absl/cleanup": ["cleanup"],
    "absl/container": ["btree", "fixed_array", "flat_hash_map", "flat_hash_set", "inlined_vector"],
    "absl/functional": ["any_invocable", "function_ref"],
    "absl/memory": ["memory"],
    "absl/numeric": ["bits", "int128"],
    "absl/random": ["random"],
    "absl/status": ["status", "statusor"],
    "absl/strings": ["cord", "str_format", "strings"],
    "absl/synchronization": ["synchronization"],
    "absl/time": ["time"],
    "absl/types": ["optional", "span", "variant"],
}

# Labels whose pkg-config name is not absl_<name>.
_ABSL_SPECIAL = {
    "absl/algorithm:container": "algorithm_container",
    "absl/numeric:int128": "int128",
    "absl/random:random": "random_random",
}

def _absl():
    libraries = {}
    for package, names in _ABSL.items():
        for name in names:
            label = package + ":" + name
            libraries[label] = "pkg:absl_" + _ABSL_SPECIAL.get(label, name)
    return libraries

def armature_repositories():
    maybe(linked_repository, name = "rules_cc", files = {
        "//third_party/shim/rules_cc:BUILD": "BUILD",
        "//third_party/shim/rules_cc:WORKSPACE": "WORKSPACE",
        "//third_party/shim/rules_cc/cc:BUILD": "cc/BUILD",
        "//third_party/shim/rules_cc/cc:defs.bzl": "cc/defs.bzl",
        "//third_party/shim/rules_cc/cc/common:BUILD": "cc/common/BUILD",
        "//third_party/shim/rules_cc/cc/common:cc_common.bzl": "cc/common/cc_common.bzl",
        "//third_party/shim/rules_cc/cc/common:cc_info.bzl": "cc/common/cc_info.bzl",
        "//third_party/shim/rules_cc/cc/common:native.bzl": "cc/common/native.bzl",
    })
    maybe(linked_repository, name = "remote_coverage_tools", files = {
        "//third_party/shim/cov:BUILD": "BUILD",
        "//third_party/shim/cov:WORKSPACE": "WORKSPACE",
        "//third_party/shim/cov:none.sh": "none.sh",
    })
    maybe(native.local_repository, name = "rules_java", path = "/usr/share/bazel/rules/java")
    maybe(native.local_repository, name = "rules_proto", path = "/usr/share/bazel/rules/proto")
    maybe(native.local_repository, name = "platforms", path = "/usr/share/bazel/tools/platforms")

    maybe(system_repository, name = "com_google_absl", libraries = _absl())
    maybe(system_protobuf_repository, name = "com_google_protobuf")
    maybe(system_repository, name = "com_github_google_glog", libraries = {":glog": "-lglog"})
    maybe(system_repository, name = "com_google_googletest", libraries = {
        ":gtest": "-lgmock -lgtest -lpthread",
        ":gtest_main": "-lgmock_main -lgmock -lgtest -lpthread",
    })
    maybe(system_repository, name = "com_github_google_benchmark", libraries = {
        ":benchmark": "-lbenchmark -lpthread",
        ":benchmark_main": "-lbenchmark_main -lbenchmark -lpthread",
    })
    maybe(system_repository, name = "com_github_nlohmann_json", libraries = {":json": ""})
    maybe(system_repository, name = "cli11", libraries = {":cli11": ""})
    maybe(system_repository, name = "armature_system", libraries = {
        ":gloo": "-lgloo -lpthread",
        ":highway": "-lhwy",
        ":isal": "-lisal",
        ":onednn": "-ldnnl",
    })

    # Found under CUDA_HOME or /usr/local/cuda; empty where there is none.
    maybe(cuda_configure, name = "armature_cuda")
