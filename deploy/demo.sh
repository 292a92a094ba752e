#!/bin/bash
# Trains LeNet on Fashion-MNIST on this machine, once with one asynchronous
# worker and once with three, and compares them.
#
#   deploy/demo.sh [--epochs=N] [--keep]
#
# It installs what is missing, builds the daemons, starts the cluster of
# configs/cluster/localhost.textproto (ports 2221 to 2225), runs the same job
# twice and ends with a table; the figures go to demo-result.json too.
# --epochs=N  epochs of each run; default 5.
# --keep      leaves the cluster running and says how to use and stop it.
# Without --keep nothing is left running, however the script ends.
# Exit: 0 ok, 1 a run failed, 2 usage or a port in use, 130 or 143 interrupted.
# For tests: MONSOON_DEMO_CLUSTER names another cluster file, and with binaries
# in the folder MONSOON_DEMO_BIN nothing is installed or built.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly cluster_file="${MONSOON_DEMO_CLUSTER:-configs/cluster/localhost.textproto}"
readonly job_file=configs/job/lenet_downpour.textproto
readonly report=deploy/demo_report.py
readonly python=/usr/bin/python3
readonly start_deadline_s=30

epochs=5
keep=0
for argument in "$@"; do
  case "$argument" in
    --epochs=*) epochs="${argument#--epochs=}" ;;
    --keep) keep=1 ;;
    -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' deploy/demo.sh; exit 0 ;;
    *) echo "demo.sh: unknown argument '$argument'; try --help" >&2; exit 2 ;;
  esac
done
if ! [[ "$epochs" =~ ^[1-9][0-9]*$ ]]; then
  echo "demo.sh: --epochs=$epochs is no positive number" >&2
  exit 2
fi

export HOME="${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}"
export USER="${USER:-$(id -un)}"
work="$(mktemp -d "${TMPDIR:-/tmp}/monsoon_demo.XXXXXX")"
up_pid=""
child_pid=""
sampler_pid=""
# Checkpoints of the demo are its own.
export MONSOON_STATE_DIR="$work/state"

# For the background only: becomes a command that the kernel kills when this
# script is gone, even by SIGKILL. Its id is in $!.
tied() { exec setpriv --pdeathsig KILL -- "$@"; }

# Runs a command so that a signal to this script is handled at once: bash runs
# its traps only when it waits, not during a foreground command.
attended() {
  local status=0
  tied "$@" </dev/null &
  child_pid=$!
  wait "$child_pid" || status=$?
  child_pid=""
  return "$status"
}

# stop PID SECONDS: TERM, then KILL.
stop() {
  local pid="$1" tenths=$(($2 * 10))
  kill -TERM "$pid" 2>/dev/null || return 0
  while kill -0 "$pid" 2>/dev/null && [[ $tenths -gt 0 ]]; do
    sleep 0.1
    tenths=$((tenths - 1))
  done
  kill -KILL "$pid" 2>/dev/null || true
  wait "$pid" 2>/dev/null || true
}

