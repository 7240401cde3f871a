# Runs steps, each in a process of its own with a log, and adds up what they counted.
# shellcheck shell=bash

# NAME|what it needs built before|what it does
all_steps='
tidy||the repository itself: module table, sizes, banned calls
format||layout of all C++, .proto and Markdown files
tools||unit tests of the tools and of what benches compute
types||tsc over pages, workers and tests
eslint||lint rules of the web workspace
web-unit|data|unit tests of the web packages
web-build||the page, as weft serves it
program||weft itself, optimised, assertions on
build|program|unit tests of all C++ modules, built the same way
clang-tidy||clang-tidy of changed files
data||the reference data that tests read, unpacked
oracles|data|what other implementations answer, for unit tests to compare with
unit|program build data oracles|unit tests of all C++ modules
model|program|the embedded model as a package
conformance|program model data|cases of tests/conformance
instructions|program build|instructions that kernels take, as callgrind counts them
sim|program|400 simulated swarms with faults, and several servers
clone|program build data|a copy of the tracked files alone has every test and its data
processes|program web-build model data|servers, native and headless workers without a browser
e2e|program web-build model data|browser tabs and native workers together
more-data|program build model|deep: unit tests and conformance with other data, $WEFT_MORE_DATA
clang-tidy-all|program build|deep: clang-tidy of every file
sim-long|program|deep: 5,000 simulated swarms, and several servers
fuzz-build||deep: fuzz targets with clang, address and undefined-behaviour sanitizers
fuzz|fuzz-build|deep: a minute of every fuzz target
asan-ubsan||deep: unit tests under address and undefined-behaviour sanitizers
asan-commands|program model|deep: starts, refusals and ends of commands under these sanitizers
tsan||deep: unit tests under the thread sanitizer
package|program web-build model|deep: the .deb in a fresh Debian, the tarball, the npm packages
'
deep_steps="more-data clang-tidy-all sim-long fuzz-build fuzz asan-ubsan asan-commands tsan package"
check_steps="tidy format tools types eslint clang-tidy"

step_model() { model_up_to_date; }

step_names() { cut -d'|' -f1 <<< "$all_steps" | sed '/^$/d'; }
needs_of() { grep "^$1|" <<< "$all_steps" | cut -d'|' -f2; }

# run_step NAME: prints one line when it ends, and on failure the tail of its log. The line says how
# long it took and how long processors worked for it: "unit  1735 passed, 194 s (cpu 301 s)".
run_step() {
  local name=$1 status=0 begin=$SECONDS log="$logs/$1.log" counts="$logs/$1.json" word cpu
  rm -f "$counts"
  cpu=$(TIMEFORMAT='%U %S'; { time WEFT_COUNTS="$counts" "$root/dev" __step "$name" \
    > "$log" 2>&1 < /dev/null; } 2>&1) || status=$?
  word=$(node tools/setup/counts.mjs step "$counts" "$status")
  printf '%-16s %s, %d s (cpu %.0f s)\n' "$name" "$word" $((SECONDS - begin)) \
    "$(awk '{ print $1 + $2 }' <<< "$cpu")"
  if [ "$status" -eq 77 ]; then
    sed 's/^/    /' <(tail -n 1 "$log")
  elif [ "$status" -ne 0 ]; then
    # A compiler's error may stand far above the end.
    sed 's/^/    /' <(grep -E -m 10 '(error|Error):|^FAILED' "$log" || true)
    sed 's/^/    /' <(tail -n "${WEFT_LOG_LINES:-40}" "$log")
    printf '    (whole log: %s)\n' "${log#"$root"/}"
  fi
  return 0
}

# run_lane STEP...: one after another.
run_lane() {
  local name
  for name in "$@"; do run_step "$name"; done
}

