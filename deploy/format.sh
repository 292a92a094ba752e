#!/bin/bash
# Formats the C++ sources with .clang-format.
#
#   deploy/format.sh [--check] [FILE...]
#
# --check changes nothing and exits 1 when a file would change.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mode=(-i)
files=()
for argument in "$@"; do
  case "$argument" in
    --check) mode=(--dry-run -Werror --ferror-limit=1) ;;
    -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' deploy/format.sh; exit 0 ;;
    -*) echo "format.sh: unknown argument '$argument'" >&2; exit 2 ;;
    *.c | *.cc | *.h | *.cu | *.cuh) files+=("$argument") ;;
    *) echo "format.sh: '$argument' is no C or C++ source; clang-format would break it" >&2; exit 2 ;;
  esac
done
if ! command -v clang-format >/dev/null; then
  echo "format.sh: clang-format is not installed; run deploy/setup.sh" >&2
  exit 2
fi
if [[ ${#files[@]} -eq 0 ]]; then
  mapfile -t files < <(git ls-files --cached --others --exclude-standard -- '*.cc' '*.h')
fi
[[ ${#files[@]} -eq 0 ]] || clang-format "${mode[@]}" "${files[@]}"
