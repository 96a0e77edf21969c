#!/usr/bin/env bash
# Rules that the compiler does not check. Prints what breaks them; exit code 1 if anything does.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

found=0
BAZEL_STARTUP=(--output_user_root="$PWD/.bazel")   # as ./dev
# refuse RULE EXTENDED-REGEX PATHSPEC...: tracked lines that match break the rule.
refuse() {
  local rule=$1 pattern=$2 lines
  shift 2
  lines=$(git grep -nIE "$pattern" -- "$@" || true)
  [ -z "$lines" ] && return
  echo "$rule"
  echo "$lines" | sed 's/^/  /'
  found=1
}

# Without the prefix a host's own base/ or engine/ could be meant.
refuse 'A project header is included without "armature/":' \
  '#include "(base|tensor|comm|layers|optim|checkpoint|data|models|engine|tools|tests|examples)/' '*.h' '*.cc' '*.cu'
refuse 'StatusOr::value() ends the process; check ok() and use *:' \
  '\)\.value\(\)|(status|result|_or)\.value\(\)' '*.h' '*.cc'
refuse 'A header can be reached by two paths; use include guards:' '#pragma once' '*.h'
refuse 'Unfinished work:' '\b(TODO|FIXME|XXX)\b' '*.h' '*.cc' '*.bzl' '*.md' dev
refuse 'Our own repository is named @armature only in a host:' '^[^#]*@armature//' '*.bzl' '*/BUILD' BUILD WORKSPACE
refuse 'Only tools, tests and broken invariants may end the process:' '^[^/"]*\b(abort|exit|_exit|std::terminate)\(' \
  'base/*' 'tensor/*' 'comm/*' 'layers/*' 'optim/*' 'checkpoint/*' 'data/*' 'models/*' 'engine/*' ':!*_test.cc' ':!*.md'

# Who may include whom: docs/architecture.md. A test may include what it likes.
floors() {
  case $1 in
    base) echo '' ;;
    tensor | data | comm) echo 'base tensor' ;;
    layers | checkpoint) echo 'base tensor comm' ;;
    optim) echo 'base tensor comm' ;;
    models) echo 'base tensor layers' ;;
    engine) echo 'base tensor comm layers optim checkpoint data' ;;
  esac
}
packages=''   # not //..., which would follow Bazel's own links into its caches
for package in base tensor comm layers optim checkpoint data models engine tools examples tests; do
  [ -n "$(git ls-files "$package/*BUILD")" ] && packages="$packages + //$package/..."
done
edges=''
for package in base tensor comm layers optim checkpoint data models engine; do
  [ -n "$(git ls-files "$package/*BUILD")" ] || continue
  others="(${packages# + }) except //$package/..."
  for allowed in $(floors "$package"); do [ -n "$(git ls-files "$allowed/*BUILD")" ] && others="$others except //$allowed/..."; done
  edges="$edges + (deps(kind(cc_library, //$package/...) except attr(testonly, 1, //$package/...), 1) intersect ($others))"
done
wrong=$(bazel "${BAZEL_STARTUP[@]}" query --noshow_progress --noimplicit_deps "${edges# + }" 2>/dev/null)
if [ -n "$wrong" ]; then
  echo 'Floors: a lower package depends on these targets (docs/architecture.md says who may depend on whom):'
  echo "$wrong" | sed 's/^/  /'
  found=1
fi

exit "$found"
