#!/bin/sh
# Makes the whole model from nothing: corpus, tokenizer, training, export, evaluation, card.
#   make_model.sh MODEL_FOLDER [CORPUS_MEGABYTES [TRAINING_SECONDS [EVALUATION_SCALE]]]
# Intermediate files go to $WORK (default build/tinymodel). Needs Python with torch, transformers,
# tokenizers, numpy, jinja2 and matplotlib, and a GPU to be quick about it. $ARCH is the
# architecture of model.py (default qwen3). With $TOKENIZER, a model folder, its tokenizer is taken
# instead of training one, for a twin. The command in $AFTER_EXPORT, if set, runs as soon as there
# are weights, before the evaluation.
set -eu
here=$(dirname "$0")
model=$1 megabytes=${2:-600} seconds=${3:-372} scale=${4:-1}
work=${WORK:-build/tinymodel}
mkdir -p "$model" "$work"

run() {
  script=$1
  shift
  echo "== $script"
  start=$(date +%s)
  python3 -u "$here/$script" "$@"
  echo "== $script took $(($(date +%s) - start)) s"
}

run generate.py --out "$work/corpus" --megabytes "$megabytes"
if [ -n "${TOKENIZER:-}" ]; then
  cp "$TOKENIZER/tokenizer.json" "$TOKENIZER/tokenizer_config.json" "$model"
else
  run train_tokenizer.py --corpus "$work/corpus" --out "$model"
fi
run pack.py --corpus "$work/corpus" --tokenizer "$model/tokenizer.json" --out "$work/packed"
run train.py --arch "${ARCH:-qwen3}" --data "$work/packed" --out "$work" --max-seconds "$seconds"
run export.py --checkpoint "$work/checkpoint.pt" --out "$model"
[ -z "${AFTER_EXPORT:-}" ] || sh -c "$AFTER_EXPORT"
run expect.py --model "$model"
run evaluate.py --model "$model" --out "$work" --scale "$scale"
run make_card.py --model "$model" --results "$work" --corpus-megabytes "$megabytes" \
  --seconds "$seconds"
