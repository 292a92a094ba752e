#!/bin/bash
# Prints the files that differ from a commit, one a line: those that are not committed too, and
# none that is gone.
#
#   tests/changed_files.sh [COMMIT]
#
# COMMIT: where the branch left origin's default branch; HEAD's parent where there is none.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

base="${1:-}"
if [[ -z "$base" ]]; then
  base="$(git merge-base HEAD origin/HEAD 2>/dev/null || true)"
  # At that commit itself the last change is looked at.
  if [[ -z "$base" || "$base" == "$(git rev-parse HEAD)" ]]; then
    base="$(git rev-parse --verify --quiet HEAD~ || git rev-parse HEAD)"
  fi
fi
{
  git diff --name-only --diff-filter=d "$base" --
  git ls-files --others --exclude-standard
} | sort -u
