#!/usr/bin/env bash
# usage: bash scripts/peers.sh VENV [shape ...]
# What PyTorch (eager and compiled) and ONNX Runtime take for the steps that scripts/bench.lua measures, on the CPU, with
# the same weights and as many threads (REPRISE_THREADS, else all), and then bench.lua itself, all in one table.
# VENV is a folder for a Python environment: made if it is missing, and filled with torch, transformers, onnx and
# onnxruntime by pip. Shapes: demo, small, ...; default demo.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
usage() { sed -n '2,6s/^# //p' "$0" >&2; exit 2; }
case ${1:---help} in -*) usage ;; esac
venv=$1
shift
shapes=${*:-demo}
program=${REPRISE_BUILD:-build}/reprise
threads=${REPRISE_THREADS:-$(nproc)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

[ -x "$program" ] || { echo "peers.sh: $program: no such program: build it first" >&2; exit 1; }
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
if ! "$venv/bin/python" -c 'import torch, transformers, onnx, onnxruntime' 2>/dev/null; then
  echo "to be installed into $venv: torch transformers onnx onnxruntime" >&2
  "$venv/bin/pip" install -q torch transformers onnx onnxruntime
fi

for shape in $shapes; do
  "$program" -e "require('reprise').t5.random('$shape', { device = 'cpu', seed = 1, dtype = 'f16' }):save('$work/model')"
  "$venv/bin/python" scripts/peers/t5.py --model "$work/model" --shape "$shape" --threads "$threads" >>"$work/peers.jsonl"
  rm -r "$work/model"
done
cat "$work/peers.jsonl"
REPRISE_THREADS=$threads "$program" scripts/bench.lua --device cpu --beams 1 --source 32 --new 32 --no-start \
  --shapes "$(tr ' ' , <<<"$shapes")" --peer "$work/peers.jsonl"
