#!/bin/bash
# Builds everything and runs the tests; what CI runs.
#
#   tests/run.sh [--full] [--only=//package:test] [--no-setup]
#
# Stages: setup; lint; the optimised g++ build of everything; unit, cluster and
# convergence tests; the command blocks of the documentation; checks of the real processes
# (tests/process), which kill, stop and cut off what the programs are made of, those of the
# Python package and of the emulated GPU among them; the unit tests under clang with
# AddressSanitizer, UndefinedBehaviorSanitizer, -Wthread-safety and layering_check, which are
# built, at the lowest priority, while the stages before wait for their processes.
# --full      adds a build without precompiled headers, ThreadSanitizer, the long tests (tag
#             `full`), longer lists for the checks that have them, the Python package's wheels
#             (on Debian 12, for which they are), clang-tidy of what changed, and the planted
#             bugs of tests/mutation.sh.
#             CONTRIBUTING.md has the rule by which a check belongs there.
# --only=T    setup, then builds and runs that one test (or pattern) with g++.
# --no-setup  does not look for missing packages.
#
# At the end stand the seconds of each stage and check. The last line is
# `N passed, N failed, N skipped`: GoogleTest cases (one that runs in two builds
# counts twice), and one per lint check. Exit 0 only when none failed and some
# passed. Environment: MONSOON_BAZEL_CACHE (default ~/.cache/monsoon-bazel, shared
# by clones), MONSOON_BAZEL_OUTPUT_BASE and MONSOON_JOBS (default: the cores).
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
server=("${bazel_startup[@]}")  # that run_bazel asks
sanitizing_server=()            # another, which builds while the first one tests
sanitized_build=""              # its client; "": not started

