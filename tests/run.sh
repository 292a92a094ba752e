#!/bin/bash
# Builds everything and runs the tests; what CI runs.
#
#   tests/run.sh [--full] [--only=//package:test] [--no-setup]
#
# Stages: setup; the optimised g++ build of everything; unit, cluster and
# convergence tests; the command blocks of the documentation; checks of the real processes
# (tests/process), the Python package's tests and its wheels (on Debian 12, for which they
# are) among them; the unit tests under clang with
# AddressSanitizer, UndefinedBehaviorSanitizer, -Wthread-safety and layering_check; lint.
# --full      adds ThreadSanitizer, the long tests (tag `full`) and the planted
#             bugs of tests/mutation.sh.
# --only=T    setup, then builds and runs that one test (or pattern) with g++.
# --no-setup  does not look for missing packages.
#
# The last line is `N passed, N failed, N skipped`: GoogleTest cases (one that
# runs in two builds counts twice), and one per lint check. Exit 0 only when
# none failed and some passed. Environment: MONSOON_BAZEL_CACHE (default
# ~/.cache/monsoon-bazel, shared by clones), MONSOON_BAZEL_OUTPUT_BASE and
# MONSOON_JOBS (default: the cores).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' tests/run.sh; }

full=0
only=""
setup=1
for argument in "$@"; do
  case "$argument" in
    --full) full=1 ;;
    --only=?*) only="${argument#--only=}" ;;
    --no-setup) setup=0 ;;
    -h | --help) usage; exit 0 ;;
    *) echo "run.sh: unknown argument '$argument'" >&2; usage >&2; exit 2 ;;
  esac
done

# Bazel wants a home.
export HOME="${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}"
export USER="${USER:-$(id -un)}"
[[ -d "$HOME" && -w "$HOME" ]] || { HOME="$(mktemp -d)"; export HOME; }

work="$(mktemp -d "${TMPDIR:-/tmp}/monsoon_tests.XXXXXX")"
passed=0
failed=0
skipped=0
bazel_startup=(--host_jvm_args=-Xmx1g)
if [[ -n "${MONSOON_BAZEL_OUTPUT_BASE:-}" ]]; then
  bazel_startup+=(--output_base="$MONSOON_BAZEL_OUTPUT_BASE")
fi

