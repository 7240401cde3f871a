# Builds weft, the page and the embedded model's package; starts weft.
# Each of the three has a stamp, so that nothing is asked of CMake or npm when nothing changed.
# shellcheck shell=bash

native_sources=(src cmake bench tools/ops CMakeLists.txt CMakePresets.json)
converter_sources=(src/convert src/onnx src/package src/program src/tensor tools/ops)
web_sources=(
  web/app web/packages web/package.json web/package-lock.json web/tsconfig.base.json
  web/tsconfig.json src/wire/control.proto src/program/program.proto src/program/views.proto
  src/program/ops.json tools/ops
)

# lacks_tests FOLDER: configured before GoogleTest was there, which now is.
lacks_tests() {
  grep -q '^GTest_DIR:.*NOTFOUND' "$1/CMakeCache.txt" 2> /dev/null &&
    [ -e /usr/include/gtest/gtest.h ]
}

# configure PRESET
configure() {
  local preset=$1 folder="build/$1"
  if [ ! -e "$folder/build.ninja" ] || [ CMakePresets.json -nt "$folder/build.ninja" ] ||
    lacks_tests "$folder"; then
    cmake --preset "$preset" > "$folder.configure.log" 2>&1 || {
      cat "$folder.configure.log" >&2
      fail "cmake --preset $preset failed"
    }
  fi
}

# build_preset PRESET [TARGET...]
build_preset() {
  local preset=$1
  shift
  mkdir -p build
  configure "$preset"
  ninja -C "build/$preset" "$@"
}

generate_web() { (cd web && node app/build/gen_proto.mjs); }

# Release build of everything, tests included. Usage: build_native [ninja option...]
build_native() {
  begin_stamp native
  build_preset release "$@"
  end_stamp native
}

build_web() {
  # Made before the stamp: a new folder makes its parent look edited.
  mkdir -p web/packages/wire/gen web/packages/engine/gen
  begin_stamp web
  generate_web
  (cd web && npm run --silent build)
  end_stamp web
}

# The program alone, without the tests. Usage: build_program [ninja option...]
build_program() {
  begin_stamp program
  build_preset release "$@" weft
  end_stamp program
}

# What `./dev run` waits for.
weft_up_to_date() {
  ready_native
  if [ -x "$weft" ] && ! is_stale native "${native_sources[@]}"; then return 0; fi
  if [ -x "$weft" ] && ! is_stale program "${native_sources[@]}"; then return 0; fi
  say "Building weft (the first time takes some minutes)"
  build_program
}

web_up_to_date() {
  if [ -e web/dist/index.html ] && ! is_stale web "${web_sources[@]}"; then return 0; fi
  ready_web
  say "Building the page"
  build_web
}

# The embedded model as a package, written again when its source or the converter changed.
model_up_to_date() {
  local source=models/weft-tiny package=packages/weft-tiny
  if [ -e "$package/weft.json" ] && ! is_stale model "$source" "${converter_sources[@]}"; then
    return 0
  fi
  [ -e "$source/config.json" ] || fail "$source is missing from this clone"
  say "Preparing the embedded model"
  begin_stamp model
  rm -rf "$package"
  mkdir -p packages
  "$weft" convert "$source" "$package"
  end_stamp model
}

command_build() {
  local preset=${1:-release}
  [ $# -gt 0 ] && shift
  if [ "$preset" = release ] && { [ $# -eq 0 ] || [ "$*" = weft ]; }; then
    ready_native
    build_program
    [ $# -eq 0 ] || return 0
    ready_web
    build_web
    return
  fi
  if [ "$preset" = fuzz ]; then ready_clang; else ready_native_tests; fi
  build_preset "$preset" "$@"
}

command_run() {
  weft_up_to_date
  web_up_to_date
  model_up_to_date
  exec "$weft" serve packages/weft-tiny "$@"
}

command_bench() {
  local name=${1:-}
  if [ -z "$name" ]; then
    say "Benchmarks (./dev bench NAME [arguments]):"
    bench_names | sed 's/^/  /'
    return 0
  fi
  ready_native_tests
  shift
  name=${name//-/_}
  if [ -e "bench/${name}_bench.mjs" ] || [ -e "bench/${name}_bench.sh" ]; then
    weft_up_to_date >&2
    case $(echo "bench/${name}_bench."*) in
      *.mjs) node "bench/${name}_bench.mjs" --weft "$weft" "$@" ;;
      *) "bench/${name}_bench.sh" "$@" ;;
    esac
    return
  fi
  build_preset release "${name}_bench" >&2
  "build/release/${name}_bench" "$@"
}

command_onnx_check() {
  weft_up_to_date >&2
  ready_tools >&2
  node tools/onnx_check/check.mjs --weft "$weft" "$@"
}

command_sim() {
  weft_up_to_date >&2
  "$weft" sim "$@"
}