cleanup() {
  local status=$?
  trap - EXIT
  trap '' INT TERM HUP
  [[ -z "$child_pid" ]] || stop "$child_pid" 5
  [[ -z "$sampler_pid" ]] || stop "$sampler_pid" 2
  if [[ -n "$up_pid" && ($keep -eq 0 || $status -ne 0) ]]; then
    stop "$up_pid" 15
  fi
  if [[ $keep -eq 0 || $status -ne 0 ]]; then
    rm -rf "$work"
  fi
  exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

show_log() {
  echo "--- last lines of the cluster's log:" >&2
  tail -n 25 "$work/cluster.log" >&2
}

if [[ -z "${MONSOON_DEMO_BIN:-}" ]]; then
  attended deploy/setup.sh --for=demo
fi

# Says who listens on the cluster's ports; false when one is taken.
ports_free() {
  local port holders taken=0
  for port in $(grep -oE 'address: *"[^"]*:[0-9]+"' "$cluster_file" | grep -oE '[0-9]+"' | tr -d '"'); do
    holders="$(ss -Hltnp "sport = :$port")"
    if [[ -n "$holders" ]]; then
      taken=1
      echo "demo.sh: port $port is in use:" >&2
      grep -oE 'users:.*' <<<"$holders" | sed 's/^/  /' >&2 ||
        echo "  by a process of another user; as root, ss -ltnp names it" >&2
    fi
  done
  return "$taken"
}
if ! ports_free; then
  echo "demo.sh: the cluster needs the ports of $cluster_file; stop what holds them" >&2
  exit 2
fi

build() {
  echo "demo.sh: building (the first time takes some minutes)"
  local cache="${MONSOON_BAZEL_CACHE:-$HOME/.cache/monsoon-bazel}"
  mkdir -p "$cache"
  # Batch mode leaves no server behind.
  local bazel=(bazel --batch)
  if [[ -n "${MONSOON_BAZEL_OUTPUT_BASE:-}" ]]; then
    bazel+=(--output_base="$MONSOON_BAZEL_OUTPUT_BASE")
  fi
  attended "${bazel[@]}" build --config=opt --disk_cache="$cache" --noshow_progress \
    //coordinator //ps_server //worker
}
bin="${MONSOON_DEMO_BIN:-}"
if [[ -z "$bin" ]]; then
  build
  bin="$(readlink -f bazel-bin)"
fi
coordinator="$bin/coordinator/coordinator"

echo "demo.sh: starting the cluster of $cluster_file"
up=("$coordinator" up --cluster="$cluster_file" --bin_dir="$bin")
if [[ $keep -eq 1 ]]; then
  setsid "${up[@]}" >"$work/cluster.log" 2>&1 </dev/null &
else
  tied "${up[@]}" >"$work/cluster.log" 2>&1 </dev/null &
fi
up_pid=$!
deadline=$((SECONDS + start_deadline_s))
until "$coordinator" jobs --cluster="$cluster_file" --json >/dev/null 2>&1; do
  if ! kill -0 "$up_pid" 2>/dev/null; then
    echo "demo.sh: the cluster did not start" >&2
    show_log
    exit 1
  fi
  if [[ $SECONDS -ge $deadline ]]; then
    echo "demo.sh: no answer from the coordinator after $start_deadline_s s" >&2
    show_log
    exit 1
  fi
  sleep 0.2
done

# run_job WORKERS: the job on that many workers; leaves its description and the
# processes' CPU and thread counts in $work.
run_job() {
  local workers="$1" job status=0
  echo
  echo "demo.sh: workers: $workers, epochs: $epochs"
  tied "$python" "$report" sample "$up_pid" "$work/processes-$workers.json" </dev/null &
  sampler_pid=$!
  "$coordinator" submit "$job_file" --cluster="$cluster_file" --name="demo-$workers" \
    --set=stop.epochs="$epochs" --set=downpour.workers="$workers" --json \
    >"$work/submit.json" </dev/null || { show_log; exit 1; }
  job="$("$python" -c 'import json, sys; print(json.load(sys.stdin)["job"])' <"$work/submit.json")"
  # Without its cluster the demo has nothing to wait for.
  attended "$coordinator" watch "$job" --cluster="$cluster_file" --patience=3 || status=$?
  stop "$sampler_pid" 5
  sampler_pid=""
  "$coordinator" describe "$job" --cluster="$cluster_file" --json >"$work/job-$workers.json"
  if [[ $status -ne 0 ]]; then
    echo "demo.sh: $job ended with exit code $status" >&2
    show_log
    exit 1
  fi
}
run_job 1
run_job 3

echo
"$python" "$report" report demo-result.json "$work/job-1.json" "$work/processes-1.json" \
  "$work/job-3.json" "$work/processes-3.json"
echo "written: demo-result.json"

if [[ $keep -eq 1 ]]; then
  cat <<MESSAGE

The cluster runs on (process $up_pid, log $work/cluster.log). For example:
  bazel-bin/coordinator/coordinator jobs
  bazel-bin/coordinator/coordinator describe latest
  bazel-bin/coordinator/coordinator export latest --out=lenet.npz
  bazel-bin/coordinator/coordinator submit $job_file --watch
Stop it with: kill $up_pid
MESSAGE
fi