finish() {
  local status=$?
  trap - EXIT
  if command -v bazel >/dev/null; then
    if [[ -n "$sanitized_build" ]]; then
      kill "$sanitized_build" 2>/dev/null || true
      bazel "${sanitizing_server[@]}" shutdown >/dev/null 2>&1 </dev/null || true
    fi
    bazel "${bazel_startup[@]}" shutdown >/dev/null 2>&1 </dev/null || true
  fi
  if [[ $status -ne 0 && $failed -eq 0 ]]; then
    failed=1  # Interrupted, or a stage that could not even start.
  fi
  if [[ $failed -gt 0 || $passed -eq 0 ]] && [[ $status -eq 0 ]]; then
    status=1
  fi
  [[ ! -f "$work/check_times" ]] || cat "$work/check_times" >>"$work/times"
  if [[ -s "$work/times" ]]; then
    echo
    echo "== seconds"
    awk -F'\t' '{ printf "%6d  %s\n", $1, $2 }' "$work/times"
  fi
  rm -rf "$work"
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
end() {
  local seconds=$((SECONDS - stage_began))
  echo "== $stage_name: $seconds s"
  printf '%d\t%s\n' "$seconds" "$stage_name" >>"$work/times"
  # The checks of the stage stand below it.
  [[ ! -f "$work/check_times" ]] || cat "$work/check_times" >>"$work/times"
  rm -f "$work/check_times"
}

fail_stage() {
  echo "FAILED $*"
  failed=$((failed + 1))
}

# Runs bazel with what all stages share.
run_bazel() {
  local command="$1"
  shift
  # gold names every symbol that a sanitizer's runtime keeps to itself.
  bazel "${server[@]}" "$command" "${bazel_shared[@]}" "$@" 2>&1 </dev/null |
    sed -u '/ld.gold: warning: Cannot export local symbol/d'
}

# begin_sanitized_build ARGUMENTS...: in a server of its own, which yields to all that is tested
# meanwhile. What is wrong is said by the stage that asks for the same targets.
begin_sanitized_build() {
  local base
  base="$(bazel "${bazel_startup[@]}" info output_base 2>/dev/null </dev/null)" || return 0
  sanitizing_server=(--host_jvm_args=-Xmx1g --output_base="${base}_sanitized")
  nice -n 19 bazel "${sanitizing_server[@]}" build "${bazel_shared[@]}" --symlink_prefix=/ \
    --local_ram_resources=HOST_RAM*.3 --keep_going "$@" >"$work/sanitized.log" 2>&1 \
    </dev/null &
  sanitized_build=$!
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
# or without `, N skipped`. Its time stands under its name and what it was told beside.
run_check() {
  local name="$1" code=0 began=$SECONDS label="" summary argument
  shift
  for argument in "$@"; do
    case "$argument" in
      /usr/bin/python3 | --bin=* | --bazel=* | --worker=*) ;;  # the same for all
      *) label+=" $argument" ;;
    esac
  done
  "$@" 2>&1 </dev/null | tee "$work/check.log" || code=$?
  printf '%d\t %s\n' "$((SECONDS - began))" "$label" >>"$work/check_times"
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
bazel_shared=(--disk_cache="$cache" --jobs="$jobs" --local_cpu_resources="$jobs"
  --local_ram_resources=HOST_RAM*.6 --symlink_prefix="$links")

if [[ -n "$only" ]]; then
  run_tests "only $only" --config=opt --nocache_test_results "$only"
  exit 0
fi

begin lint
run_check lint tests/lint/lint.py
for selftest in tests/lint/lint tests/lint/house tests/count_results deploy/demo_report \
  tests/docs/run_blocks tests/docs/links tests/benchmarks/measure tests/benchmarks/compare \
  tests/benchmarks/peers tests/gpu/emulator/translate/translate; do
  run_check selftest /usr/bin/python3 "${selftest}_selftest.py"
done
run_check selftest /usr/bin/python3 -m tests.process.selftest
[[ $full -eq 0 ]] || run_check tidy tests/tidy.sh
end

begin "build (g++, optimised)"
# A library that is named by itself is built in each form that a user could link, which compiles
# its sources a second time as position-independent code. Programs and tests link what they need.
others='kind(rule, //...) except kind("cc_library rule", //...) except attr(tags, manual, //...)'
if ! bazel "${bazel_startup[@]}" query "$others" --noshow_progress >"$work/targets" </dev/null ||
  ! run_bazel build --config=opt --keep_going --target_pattern_file="$work/targets"; then
  fail_stage "build (g++, optimised)"
fi
end
clang_configs=(--config=asan)
if ! command -v clang-16 >/dev/null && command -v clang-19 >/dev/null; then
  clang_configs+=(--config=clang19)  # Debian 13 has no clang 16
fi
sanitized_unit_tests=("${clang_configs[@]}" --build_tests_only
  --test_tag_filters=unit,-full,-noasan //...)

# Cluster and convergence tests take turns, so that each has the machine.
run_tests "unit tests" --config=opt --build_tests_only --test_tag_filters=unit,-full //...
begin_sanitized_build "${sanitized_unit_tests[@]}"
run_tests "cluster tests" --config=opt --build_tests_only --local_test_jobs=1 \
  --nocache_test_results --test_tag_filters=cluster,-full //...
run_tests "convergence tests" --config=opt --build_tests_only --local_test_jobs=1 \
  --nocache_test_results --test_tag_filters=convergence,-full //...

bin="$(bazel "${bazel_startup[@]}" info --config=opt bazel-bin 2>/dev/null </dev/null)"
python=(/usr/bin/python3)

begin docs
MONSOON_DOCS_BAZEL_OPTIONS="--disk_cache=$cache --jobs=$jobs --symlink_prefix=$links" \
  run_check docs "${python[@]}" tests/docs/run_blocks.py --bin="$bin" \
  --bazel="bazel ${bazel_startup[*]}"
run_check links "${python[@]}" tests/docs/links.py
end

# check_processes STAGE BIN: the checks of tests/process/table.py for those programs.
check_processes() {
  local options=(--stage="$1" --bin="$2")
  [[ $full -eq 0 ]] || options+=(--full)
  run_check "$1" "${python[@]}" -m tests.process "${options[@]}"
}

begin "python package"
check_processes python "$bin"
end

begin "emulated GPU"
check_processes gpu "$bin"
end

begin "process checks"
check_processes process "$bin"
end

# The programs of other builds take the place of the optimised ones, which come back from the
# cache at once.
programs=(coordinator:coordinator ps_server:ps_server worker:worker
  worker/sidecar:monsoon_sidecar worker/client:libmonsoon.so)
programs=("${programs[@]/#///}")

begin "fail points"
if run_bazel build --config=opt --config=failpoints "${programs[@]}"; then
  for program in "${programs[@]#//}"; do
    install -D -m 755 "$bin/${program/://}" "$work/failpoints/${program/://}"
  done
  check_processes failpoints "$work/failpoints"
else
  fail_stage "build (fail points)"
fi
end

if [[ $full -eq 1 && "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" == bookworm ]]; then
  begin wheels
  mapfile -t carried < <("${python[@]}" -B deploy/wheel/contents.py)
  if run_bazel build --config=opt --config=wheel "${carried[@]}"; then
    check_processes wheel "$bin"
  else
    fail_stage "build (wheels)"
  fi
  end
fi
run_bazel build --config=opt "${programs[@]}" || fail_stage "build (g++, optimised)"

if [[ -n "$sanitized_build" ]]; then
  begin "build (clang, ASan and UBSan), what is left of it"
  tail -n 5 -f --pid="$sanitized_build" "$work/sanitized.log" || true
  wait "$sanitized_build" || true
  end
  server=("${sanitizing_server[@]}")
fi
run_tests "unit tests (clang, ASan and UBSan)" "${sanitized_unit_tests[@]}"
server=("${bazel_startup[@]}")

if [[ $full -eq 1 ]]; then
  begin "build (g++, each source by its own includes)"
  if ! run_bazel build --config=opt --define=pch=off --platform_suffix=bare --keep_going \
    --target_pattern_file="$work/targets"; then
    fail_stage "build (g++, each source by its own includes)"
  fi
  end
  run_tests "tests with threads (clang, TSan)" "${clang_configs[@]/asan/tsan}" --build_tests_only \
    --test_tag_filters=tsan //...
  run_tests "long tests" --config=opt --build_tests_only --local_test_jobs=1 \
    --nocache_test_results --test_tag_filters=full //...
  begin "planted bugs"
  run_check mutation tests/mutation.sh
  end
fi
exit 0
