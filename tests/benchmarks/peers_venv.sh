#!/bin/bash
# Makes the virtual environment of the newest peers: torch and tensorflow-cpu from PyPI, their
# versions and those of all that they need pinned in peers_requirements.txt.
#
#   tests/benchmarks/peers_venv.sh [--yes]
#
# Needs 7 GB on disk in the end and 3.8 GB of downloads: PyPI's torch is the CUDA build, whose
# import wants NVIDIA's libraries also where it computes on the CPU. It says so, and goes on
# with --yes or after a 'y'. What is there and complete is left alone. The benchmarks
# find it by themselves; MONSOON_PEERS_VENV names another folder than ~/.cache/monsoon-peers,
# and MONSOON_TORCH_PYTHON other interpreters for torch.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
venv="${MONSOON_PEERS_VENV:-$HOME/.cache/monsoon-peers}"
requirements="$here/peers_requirements.txt"

yes=0
for argument in "$@"; do
  case "$argument" in
    --yes) yes=1 ;;
    *) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
  esac
done

if cmp -s "$requirements" "$venv/complete.txt"; then
  echo "$venv is complete ($(du -sh "$venv" | cut -f1))"
  exit 0
fi
free_gb=$(($(df --output=avail -k "$(dirname "$venv")" 2>/dev/null | tail -1 || echo 0) >> 20))
echo "downloads 3.8 GB from PyPI and keeps 7 GB in $venv (the disk has $free_gb GB free)"
if [[ $yes -eq 0 ]]; then
  read -r -p "go on? [y/N] " answer
  [[ "$answer" == [yY] ]] || exit 1
fi
/usr/bin/python3 -m venv "$venv"
"$venv/bin/pip" install --no-cache-dir --no-deps -r "$requirements"
"$venv/bin/python3" - <<'EOF'
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import tensorflow
import torch
print(f"torch {torch.__version__}, tensorflow {tensorflow.__version__}")
EOF
cp "$requirements" "$venv/complete.txt"
echo "$venv is complete ($(du -sh "$venv" | cut -f1))"
