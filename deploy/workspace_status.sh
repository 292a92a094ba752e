#!/bin/sh
# What `bazel build` stamps into binaries (`coordinator version`). Quiet and
# successful outside of a git clone, where the commit is not known.
commit="$(git rev-parse --short=12 HEAD 2>/dev/null)" && echo "STABLE_GIT_COMMIT $commit"
exit 0