finish() {
  local status=$?
  trap - EXIT
  if command -v bazel >/dev/null; then
    bazel "${bazel_startup[@]}" shutdown >/dev/null 2>&1 </dev/null || true
  fi
  rm -rf "$work"
  if [[ $status -ne 0 && $failed -eq 0 ]]; then
    failed=1  # Interrupted, or a stage that could not even start.
  fi
  if [[ $failed -gt 0 || $passed -eq 0 ]] && [[ $status -eq 0 ]]; then
    status=1
  fi
  echo "$passed passed, $failed failed, $skipped skipped"
  exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

stage_name=""
stage_began=0
begin() {
  stage_name="$1"
  stage_began=$SECONDS
  echo
  echo "== $stage_name"
}
end() { echo "== $stage_name: $((SECONDS - stage_began)) s"; }

fail_stage() {
  echo "FAILED $*"
  failed=$((failed + 1))
}

# Runs bazel with what all stages share.
run_bazel() {
  local command="$1"
  shift
  # gold names every symbol that a sanitizer's runtime keeps to itself.
  bazel "${bazel_startup[@]}" "$command" --disk_cache="$cache" --jobs="$jobs" \
    --local_cpu_resources="$jobs" --local_ram_resources=HOST_RAM*.6 --symlink_prefix="$links" \
    "$@" 2>&1 </dev/null | sed -u '/ld.gold: warning: Cannot export local symbol/d'
}

# run_tests NAME ARGUMENTS...: one `bazel test`, its cases counted. A stage
# without a single case has failed: a tag or a pattern is wrong.
run_tests() {
  local name="$1"
  shift
  begin "$name"
  local code=0 counts
  rm -f "$work/events.json"
  run_bazel test --build_event_json_file="$work/events.json" --keep_going "$@" || code=$?
  counts="$(/usr/bin/python3 tests/count_results.py "$work/events.json" "$code")"
  read -r stage_passed stage_failed stage_skipped <<<"$counts"
  passed=$((passed + stage_passed))
  failed=$((failed + stage_failed))
  skipped=$((skipped + stage_skipped))
  echo "$name: $stage_passed passed, $stage_failed failed, $stage_skipped skipped"
  if [[ $((stage_passed + stage_failed + stage_skipped)) -eq 0 ]]; then
    fail_stage "$name: no test matched"
  fi
  end
}

# Counts what a Python or shell check prints as `NAME: N passed, N failed`, with
# or without `, N skipped`.
run_check() {
  local name="$1" code=0 summary
  shift
  "$@" 2>&1 </dev/null | tee "$work/check.log" || code=$?
  summary="$(grep -E "^$name: [0-9]+ passed, [0-9]+ failed" "$work/check.log" | tail -1 || true)"
  if [[ -z "$summary" ]]; then
    fail_stage "$name: no result (exit $code)"
    return
  fi
  read -r stage_passed stage_failed < <(sed -E 's/^.*: ([0-9]+) passed, ([0-9]+) failed.*/\1 \2/' \
    <<<"$summary")
  if [[ "$summary" =~ ,\ ([0-9]+)\ skipped ]]; then
    skipped=$((skipped + BASH_REMATCH[1]))
  fi
  passed=$((passed + stage_passed))
  failed=$((failed + stage_failed))
  if [[ $code -ne 0 && $stage_failed -eq 0 ]]; then
    fail_stage "$name: exit $code"
  fi
}

if [[ $setup -eq 1 ]]; then
  begin setup
  deploy/setup.sh --for=all
  end
fi
cache="${MONSOON_BAZEL_CACHE:-$HOME/.cache/monsoon-bazel}"
jobs="${MONSOON_JOBS:-$(nproc)}"
# Convenience links of one's own, so that a developer's bazel-bin stays.
links="${MONSOON_BAZEL_LINKS:-/}"
mkdir -p "$cache"

if [[ -n "$only" ]]; then
  run_tests "only $only" --config=opt --nocache_test_results "$only"
  exit 0
fi

begin "build (g++, optimised)"
if ! run_bazel build --config=opt --keep_going //...; then
  fail_stage "build (g++, optimised)"
fi
end
# Cluster and convergence tests take turns, so that each has the machine.
run_tests "unit tests" --config=opt --build_tests_only --test_tag_filters=unit,-full //...
run_tests "cluster tests" --config=opt --build_tests_only --local_test_jobs=1 \
  --nocache_test_results --test_tag_filters=cluster,-full //...
run_tests "convergence tests" --config=opt --build_tests_only --local_test_jobs=1 \
  --nocache_test_results --test_tag_filters=convergence,-full //...

begin docs
bin="$(bazel "${bazel_startup[@]}" info --config=opt bazel-bin 2>/dev/null </dev/null)"
MONSOON_DOCS_BAZEL_OPTIONS="--disk_cache=$cache --jobs=$jobs --symlink_prefix=$links" \
  run_check docs /usr/bin/python3 tests/docs/run_blocks.py --bin="$bin" \
  --bazel="bazel ${bazel_startup[*]}"
run_check selftest /usr/bin/python3 tests/docs/run_blocks_selftest.py
end

# check_processes STAGE BIN: the checks of tests/process/table.py for those programs.
check_processes() {
  local options=(--stage="$1" --bin="$2")
  [[ $full -eq 0 ]] || options+=(--full)
  run_check "$1" /usr/bin/python3 -m tests.process "${options[@]}"
}
begin "processes"
check_processes process "$bin"
# Their programs take the place of those without fail points, which come back from the
# cache at once.
programs=(coordinator:coordinator ps_server:ps_server worker:worker
  worker/sidecar:monsoon_sidecar worker/client:libmonsoon.so)
programs=("${programs[@]/#///}")
if run_bazel build --config=opt --config=failpoints "${programs[@]}"; then
  for program in "${programs[@]#//}"; do
    install -D -m 755 "$bin/${program/://}" "$work/failpoints/${program/://}"
  done
  check_processes failpoints "$work/failpoints"
else
  fail_stage "build (fail points)"
fi
if [[ "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" == bookworm ]]; then
  mapfile -t carried < <(/usr/bin/python3 -B deploy/wheel/contents.py)
  if run_bazel build --config=opt --config=wheel "${carried[@]}"; then
    check_processes wheel "$bin"
  else
    fail_stage "build (wheels)"
  fi
fi
run_bazel build --config=opt "${programs[@]}" || fail_stage "build (g++, optimised)"
end

clang_configs=(--config=asan)
if ! command -v clang-16 >/dev/null && command -v clang-19 >/dev/null; then
  clang_configs+=(--config=clang19)  # Debian 13 has no clang 16
fi
run_tests "unit tests (clang, ASan and UBSan)" "${clang_configs[@]}" --build_tests_only \
  --test_tag_filters=unit,-full,-noasan //...

begin lint
run_check lint /usr/bin/python3 tests/lint/lint.py
run_check selftest /usr/bin/python3 tests/lint/lint_selftest.py
run_check selftest /usr/bin/python3 tests/lint/house_selftest.py
run_check selftest /usr/bin/python3 tests/count_results_selftest.py
run_check selftest /usr/bin/python3 -m tests.process.selftest
run_check selftest /usr/bin/python3 deploy/demo_report_selftest.py
run_check selftest /usr/bin/python3 tests/benchmarks/measure_selftest.py
run_check selftest /usr/bin/python3 tests/benchmarks/compare_selftest.py
run_check selftest /usr/bin/python3 tests/benchmarks/peers_selftest.py
run_check selftest /usr/bin/python3 tests/gpu/emulator/translate/translate_selftest.py
end

if [[ $full -eq 1 ]]; then
  run_tests "tests with threads (clang, TSan)" "${clang_configs[@]/asan/tsan}" --build_tests_only \
    --test_tag_filters=tsan //...
  run_tests "long tests" --config=opt --build_tests_only --local_test_jobs=1 \
    --nocache_test_results --test_tag_filters=full //...
  begin "planted bugs"
  run_check mutation tests/mutation.sh
  end
fi
exit 0
