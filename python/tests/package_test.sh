#!/bin/bash
# Runs the package's tests with Debian's Python; arguments go to pytest.
set -euo pipefail
if [[ -n "${TEST_SRCDIR:-}" ]]; then
  cd "$TEST_SRCDIR/$TEST_WORKSPACE/python"
else
  cd "$(dirname "${BASH_SOURCE[0]}")/.."
fi
if ! /usr/bin/python3 -c 'import pytest, numpy' 2>/dev/null; then
  echo "skipped: python3-pytest and python3-numpy are not installed"
  exit 0
fi
# Nothing is written beside the sources.
PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 exec /usr/bin/python3 -m pytest -q -p no:cacheprovider \
  tests "$@"
