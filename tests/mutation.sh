#!/bin/bash
# Plants the bugs of tests/mutations/*.txt, one at a time, into a copy of what is
# committed at HEAD and demands that the named tests notice.
#
#   tests/mutation.sh [--part=K/N] [PATTERN]
#
# PATTERN: only bugs whose line matches it. --part: every Nth bug from the Kth, so that
# N calls side by side share the work.
#
# A bug that changes nothing, does not compile or passes the tests is a
# failure. Last line: `mutation: N passed, N failed`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
repository="$PWD"
part=1
parts=1
if [[ "${1:-}" =~ ^--part=([0-9]+)/([0-9]+)$ ]]; then
  part="${BASH_REMATCH[1]}"
  parts="${BASH_REMATCH[2]}"
  shift
fi
if ((part < 1 || part > parts)) || [[ "${1:-}" == --* ]]; then
  echo "usage: tests/mutation.sh [--part=K/N] [PATTERN], 1 <= K <= N" >&2
  exit 2
fi
pattern="${1:-}"

export HOME="${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}"
export USER="${USER:-$(id -un)}"
work="$(mktemp -d "${TMPDIR:-/tmp}/monsoon_mutation.XXXXXX")"
cache="${MONSOON_BAZEL_CACHE:-$HOME/.cache/monsoon-bazel}"
jobs="${MONSOON_JOBS:-$(nproc)}"
bazel=(bazel --output_base="$work/bazel" --host_jvm_args=-Xmx1g)

cleanup() {
  local status=$?
  trap - EXIT
  if [[ -d "$work/copy" ]]; then
    (cd "$work/copy" && "${bazel[@]}" shutdown >/dev/null 2>&1) || true
  fi
  chmod -R u+w "$work" 2>/dev/null || true
  rm -rf "$work"
  exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

mapfile -t bugs < <(grep -hvE '^ *(#|$)' tests/mutations/*.txt | grep -E -- "$pattern" |
  awk -v part="$part" -v parts="$parts" '(NR - part) % parts == 0' || true)
if [[ ${#bugs[@]} -eq 0 ]]; then
  echo "mutation.sh: no line of tests/mutations/*.txt matches '$pattern'" >&2
  echo "mutation: 0 passed, 1 failed"
  exit 1
fi

git -c safe.directory="$repository" clone --quiet --shared "$repository" "$work/copy"
cd "$work/copy"

# Bazel's exit code: 0 passed, 3 a test failed, others: no build. The first failure
# is enough.
run_tests() {
  local code=0 targets
  read -r -a targets <<<"$1"
  "${bazel[@]}" test --config=opt --disk_cache="$cache" --jobs="$jobs" --symlink_prefix=/ \
    --build_tests_only --test_tag_filters=unit,cluster,-full --test_output=summary \
    --notest_keep_going \
    "${targets[@]}" >"$work/log" 2>&1 </dev/null || code=$?
  return "$code"
}

field() { awk -F' :: ' -v n="$1" '{ print $n }'; }

passed=0
failed=0
fail() {
  echo "FAILED: $1: $2"
  tail -n 15 "$work/log" 2>/dev/null | sed 's/^/  /'
  failed=$((failed + 1))
}

# Without a bug all of them pass, or a failure would prove nothing.
everything="$(printf '%s\n' "${bugs[@]}" | field 4 | tr ' ' '\n' | sort -u | tr '\n' ' ')"
if ! run_tests "$everything"; then
  fail "no bug" "the tests do not pass without one"
  echo "mutation: $passed passed, $failed failed"
  exit 1
fi

for bug in "${bugs[@]}"; do
  name="$(field 1 <<<"$bug")"
  read -r -a files <<<"$(field 2 <<<"$bug")"
  if ! ls -- "${files[@]}" >/dev/null 2>"$work/log"; then
    fail "$name" "a file is not there"
    continue
  fi
  sed -i "$(field 3 <<<"$bug")" "${files[@]}"
  unchanged=""
  for file in "${files[@]}"; do
    if git diff --quiet -- "$file"; then
      unchanged="$file"
    fi
  done
  if [[ -n "$unchanged" ]]; then
    fail "$name" "the command changes nothing in $unchanged"
    git checkout --quiet -- "${files[@]}"
    continue
  fi
  code=0
  run_tests "$(field 4 <<<"$bug")" || code=$?
  case $code in
    3) echo "noticed: $name"; passed=$((passed + 1)) ;;
    0) fail "$name" "no test fails" ;;
    *) fail "$name" "Bazel ended with $code" ;;
  esac
  git checkout --quiet -- "${files[@]}"
done
echo "mutation: $passed passed, $failed failed"
[[ $failed -eq 0 ]]
