#!/bin/bash
# Runs the fuzz targets: clang's libFuzzer with AddressSanitizer and
# UndefinedBehaviorSanitizer, from the corpora in the tree.
#
#   tests/fuzz.sh [--runs=N] [--only=//package:name_fuzz] [--out=FOLDER]
#
# --runs=N    inputs of each target, default 1000000.
# --only=T    that one target.
# --out=D     where grown corpora and findings (crash-*, leak-*, timeout-*) go;
#             default: a folder that is removed, unless something was found.
#
# One line a target: name, inputs, seconds, findings. Exit 0 only without a
# finding. Environment as for tests/run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

runs=1000000
only=""
out=""
for argument in "$@"; do
  case "$argument" in
    --runs=?*) runs="${argument#--runs=}" ;;
    --only=?*) only="${argument#--only=}" ;;
    --out=?*) out="${argument#--out=}" ;;
    *) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' tests/fuzz.sh >&2; exit 2 ;;
  esac
done

# Bazel wants a home.
export HOME="${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}" USER="${USER:-$(id -un)}"
bazel=(bazel --host_jvm_args=-Xmx1g)
if [[ -n "${MONSOON_BAZEL_OUTPUT_BASE:-}" ]]; then
  bazel+=(--output_base="$MONSOON_BAZEL_OUTPUT_BASE")
fi
jobs="${MONSOON_JOBS:-$(nproc)}"
options=(--config=fuzz --disk_cache="${MONSOON_BAZEL_CACHE:-$HOME/.cache/monsoon-bazel}"
  --jobs="$jobs" --local_cpu_resources="$jobs" --symlink_prefix=/)

if [[ -n "$only" ]]; then
  targets=("$only")
else
  mapfile -t targets < <("${bazel[@]}" query 'attr(tags, fuzz, //...)' 2>/dev/null)
fi
[[ ${#targets[@]} -gt 0 ]] || { echo "fuzz.sh: no target" >&2; exit 2; }
"${bazel[@]}" build "${options[@]}" "${targets[@]}"
bin="$("${bazel[@]}" info "${options[@]}" bazel-bin 2>/dev/null)"

keep=1
[[ -n "$out" ]] || { out="$(mktemp -d "${TMPDIR:-/tmp}/monsoon_fuzz.XXXXXX")"; keep=0; }
found=0
for target in "${targets[@]}"; do
  path="${target#//}"
  path="${path/://}"
  name="${path##*/}"
  corpus="$out/$name"
  mkdir -p "$corpus"
  began=$SECONDS
  code=0
  # The first folder grows; the second holds the seeds.
  ASAN_OPTIONS=detect_stack_use_after_return=1:symbolize=1 \
    ASAN_SYMBOLIZER_PATH=/usr/bin/llvm-symbolizer-16 UBSAN_OPTIONS=print_stacktrace=1 \
    "$bin/$path" -runs="$runs" -max_len=8192 -timeout=10 -rss_limit_mb=2048 \
    -artifact_prefix="$out/$name-" "$corpus" "$(dirname "$path")/testdata/$name" \
    >"$out/$name.log" 2>&1 || code=$?
  if [[ $code -ne 0 ]]; then
    found=$((found + 1))
    tail -60 "$out/$name.log"
  fi
  echo "$name: $runs inputs, $((SECONDS - began)) s, $([[ $code -eq 0 ]] && echo no finding || echo "FOUND, see $out/$name.log")"
done
if [[ $found -eq 0 && $keep -eq 0 ]]; then
  rm -rf "$out"
fi
[[ $found -eq 0 ]]
