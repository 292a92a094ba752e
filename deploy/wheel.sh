#!/bin/bash
# Builds the two Python wheels, monsoon and monsoon-worker, and checks them.
#
#   deploy/wheel.sh [--out=DIR] [--bin=DIR] [--no-check]
#
# --out=DIR   where to; default dist.
# --bin=DIR   a bazel-bin folder built with --config=opt --config=wheel; default: built.
# --no-check  without auditwheel, which comes from PyPI the first time (versions and
#             hashes in deploy/wheel/requirements.txt) and is kept in
#             $MONSOON_WHEEL_TOOLS, default ~/.cache/monsoon-wheel.
# The same commit gives the same bytes: SOURCE_DATE_EPOCH is the time of the files, default
# the commit's. Building takes the place of bazel-bin's programs; `bazel build --config=opt`
# brings those with shared libraries back.
# Exit 0: both are written, and checked; 1: something does not fit, which is named.
# Environment: MONSOON_BAZEL_CACHE, MONSOON_BAZEL_OUTPUT_BASE as for tests/run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=dist
bin=""
check=1
for argument in "$@"; do
  case "$argument" in
    --out=?*) out="${argument#--out=}" ;;
    --bin=?*) bin="${argument#--bin=}" ;;
    --no-check) check=0 ;;
    -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' deploy/wheel.sh; exit 0 ;;
    *) echo "wheel.sh: unknown argument '$argument'; try --help" >&2; exit 2 ;;
  esac
done

fail() {
  echo "wheel.sh: $*" >&2
  exit 1
}

if [[ -z "$bin" ]]; then
  cache="${MONSOON_BAZEL_CACHE:-$HOME/.cache/monsoon-bazel}"
  startup=()
  if [[ -n "${MONSOON_BAZEL_OUTPUT_BASE:-}" ]]; then
    startup+=(--output_base="$MONSOON_BAZEL_OUTPUT_BASE")
  fi
  mapfile -t targets < <(/usr/bin/python3 -B deploy/wheel/contents.py)
  options=(--config=opt --config=wheel --disk_cache="$cache" --noshow_progress)
  bazel "${startup[@]}" --batch build "${options[@]}" "${targets[@]}"
  bin="$(bazel "${startup[@]}" --batch info "${options[@]}" bazel-bin 2>/dev/null)"
fi

if [[ -z "${SOURCE_DATE_EPOCH:-}" ]]; then
  SOURCE_DATE_EPOCH="$(git log -1 --format=%ct 2>/dev/null || echo 0)"
fi
export SOURCE_DATE_EPOCH
mapfile -t wheels < <(/usr/bin/python3 -B -m deploy.wheel.build --bin="$bin" \
  --out="$out")
wait $! || fail "no wheel"

for wheel in "${wheels[@]}"; do
  echo "written: $wheel ($(($(stat -c %s "$wheel") / 1000)) kB)"
done
[[ $check -eq 1 ]] || exit 0

# A folder for each set of versions.
requirements=deploy/wheel/requirements.txt
tools="${MONSOON_WHEEL_TOOLS:-$HOME/.cache/monsoon-wheel}/$(sha256sum "$requirements" | cut -c1-12)"
if [[ ! -x "$tools/bin/auditwheel" ]]; then
  mkdir -p "$(dirname "$tools")"
  echo "wheel.sh: installing auditwheel from PyPI into $tools"
  # Made under another name: whole or not at all.
  work="$(mktemp -d "$(dirname "$tools")/.new.XXXXXX")"
  trap 'rm -rf "$work"' EXIT
  /usr/bin/python3 -m venv "$work" || fail "there is no venv (Debian: python3-venv)"
  "$work/bin/python" -m pip install --quiet --disable-pip-version-check --timeout=20 --retries=1 \
    --only-binary=:all: --require-hashes --requirement="$requirements" </dev/null ||
    fail "PyPI does not give the packages of $requirements; --no-check goes without"
  sed -i "1s|^#!.*|#!$tools/bin/python|" "$work/bin/auditwheel"
  chmod 755 "$work"
  mv -T "$work" "$tools" 2>/dev/null || [[ -x "$tools/bin/auditwheel" ]] ||
    fail "$tools cannot be written"
fi
for wheel in "${wheels[@]}"; do
  shown="$("$tools/bin/auditwheel" show "$wheel" 2>&1)" || fail "$shown"
  # It prints the oldest platform that the wheel fits.
  tag="$(tr '\n' ' ' <<<"$shown" | sed -nE \
    's/.*following platform tag: "manylinux_2_([0-9]+)_x86_64".*/\1/p')"
  [[ -n "$tag" && "$tag" -le 36 ]] || fail "auditwheel does not find manylinux_2_36: $shown"
  echo "checked: $(basename "$wheel") fits manylinux_2_${tag}_x86_64"
done
