#!/bin/bash
# Builds and runs the GPU tests of the CUDA backend on a machine with a GPU. It
# needs nvcc, g++ 11 or newer, CMake 3.18 and GoogleTest (Debian: libgtest-dev),
# and nothing else of Monsoon's.
#
#   tests/gpu/build_and_test.sh [--build=DIR] [--sanitize] [--benchmark]
#
# --build=DIR  where to build; default $TMPDIR/monsoon-build-gpu, kept for the next time.
# --sanitize   runs the tests under compute-sanitizer (memcheck) as well.
# --benchmark  runs gpu_benchmark after the tests.
# The last line is `N passed, N failed, N skipped`, GoogleTest cases. Exit 0 when
# none failed and some passed; 1 otherwise, so also where there is no GPU.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

build="${TMPDIR:-/tmp}/monsoon-build-gpu"
sanitize=0
benchmark=0
for argument in "$@"; do
  case "$argument" in
    --build=?*) build="${argument#--build=}" ;;
    --sanitize) sanitize=1 ;;
    --benchmark) benchmark=1 ;;
    -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' tests/gpu/build_and_test.sh; exit 0 ;;
    *) echo "build_and_test.sh: unknown argument '$argument'; try --help" >&2; exit 2 ;;
  esac
done

cmake -S worker/backend/cuda -B "$build" >/dev/null
cmake --build "$build" -j "$(nproc)"

passed=0
failed=0
skipped=0
# count PATTERN FILE: GoogleTest's own lines of single cases.
count() { grep -cE "^\[ +$1 +\] .* \([0-9]+ ms\)$" "$2" || true; }

run_tests() {
  local name log="$build/test.log" code
  for name in operations_test kernels_test pool_test engine_test device_error_test; do
    # A broken access is what the last one is about.
    [[ $# -eq 0 || "$name" != device_error_test ]] || continue
    echo "== $* $name"
    code=0
    "$@" "$build/$name" >"$log" 2>&1 || code=$?
    grep -E "Failure|FAILED|SKIPPED|error|ERROR SUMMARY" "$log" | head -40 || true
    local ok bad
    ok="$(count OK "$log")"
    bad="$(count FAILED "$log")"
    passed=$((passed + ok))
    skipped=$((skipped + $(count SKIPPED "$log")))
    # A program that ended badly without a failed case crashed.
    if [[ $code -ne 0 && $bad -eq 0 ]]; then
      tail -n 20 "$log"
      bad=1
    fi
    failed=$((failed + bad))
  done
}

run_tests
if [[ $sanitize -eq 1 ]]; then
  # Tests ask for a device that is not there, so errors of calls are no finding.
  PATH="$PATH:${CUDA_HOME:-/usr/local/cuda}/bin"
  run_tests compute-sanitizer --report-api-errors no --error-exitcode=99
fi
if [[ $benchmark -eq 1 ]]; then
  "$build/gpu_benchmark" || failed=$((failed + 1))
fi
echo "$passed passed, $failed failed, $skipped skipped"
# operations_test needs no GPU; a run in which all else was skipped shows nothing.
[[ $failed -eq 0 && $passed -gt 0 && $skipped -eq 0 ]]
