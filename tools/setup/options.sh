# Reads what a command of ./dev was given before that command installs, makes or removes anything.
# shellcheck shell=bash

# Presets of CMakePresets.json that people build, in its order.
preset_names() {
  awk '/"name":/ { gsub(/[",]/, ""); name = $2; next } /"displayName":/ { print name }' \
    CMakePresets.json | grep -vx lint
}

bench_names() {
  find bench -maxdepth 1 -name '*_bench.*' -printf '%f\n' | sed 's/_bench\..*$//; s/_/-/g' | sort
}

fuzz_targets() {
  find tests/fuzz -maxdepth 1 -name '*_fuzz.cc' -printf '%f\n' | sed 's/\.cc$//' | sort
}

# Lines of a list as one: "a, b, c".
listed() { paste -sd, | sed 's/,/, /g'; }

command_names() { usage | sed -n 's/^  \([a-z][a-z0-9-]*\) .*/\1/p'; }

# usage_of COMMAND: its lines of the usage.
usage_of() {
  printf 'Usage: ./dev COMMAND [arguments]\n\n'
  usage | awk -v command="$1" \
    '/^  [a-z]/ { is_it = $1 == command } /^$/ { is_it = 0 } is_it { print }'
}

# no_arguments COMMAND ARGUMENT...
no_arguments() {
  [ $# -eq 1 ] || fail "'$2' is no option of ./dev $1, which takes none"
}

# are_there COMMAND WHAT PATH...: each of the paths exists.
are_there() {
  local command=$1 what=$2 path
  for path in "${@:3}"; do
    case "$path" in
      -*) fail "'$path' is no option of ./dev $command, which takes $what" ;;
    esac
    [ -e "$path" ] || fail "there is no '$path': ./dev $command takes $what"
  done
}

read_build_arguments() {
  local preset=${1:-release} word
  preset_names | grep -qx -- "$preset" ||
    fail "'$preset' is no preset of ./dev build; there are $(preset_names | listed)"
  for word in "${@:2}"; do
    case "$word" in
      -*) fail "'$word' is no option of ./dev build, which takes a preset and targets of Ninja" ;;
    esac
  done
}

read_test_arguments() {
  local only="" name
  while [ $# -gt 0 ]; do
    case "$1" in
      --list | --deep) ;;
      --only)
        [ $# -ge 2 ] || fail "--only wants steps, like --only tidy,unit"
        only+=" ${2//,/ }"
        shift
        ;;
      *) fail "'$1' is no option of ./dev test; there are --list, --only STEP[,STEP], --deep" ;;
    esac
    shift
  done
  for name in $only; do
    step_names | grep -qx -- "$name" ||
      fail "'$name' is no step of ./dev test; there are $(step_names | listed)"
  done
}

read_fuzz_arguments() {
  [ $# -gt 0 ] || return 0
  [ -e "tests/fuzz/$1.cc" ] || [ -e "tests/fuzz/${1}_fuzz.cc" ] ||
    fail "'$1' is no target of ./dev fuzz; there are $(fuzz_targets | listed)"
  [[ ${2:-1} =~ ^[1-9][0-9]*$ ]] || fail "'$2' is no number of seconds"
  [ $# -le 2 ] || fail "'$3' is no option of ./dev fuzz, which takes a target and seconds"
}

read_bench_arguments() {
  [ $# -gt 0 ] || return 0
  bench_names | grep -qx -- "${1//_/-}" ||
    fail "'$1' is no benchmark of ./dev bench; there are $(bench_names | listed)"
}

read_onnx_check_arguments() {
  local folders=0
  while [ $# -gt 0 ]; do
    case "$1" in
      --limit | --optimization)
        [ $# -ge 2 ] || fail "$1 wants a value"
        shift
        ;;
      -*) fail "'$1' is no option of ./dev onnx-check; there are --limit, --optimization" ;;
      *)
        are_there onnx-check "a folder" "$1"
        folders=$((folders + 1))
        ;;
    esac
    shift
  done
  [ "$folders" -eq 1 ] || fail "./dev onnx-check wants one folder"
}

# read_arguments COMMAND ARGUMENT...: ends ./dev with the command's usage or a refusal, or does
# nothing. `run`, `sim` and benchmarks read their own options: only --help in front is answered
# here.
read_arguments() {
  local command=$1 word
  shift
  for word in "${@:1:1}" "${@: -1}"; do
    case "$command $word" in
      "help "* | "__"*) ;;
      *" --help" | *" -h")
        [ "$command" != bench ] || [ $# -eq 1 ] || continue
        usage_of "$command"
        exit 0
        ;;
    esac
  done
  case "$command" in
    build | test | fuzz | bench | onnx-check) "read_${command//-/_}_arguments" "$@" ;;
    check | fmt | gen | setup | clean | help) no_arguments "$command" "$@" ;;
    package)
      [ $# -eq 0 ] || [ "$*" = --check ] ||
        fail "'$*' is no option of ./dev package, which takes --check or nothing"
      ;;
    lint) are_there lint "files of C++" "$@" ;;
    e2e) are_there e2e "files of tests/e2e" "$@" ;;
    run | sim | __*) ;;
    *) fail "'$command' is no command of ./dev; there are $(command_names | listed)" ;;
  esac
}
