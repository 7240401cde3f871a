# Paths, messages and stamps that the other parts share. Sourced by ./dev, with `root` set.
# shellcheck shell=bash

stamps="$root/build/stamps"
logs="$root/build/test-logs"
weft="$root/build/release/weft"
jobs=$(nproc)

say() { printf '\033[1m%s\033[0m\n' "$*" >&2; }

fail() {
  printf 'dev: %s\n' "$*" >&2
  exit 1
}

# True when the stamp is missing or something under the given paths is newer than it. Folders count
# too: their time changes when a file is added or removed.
is_stale() {
  local stamp="$stamps/$1"
  shift
  [ -e "$stamp" ] || return 0
  local existing=() path
  for path in "$@"; do [ -e "$path" ] && existing+=("$path"); done
  [ ${#existing[@]} -gt 0 ] || return 1
  local newer
  newer=$(find "${existing[@]}" \
    \( -name node_modules -o -name gen -o -name dist -o -name .git \) -prune -o \
    -newer "$stamp" -print -quit)
  [ -n "$newer" ]
}

# Usage: begin_stamp NAME; ...work...; end_stamp NAME. The stamp carries the time at which the work
# began, so that an edit made meanwhile is seen the next time.
begin_stamp() {
  mkdir -p "$stamps"
  touch "$stamps/$1.begun"
}

end_stamp() { mv "$stamps/$1.begun" "$stamps/$1"; }
