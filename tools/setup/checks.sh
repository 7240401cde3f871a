# Checks that run nothing: format, tidy, types, ESLint, clang-tidy.
# shellcheck shell=bash

cxx_files() {
  git ls-files --cached --others --exclude-standard -- 'src/*' 'tests/*' 'bench/*' |
    grep -E '\.(h|cc|proto)$' | while read -r path; do [ -e "$path" ] && echo "$path"; done
}

# Documents; models/ has what scripts write, and card.md is what they fill in.
markdown_files() {
  git ls-files --cached --others --exclude-standard -- '*.md' ':!models/*' ':!*/card.md' |
    while read -r path; do [ -e "$path" ] && echo "$path"; done
}

command_fmt() {
  apt_ready clang-format
  node_ready
  cxx_files | xargs -r clang-format -i
  markdown_files | xargs -r node tools/tidy/format_markdown.mjs
}

# .cc files that differ from where this work began: the merge base with main on a branch, the last
# commit's parent on main itself; what is not committed yet counts too.
changed_cxx_files() {
  local base=""
  base=$(git merge-base HEAD origin/main 2> /dev/null) ||
    base=$(git merge-base HEAD main 2> /dev/null) || true
  if [ -z "$base" ] || [ "$base" = "$(git rev-parse HEAD)" ]; then
    base=$(git rev-parse --verify -q HEAD~1 || git rev-parse HEAD)
  fi
  { git diff --name-only --diff-filter=d "$base"; git ls-files --others --exclude-standard; } |
    grep -E '^src/.*\.cc$' | sort -u || true
}

# clang_tidy FILE...: two at a time, each file with its own headers (clang cannot read what GCC
# precompiled, and a missing include shows).
clang_tidy() {
  [ $# -gt 0 ] || return 0
  local headers
  mapfile -t headers < <(cd src && find . -name '*.proto' -printf 'gen/%P\n' | sed 's/proto$/pb.h/')
  headers+=(gen/program/ops.pb.h) # its command makes the other headers of operations, too
  build_preset lint "${headers[@]}" > /dev/null
  printf '%s\n' "$@" | xargs -P "$jobs" -n 1 \
    clang-tidy --quiet --warnings-as-errors='*' -p build/lint \
    --extra-arg=-Wno-unknown-warning-option \
    --extra-arg=-Wno-unused-command-line-argument \
    2> >(grep -v 'warnings\? generated' >&2 || true)
}

command_lint() {
  ready_clang
  ready_web
  if [ $# -gt 0 ]; then
    clang_tidy "$@"
    return
  fi
  step_eslint
  WEFT_TIDY_LIMIT=1000 step_clang_tidy
}

command_check() {
  run_steps check
}

step_tidy() {
  node tools/tidy/tidy.mjs --json "${WEFT_COUNTS:-build/tidy.json}"
}

step_format() {
  local bad
  bad=$(
    cxx_files | xargs -r clang-format --dry-run -Werror 2>&1 |
      grep -oE '^[^ :]+\.(h|cc|proto):' | sort -u | sed 's/$/ not formatted: run .\/dev fmt/'
    markdown_files | xargs -r node tools/tidy/format_markdown.mjs --check
  ) || true
  [ -z "$bad" ] && return 0
  echo "$bad"
  return 1
}

step_types() {
  generate_web
  (cd web && npm run --silent typecheck)
}

step_eslint() { (cd web && npx --no-install eslint . --max-warnings 0); }

# A clean clone of one commit may hold hundreds of changed files: more than the limit waits for
# `./dev test --deep`, and the step says so.
step_clang_tidy() {
  local files limit=${WEFT_TIDY_LIMIT:-16}
  mapfile -t files < <(changed_cxx_files)
  if [ ${#files[@]} -gt "$limit" ]; then
    echo "${#files[@]} changed files, checking $limit of them (all: ./dev test --deep)"
    mapfile -t files < <(printf '%s\n' "${files[@]}" | shuf --random-source=LICENSE -n "$limit")
  fi
  printf '%s\n' "${files[@]}"
  clang_tidy "${files[@]}"
}

step_clang_tidy_all() {
  local files
  mapfile -t files < <(cxx_files | grep -E '^src/.*\.cc$')
  clang_tidy "${files[@]}"
}
