#!/bin/bash
# Runs the GPU tests of an unpacked deploy/gpu_bundle.sh archive.
#
#   ./run_gpu_tests.sh [--benchmark]
#
# report.txt beside this script has all that was printed, the machine and the driver:
# made to be sent back. The last line is `N passed, N failed, N skipped`, GoogleTest
# cases. Exit 0 when none failed and some passed on the GPU.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

benchmark=0
case "${1:-}" in
  "") ;;
  --benchmark) benchmark=1 ;;
  -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' run_gpu_tests.sh; exit 0 ;;
  *) echo "run_gpu_tests.sh: unknown argument '$1'; try --help" >&2; exit 2 ;;
esac

exec > >(tee report.txt) 2>&1
bin/coordinator version
date -u +%Y-%m-%d
{ nvidia-smi --query-gpu=name,driver_version,memory.total,compute_cap --format=csv,noheader ||
    echo "nvidia-smi does not run"; } 2>/dev/null
echo "$(uname -sr), $(grep -m1 'model name' /proc/cpuinfo | sed 's/.*: //'), $(nproc) cores"

log="$(mktemp)"
trap 'rm -f "$log"' EXIT
passed=0
failed=0
skipped=0
# GoogleTest's own lines of single cases.
count() { grep -cE "^\[ +$1 +\] .* \([0-9]+ ms\)$" "$log" || true; }
for name in device_test network_test device_error_test; do
  echo "== $name"
  code=0
  "bin/$name" >"$log" 2>&1 || code=$?
  grep -E "Failure|FAILED|needs a GPU" "$log" | sort -u | head -40 || true
  bad="$(count FAILED)"
  if [[ $code -ne 0 && $bad -eq 0 ]]; then
    tail -n 20 "$log"
    bad=1
  fi
  passed=$((passed + $(count OK)))
  failed=$((failed + bad))
  skipped=$((skipped + $(count SKIPPED)))
done
if [[ $benchmark -eq 1 ]]; then
  bin/gpu_benchmark || failed=$((failed + 1))
fi
echo "report: $PWD/report.txt"
echo "$passed passed, $failed failed, $skipped skipped"
# Without a GPU nearly all is skipped.
[[ $failed -eq 0 && $passed -gt $skipped ]]
