#!/bin/bash
# Trains on this host with GPU workers: starts a cluster on the loopback, runs one
# job and shows its description. Part of a deploy/gpu_bundle.sh archive; in the
# source tree, --bin=bazel-bin names the built daemons.
#
#   ./run_gpu_demo.sh [--device=CUDA|AUTO|CPU] [--workers=N] [--epochs=N]
#                     [--job=FILE] [--bin=DIR] [--port=N]
#
# --device   default CUDA: fails with the reason where there is no GPU. AUTO
#            falls back to the CPU.
# --workers  default 1; all on the first GPU.
# --epochs   default 2.
# --job      a Downpour job; default configs/job/lenet_downpour.textproto.
# --bin      default: bin, beside this script.
# --port     first of the ports, one per task; default 2221.
# Exit: 0 ok, 1 the job failed, 2 usage or the cluster did not start.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
[[ -d "$here/configs" ]] || here="$(dirname "$here")"

device=CUDA
workers=1
epochs=2
job="$here/configs/job/lenet_downpour.textproto"
bin="$here/bin"
port=2221
for argument in "$@"; do
  case "$argument" in
    --device=CUDA | --device=AUTO | --device=CPU) device="${argument#--device=}" ;;
    --workers=[1-9]*) workers="${argument#--workers=}" ;;
    --epochs=[1-9]*) epochs="${argument#--epochs=}" ;;
    --job=?*) job="${argument#--job=}" ;;
    --bin=?*) bin="${argument#--bin=}" ;;
    --port=[1-9]*) port="${argument#--port=}" ;;
    -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "run_gpu_demo.sh: unknown argument '$argument'; try --help" >&2; exit 2 ;;
  esac
done
coordinator="$bin/coordinator"
[[ -x "$coordinator" && ! -d "$coordinator" ]] || coordinator="$bin/coordinator/coordinator"

work="$(mktemp -d "${TMPDIR:-/tmp}/monsoon_gpu_demo.XXXXXX")"
# Checkpoints of the demo are its own.
export MONSOON_STATE_DIR="$work/state"
up_pid=""
cleanup() {
  local status=$?
  trap - EXIT
  if [[ -n "$up_pid" ]]; then
    kill -TERM "$up_pid" 2>/dev/null || true
    wait "$up_pid" 2>/dev/null || true
  fi
  rm -rf "$work"
  exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

cluster="$work/cluster.textproto"
{
  echo "coordinator { address: \"127.0.0.1:$port\" }"
  echo "ps { address: \"127.0.0.1:$((port + 1))\" }"
  for ((i = 0; i < workers; ++i)); do
    echo "worker { address: \"127.0.0.1:$((port + 2 + i))\" device: $device }"
  done
} >"$cluster"

"$coordinator" version
"$coordinator" up --cluster="$cluster" --bin_dir="$bin" >"$work/cluster.log" 2>&1 </dev/null &
up_pid=$!
# Up when the coordinator answers and every worker serves; a worker whose device
# is not there says so and ends.
not_started() {
  echo "run_gpu_demo.sh: the cluster did not start:" >&2
  tail -n 25 "$work/cluster.log" >&2
  exit 2
}
for ((tenths = 0; ; ++tenths)); do
  if grep -E '^worker/[0-9]+ +\| +worker: ' "$work/cluster.log" >&2; then
    exit 2
  fi
  serving="$(grep -cE '^worker/[0-9]+ .*serving on' "$work/cluster.log" || true)"
  if [[ $serving -ge $workers ]] &&
    "$coordinator" jobs --cluster="$cluster" --json >/dev/null 2>&1; then
    break
  fi
  kill -0 "$up_pid" 2>/dev/null || not_started
  [[ $tenths -lt 300 ]] || not_started
  sleep 0.1
done

status=0
"$coordinator" submit "$job" --cluster="$cluster" --name=gpu-demo --watch \
  --set=stop.epochs="$epochs" --set=downpour.workers="$workers" || status=$?
"$coordinator" describe latest --cluster="$cluster" || true
grep -E "device|CUDA|GPU" "$work/cluster.log" | head -10 || true
if [[ $status -ne 0 ]]; then
  tail -n 25 "$work/cluster.log" >&2
  exit 1
fi
