#!/bin/bash
# Runs the demo or the tests from a clean clone in a fresh Debian root, with
# nothing installed but what deploy/setup.sh installs. Needs root and the
# package debootstrap.
#
#   tests/clean_root.sh demo|tests|setup|all [--suite=bookworm|trixie] [--keep-root]
#                       [-- ARGUMENTS]
#
# demo   deploy/demo.sh --epochs=1
# tests  tests/run.sh
# setup  deploy/setup.sh only
# all    tests, then demo
# --suite  bookworm (Debian 12, the default) or trixie (Debian 13).
# ARGUMENTS go to tests/run.sh (or setup.sh). What is committed at HEAD is
# tested. The mirrors are those of the host's own Debian release in its apt
# sources, asked for the suite; MONSOON_DEBIAN_MIRROR names another one for its
# main section alone. The root lies under TMPDIR (/tmp) and
# takes about 8 GB; everything runs in its own mount and process namespace, so
# nothing stays mounted or running however this script ends.
set -euo pipefail
repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

fail() { echo "clean_root.sh: $*" >&2; exit 2; }
usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; }

what="${1:-}"
keep_root=0
suite=bookworm
[[ $# -gt 0 ]] && shift
while [[ $# -gt 0 ]]; do
  case "$1" in
    --keep-root) keep_root=1; shift ;;
    --suite=*) suite="${1#--suite=}"; shift ;;
    --) shift; break ;;
    *) usage >&2; fail "unknown argument '$1'" ;;
  esac
done
case "$what" in
  demo | tests | setup | all) ;;
  -h | --help) usage; exit 0 ;;
  *) usage >&2; fail "say what to run: demo, tests, setup or all" ;;
esac
case "$suite" in
  bookworm | trixie) ;;
  *) usage >&2; fail "--suite=$suite was never tried: bookworm or trixie" ;;
esac
[[ "$(id -u)" -eq 0 ]] || fail "needs root (debootstrap and chroot)"
command -v debootstrap >/dev/null || fail "needs the package debootstrap"

# Prints "URI SUITE COMPONENTS" for each source of the host's release and its
# updates, from both formats of apt's files, the suite's name in place of the
# host's.
host_sources() {
  local file host
  host="$(sed -nE 's/^VERSION_CODENAME="?([a-z]+)"?$/\1/p' /etc/os-release)"
  [[ -n "$host" ]] || return 0
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [[ -f "$file" ]] || continue
    sed -nE "s/^deb +(\[[^]]*\] +)?([a-z]+:[^ ]+) +$host(|-[^ ]*) +(.*)\$/\2 $suite\3 \4/p" "$file"
  done
  for file in /etc/apt/sources.list.d/*.sources; do
    [[ -f "$file" ]] || continue
    awk -v host="$host" -v suite="$suite" '
      function flush(  i, n, names) {
        n = split(suites, names, " ")
        for (i = 1; i <= n; i++)
          if (uri != "" && (names[i] == host || index(names[i], host "-") == 1))
            print uri, suite substr(names[i], length(host) + 1), components
        uri = suites = components = ""
      }
      /^#/ { next }
      /^[ \t]*$/ { flush() }
      /^URIs:/ { uri = $2 }
      /^Suites:/ { sub(/^Suites:/, ""); suites = $0 }
      /^Components:/ { sub(/^Components: */, ""); components = $0 }
      END { flush() }' "$file"
  done
}

sources="$(host_sources | grep -w main || true)"
mirror="${MONSOON_DEBIAN_MIRROR:-$(awk -v suite="$suite" '$2 == suite { print $1; exit }' <<<"$sources")}"
[[ -n "$mirror" ]] || fail "no Debian source in /etc/apt; set MONSOON_DEBIAN_MIRROR"
[[ -n "$sources" && -z "${MONSOON_DEBIAN_MIRROR:-}" ]] || sources="$mirror $suite main"

root="$(mktemp -d "${TMPDIR:-/tmp}/monsoon_root.XXXXXX")"
chmod 755 "$root"  # apt downloads as another user.
cleanup() {
  local status=$?
  trap - EXIT
  if [[ $keep_root -eq 1 ]]; then
    echo "clean_root.sh: the root is kept in $root"
  else
    rm -rf --one-file-system "$root"
  fi
  exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# debootstrap does not read apt's proxy setting.
if [[ -z "${http_proxy:-}" ]]; then
  proxy="$(apt-config shell value Acquire::http::Proxy | sed -nE "s/^value='(.*)'$/\1/p")"
  [[ -z "$proxy" || "$proxy" == DIRECT ]] || export http_proxy="$proxy"
fi
started=$SECONDS
# In a mount namespace of its own: what debootstrap mounts ends with it.
unshare --mount --propagation private \
  debootstrap --variant=minbase --include=ca-certificates "$suite" "$root" "$mirror" \
  >"$root.log" 2>&1 </dev/null || { tail -20 "$root.log" >&2; rm -f "$root.log"; fail "debootstrap failed"; }
rm -f "$root.log"

sed 's/^/deb /' <<<"$sources" >"$root/etc/apt/sources.list"
for file in /etc/apt/apt.conf.d/*; do
  # Only how packages are fetched; other files hook programs the root lacks.
  if [[ -f "$file" ]] && grep -qiE '^[[:space:]]*Acquire' "$file"; then
    cp "$file" "$root/etc/apt/apt.conf.d/"
  fi
done
cp -L /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
printf '127.0.0.1 localhost\n::1 localhost\n' >"$root/etc/hosts"
git -c safe.directory="$repository" clone --quiet --no-hardlinks "$repository" "$root/monsoon"
git -C "$root/monsoon" remote remove origin
echo "clean_root.sh: Debian $(cat "$root/etc/debian_version") root ready after $((SECONDS - started)) s"

# Runs a command of the clone inside the root. Process 1 of the new namespace
# takes everything it started with it when it ends or this script is killed.
inside() {
  unshare --mount --pid --fork --kill-child --propagation private \
    bash -c 'mount -t proc proc "$0/proc" &&
             mount -t tmpfs -o mode=1777 tmpfs "$0/dev/shm" &&
             exec chroot "$0" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
               LANG=C.UTF-8 /bin/bash -c '\''"$@"'\'' bash "$@"' "$root" "$@" </dev/null
}

status=0
case "$what" in
  setup) inside /monsoon/deploy/setup.sh "$@" || status=$? ;;
  demo) inside /monsoon/deploy/demo.sh --epochs=1 || status=$? ;;
  tests) inside /monsoon/tests/run.sh "$@" || status=$? ;;
  all)
    inside /monsoon/tests/run.sh "$@" || status=$?
    inside /monsoon/deploy/demo.sh --epochs=1 || status=$?
    ;;
esac
echo "clean_root.sh: $what ended with status $status after $((SECONDS - started)) s"
exit "$status"
