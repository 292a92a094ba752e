#!/bin/bash
# Builds and runs the GPU tests of the CUDA backend on a machine with a GPU. It
# needs nvcc of CUDA 12 or 13 (in CUDA_HOME, on PATH or in /usr/local/cuda), g++ 11 or
# newer, CMake 3.18 and GoogleTest (Debian: libgtest-dev), and nothing else of Monsoon's.
# It compiles for the GPUs that this nvcc knows, and says which.
#
#   tests/gpu/build_and_test.sh [--build=DIR] [--sanitize] [--benchmark]
#
# --build=DIR  where to build; default $TMPDIR/monsoon-build-gpu, kept for the next time.
# --sanitize   runs the tests under compute-sanitizer's four tools as well, each test
#              for at most ten minutes a tool: memcheck, racecheck and synccheck, whose
#              findings fail the run, and initcheck, whose findings are only told
#              (docs/gpu.md says why).
# --benchmark  runs gpu_benchmark after the tests.
# DIR/report.txt has all that was printed, the commit, the machine and the driver: made
# to be sent back. The last line is `N passed, N failed, N skipped`, GoogleTest cases.
# Exit 0 when none failed and some passed; 1 otherwise, so also where there is no GPU.
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

mkdir -p "$build"
exec > >(tee "$build/report.txt") 2>&1
echo "commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown), $(date -u +%Y-%m-%d)"
{ nvidia-smi --query-gpu=name,driver_version,memory.total,compute_cap --format=csv,noheader ||
    echo "nvidia-smi does not run"; } 2>/dev/null
echo "$(uname -sr), $(grep -m1 'model name' /proc/cpuinfo | sed 's/.*: //'), $(nproc) cores"

cmake -S worker/backend/cuda -B "$build" >"$build/cmake.log" || { cat "$build/cmake.log"; exit 1; }
sed -n 's/^-- \(CUDA targets\)/\1/p' "$build/cmake.log"
cmake --build "$build" -j "$(nproc)"

passed=0
failed=0
skipped=0
# count PATTERN FILE: GoogleTest's own lines of single cases.
count() { grep -cE "^\[ +$1 +\] .* \([0-9]+ ms\)$" "$2" || true; }

run_tests() {
  local name log="$build/test.log" code
  for name in $(<"$build/tests.txt"); do
    # Nothing to look at: the one needs no GPU, and a broken access is what the other is
    # about.
    [[ $# -eq 0 || ("$name" != operations_test && "$name" != device_error_test) ]] || continue
    echo "== $* $name"
    code=0
    "$@" "$build/$name" >"$log" 2>&1 || code=$?
    grep -E "Failure|FAILED|SKIPPED|error|SUMMARY" "$log" | head -40 || true
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
  PATH="$PATH:${CUDA_HOME:-/usr/local/cuda}/bin"
  for tool in memcheck racecheck synccheck initcheck; do
    # Tests ask for a device that is not there, so errors of calls are no finding.
    checked=(timeout 600 compute-sanitizer --tool "$tool" --report-api-errors no)
    [[ $tool == initcheck ]] || checked+=(--error-exitcode=99)
    run_tests "${checked[@]}"
  done
fi
if [[ $benchmark -eq 1 ]]; then
  "$build/gpu_benchmark" || failed=$((failed + 1))
fi
echo "report: $build/report.txt"
echo "$passed passed, $failed failed, $skipped skipped"
# operations_test needs no GPU; a run in which all else was skipped shows nothing.
[[ $failed -eq 0 && $passed -gt 0 && $skipped -eq 0 ]]
