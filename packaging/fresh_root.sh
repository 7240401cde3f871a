#!/usr/bin/env bash
# Makes a fresh Debian or Ubuntu in FOLDER, apt and nothing else, from a tarball that is kept; it is
# made once from the mirror that this machine's apt knows. Usage: fresh_root.sh SUITE FOLDER
set -euo pipefail
suite=$1 folder=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
kept="$here/../build/roots/$suite.tar"

if [ ! -e "$kept" ]; then
  mkdir -p "${kept%/*}"
  echo "making a $suite of packages alone (once)" >&2
  mmdebstrap --quiet --variant=apt "$suite" "$kept.part.tar"
  mv "$kept.part.tar" "$kept"
fi
mkdir -p "$folder"
tar -C "$folder" -xf "$kept"
cp /etc/resolv.conf "$folder/etc/resolv.conf"
