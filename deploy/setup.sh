#!/bin/bash
# Installs the Debian packages that Monsoon is built from. Safe to repeat: when
# nothing is missing it changes nothing and needs no network and no root.
#
#   deploy/setup.sh [--for=demo|all] [--dry-run]
#
# --for=demo  only what deploy/demo.sh needs; the default, all, adds what the
#             tests need: also the CUDA compiler, from PyPI, where there is none
#             (deploy/cuda_toolkit.sh; it is optional, so its failure is a note only;
#             MONSOON_CUDA=off leaves it out).
# --dry-run   prints what is missing and the commands, installs nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' deploy/setup.sh; }

groups="demo ci"
dry_run=0
for argument in "$@"; do
  case "$argument" in
    --for=demo) groups="demo" ;;
    --for=all) groups="demo ci" ;;
    --dry-run) dry_run=1 ;;
    -h | --help) usage; exit 0 ;;
    *) echo "setup.sh: unknown argument '$argument'" >&2; usage >&2; exit 2 ;;
  esac
done

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "setup.sh: this is no Debian system (no apt-get)." >&2
  echo "Install the counterparts of the packages in deploy/packages.txt by hand." >&2
  exit 1
fi

# What is not Debian 12 gets the names of Debian 13.
release="$(sed -nE 's/^VERSION_CODENAME="?([a-z]+)"?$/\1/p' /etc/os-release 2>/dev/null || true)"
if [[ "$release" != bookworm && "$release" != trixie ]]; then
  echo "setup.sh: ${release:-this release} was not tried; taking the package names of Debian 13" >&2
  release=trixie
fi

# Package names of one group, those of this release included.
packages_of() {
  awk -v group="[$1]" -v of_release="[$1 $release]" \
    '/^\[/ { on = ($0 == group || $0 == of_release); next } on && NF && !/^#/ { print $1 }' \
    deploy/packages.txt
}

missing=()
for group in $groups; do
  while read -r package; do
    status="$(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null || true)"
    if [[ "$status" != ii* ]]; then
      missing+=("$package")
    fi
  done < <(packages_of "$group")
done

cuda_toolkit() {
  [[ "$groups" == *ci* ]] || return 0
  if ! deploy/cuda_toolkit.sh "$@"; then
    echo "setup.sh: note: no CUDA compiler, which is optional" >&2
  fi
}

if [[ ${#missing[@]} -eq 0 ]]; then
  echo "setup.sh: every package is installed (groups: $groups)"
  [[ $dry_run -eq 0 ]] || { cuda_toolkit --dry-run; exit 0; }
  cuda_toolkit
  exit 0
fi

as_root=()
if [[ "$(id -u)" -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "setup.sh: these packages are missing: ${missing[*]}" >&2
    echo "Installing them needs root, and there is no sudo. As root, run:" >&2
    echo "  apt-get update && apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
apt_get=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get)
install=("${apt_get[@]}" install --yes --no-install-recommends "${missing[@]}")

if [[ $dry_run -eq 1 ]]; then
  echo "missing: ${missing[*]}"
  echo "would run: ${apt_get[*]} update"
  echo "would run: ${install[*]}"
  cuda_toolkit --dry-run
  exit 0
fi

echo "setup.sh: installing ${#missing[@]} packages"
"${apt_get[@]}" update -q </dev/null
if ! "${install[@]}" -q </dev/null; then
  echo "setup.sh: apt-get failed. The list is for the main section of Debian 12 and 13;" >&2
  echo "check that /etc/apt/sources.list or sources.list.d names it." >&2
  exit 1
fi
cuda_toolkit
