#!/bin/bash
# What `bazel build` stamps into binaries (`coordinator version`). Quiet and
# successful outside of a git clone, where the commit is not known.
set -euo pipefail
if commit="$(git rev-parse --short=12 HEAD 2>/dev/null)"; then
  echo "STABLE_GIT_COMMIT $commit"
fi
