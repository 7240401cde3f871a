#!/bin/sh
# Speed and peak memory of `weft convert` on a random checkpoint of Qwen3-0.6B's shape (1.2 GB),
# against copying the file; and of the MXFP4 experts of a layer of gpt-oss-20b (0.5 GB).
#   bench/convert_bench.sh [WEFT]        WEFT: the program, default build/release/weft
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
weft=${1:-$here/build/release/weft}
work=$(mktemp -d "${TMPDIR:-/tmp}/weft-convert-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT
python3 "$here/tools/random_checkpoint.py" "$work/checkpoint"

# Prints seconds and peak memory (MiB) of a command that writes $work/package; the page cache holds
# the source in every run.
measure() {
  label=$1
  shift
  python3 - "$label" "$@" <<'PYTHON'
import os, resource, subprocess, sys, time
label, command = sys.argv[1], sys.argv[2:]
source, package = os.environ["SOURCE_BYTES"], os.environ["PACKAGE"]
began = time.monotonic()
subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
seconds = time.monotonic() - began
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
rate = int(source) / seconds / 1e6
files = [os.path.join(at, name) for at, _, names in os.walk(package) for name in names]
written = sum(map(os.path.getsize, files)) or os.path.getsize(package)
made = written / seconds / 1e6
print(f"{label:14} {seconds:6.2f} s {rate:5.0f} MB/s of source {made:5.0f} MB/s written "
      f"peak {peak:4.0f} MiB")
PYTHON
}
PACKAGE="$work/package"
export PACKAGE

# Copies the checkpoint $1, then converts it to each of the other arguments.
compare() {
  source=$1
  shift
  SOURCE_BYTES=$(stat -c %s "$source/model.safetensors")
  export SOURCE_BYTES
  cat "$source/model.safetensors" > /dev/null
  measure "copy" cp "$source/model.safetensors" "$work/package"
  rm -f "$work/package"
  for quant in "$@"; do
    measure "convert $quant" \
      "$weft" convert "$source" "$work/package" --no-tokenizer --quant "$quant"
    rm -rf "$work/package"
  done
}
compare "$work/checkpoint" keep f16 f32 q8 q4
rm -rf "$work/checkpoint"
echo "MXFP4:"
python3 "$here/tools/random_checkpoint.py" "$work/mxfp4" --like gpt-oss-20b --layers 1 --vocab 2048
compare "$work/mxfp4" keep f16 q4
