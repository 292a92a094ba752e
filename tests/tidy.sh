#!/bin/bash
# clang-tidy, with the few checks of .clang-tidy, over C++ sources.
#
#   tests/tidy.sh [--all] [FILE.cc...]
#
# Without arguments: the sources that differ from origin's newest commit (from HEAD's parent
# where there is no origin). --all: every source but those for which clang has no compiler
# (CUDA's kernels). It needs the headers that Bazel makes: deploy/compile_commands.sh.
#
# Last line: `tidy: N passed, N failed`, one per source. Where clang-tidy is not installed it
# says so and all are skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' tests/tidy.sh; }

sources=()
for argument in "$@"; do
  case "$argument" in
    --all) mapfile -t sources < <(git ls-files -- '*.cc') ;;
    -h | --help) usage; exit 0 ;;
    -*) echo "tidy.sh: unknown argument '$argument'" >&2; usage >&2; exit 2 ;;
    *) sources+=("$argument") ;;
  esac
done
if [[ $# -eq 0 ]]; then
  mapfile -t sources < <(tests/changed_files.sh | grep '\.cc$' || true)
fi

tidy=""
for name in clang-tidy-19 clang-tidy-16 clang-tidy; do
  if command -v "$name" >/dev/null; then
    tidy="$name"
    break
  fi
done
if [[ -z "$tidy" ]]; then
  echo "tidy.sh: clang-tidy is not installed; run deploy/setup.sh"
  echo "tidy: 0 passed, 0 failed, ${#sources[@]} skipped"
  exit 0
fi
if [[ ${#sources[@]} -eq 0 ]]; then
  echo "tidy: 0 passed, 0 failed"
  exit 0
fi
[[ -f compile_commands.json ]] || deploy/compile_commands.sh

logs="$(mktemp -d "${TMPDIR:-/tmp}/monsoon_tidy.XXXXXX")"
trap 'rm -rf "$logs"' EXIT
# One process a source; what it says goes to a file of its own, so that lines do not mix.
printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -I{} bash -c '
  log="$2/${3//\//_}"
  "$1" --quiet -p . "$3" >"$log" 2>/dev/null || touch "$log.failed"
  ! grep -qE "(warning|error): " "$log" || touch "$log.failed"' _ "$tidy" "$logs" {}
failed=0
for log in "$logs"/*.failed; do
  [[ -e "$log" ]] || continue
  failed=$((failed + 1))
  cat "${log%.failed}"
done
echo "tidy: $((${#sources[@]} - failed)) passed, $failed failed"
[[ $failed -eq 0 ]]
