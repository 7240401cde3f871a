#!/usr/bin/env bash
# What a lost packet costs a request and its answer over TCP, on loopback with packets of 1,500
# bytes: answers of 4,137 bytes (a row of 1,024 columns as a WebSocket message) written whole or in
# pieces of 4,096, where only full packets are lost or any. Wants root, ip and nft.
#
#   ./dev bench tail-loss [PER_CENT...]
set -euo pipefail
for lost in "${@:-0 2 5}"; do
  for percent in $lost; do
    for which in full any; do
      for piece in 65536 4096; do
        unshare -n python3 "$(dirname "$0")/lib/tail_loss.py" "$percent" "$piece" "$which"
      done
    done
  done
done
