#!/bin/sh
# Speed and peak memory of `weft convert` on a random checkpoint of Qwen3-0.6B's shape (1.2 GB),
# against copying the file.
#   bench/convert_bench.sh [WEFT]        WEFT: the program, default build/release/weft
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
weft=${1:-$here/build/release/weft}
work=$(mktemp -d "${TMPDIR:-/tmp}/weft-convert-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT
python3 "$here/tools/random_checkpoint.py" "$work/checkpoint"

# Prints seconds and peak memory (MiB) of a command; the page cache holds the source in every run.
measure() {
  label=$1
  shift
  python3 - "$label" "$@" <<'PYTHON'
import os, resource, subprocess, sys, time
label, command = sys.argv[1], sys.argv[2:]
source = os.environ["SOURCE_BYTES"]
began = time.monotonic()
subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
seconds = time.monotonic() - began
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
rate = int(source) / seconds / 1e6
print(f"{label:14} {seconds:6.2f} s  {rate:7.0f} MB/s of source  peak {peak:6.0f} MiB")
PYTHON
}
SOURCE_BYTES=$(stat -c %s "$work/checkpoint/model.safetensors")
export SOURCE_BYTES
cat "$work/checkpoint/model.safetensors" > /dev/null
measure "copy" cp "$work/checkpoint/model.safetensors" "$work/copy"
rm -f "$work/copy"
for quant in keep f16 f32 q8 q4; do
  measure "convert $quant" \
    "$weft" convert "$work/checkpoint" "$work/package" --no-tokenizer --quant "$quant"
  rm -rf "$work/package"
done
