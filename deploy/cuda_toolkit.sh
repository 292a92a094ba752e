#!/bin/bash
# Installs the CUDA compiler for a machine that has none, from PyPI: no root, no GPU and
# no driver is needed. The GPU backend is then built; cuBLAS, which a worker loads where
# it has a GPU, is not part of it.
#
#   deploy/cuda_toolkit.sh [--dir=DIR] [--dry-run]
#
# --dir=DIR  where to; default ~/.cache/monsoon-cuda/13.0, where the build looks after
#            CUDA_HOME, PATH and /usr/local/cuda. For another place set CUDA_HOME to it.
# --dry-run  says what it would do.
# It does nothing where the build finds nvcc already (and --dir is not given), and under
# MONSOON_CUDA=off. Versions and hashes stand in deploy/cuda_toolkit.txt.
# Exit 0: nvcc is there; 1: it could not be installed, and the build is without CUDA.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=13.0
size="108 MB to download, 271 MB unpacked"
dir=""
dry_run=0
for argument in "$@"; do
  case "$argument" in
    --dir=?*) dir="${argument#--dir=}" ;;
    --dry-run) dry_run=1 ;;
    -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' deploy/cuda_toolkit.sh; exit 0 ;;
    *) echo "cuda_toolkit.sh: unknown argument '$argument'; try --help" >&2; exit 2 ;;
  esac
done

if [[ "${MONSOON_CUDA:-}" == off ]]; then
  echo "cuda_toolkit.sh: MONSOON_CUDA=off, nothing to do"
  exit 0
fi
installed="${HOME:-/root}/.cache/monsoon-cuda/$version"
if [[ -z "$dir" ]]; then
  # As third_party/cuda/cuda.bzl looks.
  for nvcc in ${CUDA_HOME:+"$CUDA_HOME/bin/nvcc"} "$(command -v nvcc || true)" \
    /usr/local/cuda/bin/nvcc "$installed/bin/nvcc"; do
    if [[ -n "$nvcc" && -x "$nvcc" ]]; then
      echo "cuda_toolkit.sh: nvcc is there: $nvcc"
      exit 0
    fi
  done
  dir="$installed"
elif [[ -x "$dir/bin/nvcc" ]]; then
  echo "cuda_toolkit.sh: nvcc is there: $dir/bin/nvcc"
  exit 0
fi

echo "cuda_toolkit.sh: no nvcc; installing CUDA $version's from PyPI into $dir ($size)"
if [[ $dry_run -eq 1 ]]; then
  exit 0
fi

fail() {
  echo "cuda_toolkit.sh: $*; the build goes on without CUDA" >&2
  exit 1
}

# pip itself, or the wheel of it that Debian's python3-pip-whl brings.
pip=(/usr/bin/python3 -m pip)
if ! "${pip[@]}" --version >/dev/null 2>&1; then
  wheel="$(ls /usr/share/python-wheels/pip-*.whl 2>/dev/null | tail -1 || true)"
  [[ -n "$wheel" ]] || fail "there is no pip (Debian: python3-pip-whl)"
  pip=(/usr/bin/python3 "$wheel/pip")
fi
command -v unzip >/dev/null || fail "there is no unzip"

mkdir -p "$(dirname "$dir")" || fail "$(dirname "$dir") cannot be made"
work="$(mktemp -d "$(dirname "$dir")/.cuda.XXXXXX")" || fail "$(dirname "$dir") cannot be written"
trap 'rm -rf "$work"' EXIT
"${pip[@]}" download --quiet --disable-pip-version-check --no-cache-dir --timeout=20 --retries=1 \
  --no-deps --only-binary=:all: --require-hashes --requirement=deploy/cuda_toolkit.txt \
  --dest="$work" </dev/null || fail "PyPI does not give the packages of deploy/cuda_toolkit.txt"
for wheel in "$work"/*.whl; do
  unzip -qo "$wheel" -d "$work" || fail "$(basename "$wheel") cannot be unpacked"
done
root="$work/nvidia/cu${version%%.*}"
"$root/bin/nvcc" --version >/dev/null 2>&1 || fail "nvcc of PyPI does not run here"
# Whole or not at all; somebody else's, if it was quicker.
mv -T "$root" "$dir" 2>/dev/null || [[ -x "$dir/bin/nvcc" ]] || fail "$dir cannot be written"
echo "cuda_toolkit.sh: installed: $dir/bin/nvcc"
