#!/bin/bash
# Builds and runs all benchmarks and prints one Markdown table.
#
#   tests/benchmarks/run.sh [--filter=NAME,...] [--rounds=7] [--quick] [--json=FILE]
#                           [--simd=LEVEL] [--save]
#
# --filter=N   some of kernel, transfer, call, connections, training, overhead,
#              accuracy, checkpoints, kept, recovery, evaluation, formats, scaling,
#              training_peers, cluster_peers, accuracy_peers.
# --rounds=N   every contender takes N turns, interleaved; 7 or more to quote.
# --quick      tiny runs, to see that all works; its figures say nothing.
# --json=FILE  all ratios, too.
# --simd=L     avx512, avx2 or baseline (SSE2): limits ours and the peers to it.
# --save       keeps the rows in tests/benchmarks/results, in the file of this CPU
#              type and instruction set.
#
# Run it on a quiet machine; the table tells what others used. PyTorch is a peer
# if installed (Debian: python3-torch libopenblas0); MONSOON_TORCH_PYTHON names
# further interpreters with PyTorch, joined by ':'. The newest torch and TensorFlow
# are peers where tests/benchmarks/peers_venv.sh has installed them. Exit 1 when a benchmark could
# not run or a result was wrong, not when a figure is missed. Environment:
# MONSOON_BAZEL_CACHE (default ~/.cache/monsoon-bazel), MONSOON_BAZEL_OUTPUT_BASE,
# MONSOON_JOBS (default: the cores) and MONSOON_BAZEL_LINKS, as in tests/run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' tests/benchmarks/run.sh; }

arguments=()
for argument in "$@"; do
  case "$argument" in
    --rounds=?* | --filter=?* | --json=?* | --simd=?* | --save | --quick) arguments+=("$argument") ;;
    -h | --help) usage; exit 0 ;;
    *) echo "run.sh: unknown argument '$argument'" >&2; usage >&2; exit 2 ;;
  esac
done

# Bazel wants a home.
export HOME="${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}"
export USER="${USER:-$(id -un)}"
bazel_startup=(--host_jvm_args=-Xmx1g)
if [[ -n "${MONSOON_BAZEL_OUTPUT_BASE:-}" ]]; then
  bazel_startup+=(--output_base="$MONSOON_BAZEL_OUTPUT_BASE")
fi
cache="${MONSOON_BAZEL_CACHE:-$HOME/.cache/monsoon-bazel}"
jobs="${MONSOON_JOBS:-$(nproc)}"
links="${MONSOON_BAZEL_LINKS:-/}"
mkdir -p "$cache"

bazel "${bazel_startup[@]}" build --config=opt --disk_cache="$cache" --jobs="$jobs" \
  --local_cpu_resources="$jobs" --symlink_prefix="$links" \
  //tests/benchmarks:data_plane_limits //coordinator //ps_server //worker \
  //worker/baseline >&2 </dev/null
MONSOON_BIN="$(bazel "${bazel_startup[@]}" info --config=opt --symlink_prefix="$links" bazel-bin \
  2>/dev/null </dev/null)"
export MONSOON_BIN
# Its server would hold memory and wake up now and then.
bazel "${bazel_startup[@]}" shutdown >/dev/null 2>&1 </dev/null

exec /usr/bin/python3 tests/benchmarks/run_all.py "${arguments[@]}"
