# The steps of `./dev test` that run something. A step that counts its own cases writes
# {"passed": n, "failed": n, "skipped": n} to $WEFT_COUNTS; any other step counts as one. A step
# that has nothing to run yet says why and exits with 77, which counts as one skip.
# shellcheck shell=bash

not_there() {
  echo "skipped: $*"
  exit 77
}

count() { node tools/setup/counts.mjs "$@" > "${WEFT_COUNTS:-/dev/null}"; }

# What does not compile shall not hide what else does not.
step_program() { build_program -k 0; }
step_build() { build_native -k 0; }
step_web_build() { build_web; }

# The reference data as plain files, unpacked again only when a pack or the rule changed.
step_data() {
  if ! is_stale data tests/data/packs tools/testdata; then return 0; fi
  mkdir -p build
  begin_stamp data
  node tools/testdata/unpack.mjs build/test-data
  end_stamp data
}

# What a stranger clones is whole: the tracked files alone, in an empty folder, list every test and
# make every test's data, byte for byte what this checkout's tests read.
step_clone() {
  local folder status=0
  folder=$(mktemp -d)
  git archive HEAD | tar -x -C "$folder"
  node tools/setup/clone.mjs "$folder" || status=$?
  rm -rf "$folder"
  return "$status"
}

# Written again only when the scripts changed; they compare with packages that lock files pin.
step_oracles() {
  if ! is_stale oracles tools/*_oracle tools/package-lock.json tools/package.json; then return 0; fi
  begin_stamp oracles
  (cd tools && npm run --silent oracles)
  end_stamp oracles
}

# run_ctest PRESET LIMIT_S: programs of all modules, at most $jobs at a time, each at most so long;
# every one writes GoogleTest's JSON.
run_ctest() {
  local preset=$1 limit_s=$2 status=0 results="$logs/gtest-$1"
  rm -rf "$results"
  mkdir -p "$results"
  GTEST_OUTPUT="json:$results/" ctest --test-dir "build/$preset" -j "$jobs" --timeout "$limit_s" \
    --output-on-failure --output-junit "$results/ctest.xml" || status=$?
  count gtest "$results"
  return "$status"
}

step_unit() { run_ctest release 600; }

# node_tests FILE...: files that use node:test count their tests, any other file counts as one.
node_tests() {
  local status=0 results="${WEFT_COUNTS:-build/node-tests}.tap"
  node --test --test-concurrency=1 --test-reporter=tap --test-reporter-destination="$results" \
    --test-reporter=spec --test-reporter-destination=stdout "$@" || status=$?
  count tap "$results"
  return "$status"
}

step_tools() {
  local files
  mapfile -t files < <(
    find tools bench -name node_modules -prune -o -name '*.test.mjs' -print | sort)
  node_tests "${files[@]}"
}

step_web_unit() {
  local status=0 results="$logs/vitest.json"
  rm -f "$results"
  generate_web
  # Dawn in Node finds the Vulkan loader and the software adapter that Debian's Chromium brings,
  # where that is installed.
  (cd web && VK_ICD_FILENAMES="${VK_ICD_FILENAMES:-/usr/lib/chromium/vk_swiftshader_icd.json}" \
    LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/lib/chromium" \
    npx --no-install vitest run --reporter=default --reporter=json --outputFile.json="$results") ||
    status=$?
  count vitest "$results"
  return "$status"
}

step_conformance() {
  local files
  mapfile -t files < <(find tests/conformance tests/reported -maxdepth 1 -name '*.mjs' | sort)
  [ ${#files[@]} -gt 0 ] || not_there "tests/conformance holds no *.mjs yet"
  WEFT="$weft" node_tests "${files[@]}"
}

step_instructions() { WEFT="$weft" node_tests tests/instructions/*.mjs; }

# sim_seeds SEEDS CLUSTER_SEEDS: swarms, and several servers with each kind of fault.
sim_seeds() {
  "$weft" sim --help > /dev/null 2>&1 || not_there "weft has no sim command yet"
  local faults status=0
  "$weft" sim --seed 1001 --seeds "$1" || status=1
  local TIMEFORMAT='cluster: %U s of processor time'
  time for faults in all reject db kill loss relay; do
    "$weft" sim --cluster --faults "$faults" --seed 1001 --seeds "$2" || status=1
  done
  return "$status"
}

# The same tests with other reference data of the same layout, where WEFT_DATA names it.
step_more_data() {
  [ -n "${WEFT_MORE_DATA:-}" ] || not_there "WEFT_DATA names no other reference data"
  export WEFT_DATA=$WEFT_MORE_DATA
  step_unit
  step_conformance
}

step_sim() { sim_seeds "${WEFT_SIM_SEEDS:-400}" 34; }
step_sim_long() { sim_seeds "${WEFT_SIM_SEEDS:-5000}" 1667; }

step_fuzz_build() {
  local targets
  mapfile -t targets < <(fuzz_targets)
  [ ${#targets[@]} -gt 0 ] || not_there "tests/fuzz holds no *_fuzz.cc yet"
  # One target that does not compile shall not hide the others.
  build_preset fuzz -k 0 "${targets[@]}"
}

# fuzz_one TARGET SECONDS: what it finds goes to build/fuzz-found, new inputs to build/fuzz-corpus.
fuzz_one() {
  local target=$1 seconds=$2 log="$logs/fuzz-$1.log" seeds=() folder
  [ -x "build/fuzz/$target" ] || { echo "FAIL $target: not built"; return 1; }
  mkdir -p "build/fuzz-corpus/$target" build/fuzz-found "$logs"
  for folder in "tests/fuzz/corpus/$target" "tests/fuzz/corpus/${target%_fuzz}"; do
    [ -d "$folder" ] && seeds+=("$folder")
  done
  "build/fuzz/$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
    -artifact_prefix="build/fuzz-found/$target-" "build/fuzz-corpus/$target" "${seeds[@]}" \
    > "$log" 2>&1 && { echo "ok   $target: $(grep '^Done' "$log")"; return 0; }
  tail -n 40 "$log"
  echo "FAIL $target: the input is in build/fuzz-found"
  return 1
}

fuzz_all() {
  local seconds=$1 targets target failed=0
  mapfile -t targets < <(fuzz_targets)
  [ ${#targets[@]} -gt 0 ] || not_there "tests/fuzz holds no *_fuzz.cc yet"
  local pids=()
  for target in "${targets[@]}"; do
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
    fuzz_one "$target" "$seconds" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || failed=$((failed + 1)); done
  printf '{"passed": %d, "failed": %d, "skipped": 0}\n' $((${#targets[@]} - failed)) "$failed" \
    > "${WEFT_COUNTS:-/dev/null}"
  [ "$failed" -eq 0 ]
}

step_fuzz() { fuzz_all "${WEFT_FUZZ_SECONDS:-60}"; }

# end_to_end OPTION: files of tests/e2e that use a browser (--files-with-matches), or do not
# (--files-without-match): by what they import.
end_to_end() {
  local files
  mapfile -t files < <(grep "$1" -E 'lib/(tabs|pages|engines|firefox|webkit)\.mjs' tests/e2e/*.mjs)
  WEFT="$weft" node_tests "${files[@]}"
}

step_e2e() { end_to_end --files-with-matches; }
step_processes() { end_to_end --files-without-match; }

# What is undefined fails the test that did it; by itself the sanitizer would only say so.
step_asan_ubsan() {
  build_preset asan-ubsan
  UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 run_ctest asan-ubsan 3600
}

# Of the processes themselves: who is destroyed before whom when a command ends.
step_asan_commands() {
  build_preset asan-ubsan weft
  WEFT="$root/build/asan-ubsan/weft" node_tests tests/e2e/commands_end.mjs
}

step_tsan() {
  build_preset tsan
  run_ctest tsan 3600
}

command_fuzz() {
  local target=${1:-} seconds=${2:-60}
  if [ -z "$target" ]; then
    say "Fuzz targets (./dev fuzz TARGET [SECONDS]):"
    fuzz_targets
    return 0
  fi
  ready_clang
  [ -e "tests/fuzz/$target.cc" ] || target="${target}_fuzz"
  build_preset fuzz "$target"
  fuzz_one "$target" "$seconds"
}

command_e2e() {
  weft_up_to_date
  web_up_to_date
  model_up_to_date
  ready_browser
  if [ $# -eq 0 ]; then
    WEFT="$weft" node_tests tests/e2e/*.mjs
  else
    WEFT="$weft" node_tests "$@"
  fi
}
