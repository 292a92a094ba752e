#!/bin/bash
# What one runs before a push: lint, and the unit tests that what changed can break.
#
#   tests/quick.sh [COMMIT]
#
# What changed: the files that tests/changed_files.sh [COMMIT] names. Their unit tests are built
# as in tests/run.sh, with the same cache, so it takes about a minute where that is warm. When a
# header changes that nearly all include, nearly all tests run; what tests/run.sh runs beside,
# clusters and sanitizers, does not.
#
# Environment: MONSOON_BAZEL_CACHE, MONSOON_BAZEL_OUTPUT_BASE as for tests/run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ "${1:-}" == -* ]]; then
  sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' tests/quick.sh
  [[ "$1" == -h || "$1" == --help ]] && exit 0
  exit 2
fi

bazel=(bazel)
[[ -z "${MONSOON_BAZEL_OUTPUT_BASE:-}" ]] || bazel+=(--output_base="$MONSOON_BAZEL_OUTPUT_BASE")
options=(--config=opt)
[[ -z "${MONSOON_BAZEL_CACHE:-}" ]] || options+=(--disk_cache="$MONSOON_BAZEL_CACHE")

tests/lint/lint.py

mapfile -t changed < <(tests/changed_files.sh "$@")
for selftest in tests/lint/{lint,house}_selftest.py; do
  if printf '%s\n' "${changed[@]}" | grep -q '^tests/lint/'; then
    /usr/bin/python3 "$selftest"
  fi
done
# Files that a package has: a set of those that no BUILD file names is no error.
labels=()
for file in "${changed[@]}"; do
  folder="$(dirname "$file")"
  while [[ "$folder" != . && ! -f "$folder/BUILD.bazel" ]]; do
    folder="$(dirname "$folder")"
  done
  if [[ -f "$folder/BUILD.bazel" && "$folder" != . ]]; then
    case "$file" in
      */BUILD.bazel) labels+=("//$folder:all") ;;
      *.cc | *.h | *.cu | *.proto | *.textproto) labels+=("//$folder:${file#"$folder"/}") ;;
    esac
  fi
done
if [[ ${#labels[@]} -eq 0 ]]; then
  echo "quick.sh: no source changed: no tests to run"
  exit 0
fi
tests="$("${bazel[@]}" query --keep_going --noshow_progress \
  "attr(tags, unit, tests(rdeps(//..., set(${labels[*]})))) except attr(tags, full, //...)" \
  2>/dev/null || true)"
if [[ -z "$tests" ]]; then
  echo "quick.sh: no unit test rests on what changed"
  exit 0
fi
mapfile -t tests <<<"$tests"
echo "quick.sh: ${#tests[@]} test targets"
"${bazel[@]}" test "${options[@]}" --build_tests_only --test_output=errors "${tests[@]}"