# The order is for two cores, of which one shall wait for nothing while the other works. Tests with
# browsers take longest and compute least, so they begin as soon as there is a program and a page.
# Tests without browsers, and unit tests once they are compiled, run beside them. The rest takes
# only what those leave (SCHED_IDLE): tabs, and GPUs made of software, that lack a processor for
# seconds test patience, not weft.
run_everything() {
  local steps
  mapfile -t steps < <(step_names)
  prepare_for program
  # A failed installation ends this lane and the run; a failed step ends neither.
  {
    prepare_for "${steps[@]}"
    run_lane web-build data
  } &
  local prepared=$!
  { wait_for "$prepared" && idle_lane tidy format tools types eslint oracles; } &
  local checked=$!
  run_lane program
  wait "$prepared"
  run_lane model
  idle_lane build &
  local tests_built=$!
  idle_lane sim conformance &
  # Runs weft, too. One file after another: first of what is left, so that it is not the last.
  nice -n 19 "$root/dev" __lane web-unit &
  {
    run_lane processes
    wait_for "$tests_built" && wait_for "$checked"
    run_lane unit instructions clone
  } &
  { wait_for "$tests_built" && idle_lane clang-tidy; } &
  run_lane e2e
  wait
}

# wait_for PROCESS: until it has ended; not a child of who waits, as `wait` demands.
wait_for() { tail --pid="$1" -f /dev/null; }

idle_lane() { chrt --idle 0 "$root/dev" __lane "$@"; }

# run_steps everything|check|deep|STEP...: exits with 1 when a step failed.
run_steps() {
  mkdir -p "$logs"
  node_ready
  rm -f "$logs"/*.json
  local begin=$SECONDS
  local steps=("$@")
  # Whole runs are a stranger's; other reference data is a step of its own.
  if [ "$1" = everything ] || [ "$1" = deep ]; then
    export WEFT_MORE_DATA=${WEFT_DATA:-}
    unset WEFT_DATA
  fi
  case "$1" in
    check) read -ra steps <<< "$check_steps" ;;
  esac
  case "$1" in
    everything)
      run_everything
      WEFT_DEEP_ONLY=1 run_lane package
      ;;
    deep)
      run_everything
      run_lane $deep_steps
      ;;
    *)
      # What the steps need is installed before any of them runs.
      prepare_for "${steps[@]}"
      run_lane "${steps[@]}"
      ;;
  esac
  printf 'took %d min %d s\n' $(((SECONDS - begin) / 60)) $(((SECONDS - begin) % 60))
  node tools/setup/counts.mjs total "$logs"
}

# Installs what the steps need.
prepare_for() {
  local name
  for name in "$@"; do
    case "$name" in
      types | eslint | web-*) ready_web ;;
      data) node_ready ;;
      tools | oracles | conformance)
        ready_web
        ready_tools
        ;;
      format) apt_ready clang-format ;;
      program | model | sim*) ready_native ;;
      build | unit) ready_native_tests ;;
      fuzz* | clang-tidy* | asan-* | tsan) ready_clang ;;
      processes | e2e)
        ready_browser
        ready_tools
        ;;
    esac
  done
}

# Steps in the order of the list, each after what it needs.
with_needs() {
  local wanted=" " name
  for name in "$@"; do
    wanted+="$(needs_of "$name") $name "
  done
  for name in $(step_names); do
    [[ $wanted == *" $name "* ]] && printf '%s\n' "$name"
  done
  return 0
}

command_test() {
  local only="" deep=no
  while [ $# -gt 0 ]; do
    case "$1" in
      --list)
        sed '/^$/d' <<< "$all_steps" | awk -F'|' '{ printf "%-16s %s\n", $1, $3 }'
        return 0
        ;;
      --only) only+=" ${2//,/ }"; shift ;;
      --deep) deep=yes ;;
    esac
    shift
  done
  if [ -n "$only" ]; then
    local steps
    steps=$(with_needs $only)
    run_steps $steps
  elif [ "$deep" = yes ]; then
    run_steps deep
  else
    run_steps everything
  fi
}
