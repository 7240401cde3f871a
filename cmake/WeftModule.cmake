# weft_module(NAME DEPS modules... LIBS targets... TEST_LIBS targets... PROTOS files...
#             APART patterns... NOT_FUZZED patterns... FAST_TESTS WAITS)
#   src/NAME/*.cc except *_test.cc and main.cc -> library weft_NAME
#   src/NAME/*_test.cc                         -> program NAME_test, run by CTest
#   APART: files that a release build compiles alone (weft_unity); NOT_FUZZED: files that fuzz
#   targets do without.
#   FAST_TESTS: the tests themselves compute much (oracles in loops), so they are optimised.
#   WAITS: it waits for clients and disks and computes next to nothing. A release build optimises it
#   less: templates of Asio, Beast and CLI11 are a quarter of such a build.
# weft_program, weft_fuzz_targets (tests/fuzz/*.cc), weft_benchmarks (bench/*.cc).

# Who only builds weft needs no GoogleTest: without it there are no test programs.
find_package(GTest QUIET)
find_program(WEFT_NODE node REQUIRED)  # makes C++ of what files describe
# Tests find data by the repository's root. A header holds it, not an option of the compiler: so two
# checkouts share what ccache keeps of all files that do not ask for it.
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/gen/weft_source_dir.h
     CONTENT "#pragma once\n#define WEFT_SOURCE_DIR \"${CMAKE_SOURCE_DIR}\"\n" @ONLY)
set_property(GLOBAL PROPERTY WEFT_MODULES "")

# What most files include and no edit changes is parsed once for all libraries and once, with
# GoogleTest, for all test programs: it was a fifth of a build when every file did so. Files still
# include what they use: clang-tidy (the preset lint) reads them without this.
set(WEFT_COMMON_HEADERS <algorithm> <array> <charconv> <cmath> <filesystem> <functional> <map>
    <memory> <optional> <set> <span> <string> <string_view> <unordered_map> <variant> <vector>)

# The first library and the first test program have the headers; the others take them from there.
function(weft_precompile target first)
  if(target STREQUAL first)
    target_precompile_headers(${target} PRIVATE ${WEFT_COMMON_HEADERS} ${ARGN})
  else()
    target_precompile_headers(${target} REUSE_FROM ${first})
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # <string> switches these off for itself (in its header of character traits), but GCC 12 forgets
    # the pragmas of what it precompiles.
    target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow
                           -Wno-stringop-overread)
  endif()
endfunction()

# Sources of one folder are compiled several at a time: most of a compiler's time goes into headers
# that they share (a fifth to a third of a build from nothing). Files whose stem matches `apart` are
# compiled alone, because they name their own things as a neighbour does, or because they include
# themselves again and again for every vector unit. The presets debug and lint compile every file
# alone.
set(WEFT_UNITY_FILES 16)
function(weft_unity target apart)
  if(NOT WEFT_UNITY OR NOT (WEFT_FUZZ OR WEFT_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL "Release"))
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # Types of unnamed namespaces are those of a .cc file, also where another one includes it. GCC 12
  # takes a variant's move for a read of nothing where it sees many of them.
  target_compile_options(
    ${target} PRIVATE
    "$<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage;-Wno-maybe-uninitialized>")
  set(counts)
  foreach(source ${ARGN})
    get_filename_component(folder ${source} DIRECTORY)
    get_filename_component(stem ${source} NAME_WE)
    if(source MATCHES "\\.pb\\.cc$" OR stem MATCHES "^(.*_simd|${apart})$")
      continue()
    endif()
    # Relative: names of what is compiled are the same in any checkout, and ccache knows it again.
    file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR} ${folder})
    string(MAKE_C_IDENTIFIER ${folder} key)
    if(NOT DEFINED count_${key})
      set(count_${key} 0)
    endif()
    math(EXPR batch "${count_${key}} / ${WEFT_UNITY_FILES}")
    math(EXPR count_${key} "${count_${key}} + 1")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${key}_${batch})
  endforeach()
endfunction()

# Made where they are first asked for: what is optimised otherwise takes its precompiled headers
# from these. Of the definitions they have no more than the least of them.
function(weft_headers name)
  cmake_parse_arguments(ARG "" "" "OPTIONS;LIBS;HEADERS" ${ARGN})
  if(TARGET ${name})
    return()
  endif()
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/gen/${name}.cc CONTENT "")
  add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/gen/${name}.cc)
  target_link_libraries(${name} PRIVATE weft_base ${ARG_LIBS})
  target_compile_options(${name} PRIVATE ${ARG_OPTIONS})
  weft_precompile(${name} ${name} ${ARG_HEADERS})
endfunction()

function(weft_module name)
  cmake_parse_arguments(ARG "FAST_TESTS;WAITS" "" "DEPS;LIBS;TEST_LIBS;PROTOS;APART;NOT_FUZZED"
                        ${ARGN})
  list(JOIN ARG_APART "|" apart)
  set(directory ${CMAKE_SOURCE_DIR}/src/${name})
  file(GLOB sources CONFIGURE_DEPENDS ${directory}/*.cc ${directory}/*/*.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "(_test|/main)\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  if(WEFT_FUZZ AND ARG_NOT_FUZZED)
    list(JOIN ARG_NOT_FUZZED "|" not_fuzzed)
    list(FILTER sources EXCLUDE REGEX "/(${not_fuzzed})\\.cc$")
  endif()

  set(gen ${CMAKE_BINARY_DIR}/gen)
  list(TRANSFORM ARG_PROTOS PREPEND ${directory}/ OUTPUT_VARIABLE protos)
  set(generated)
  # Messages and C++ of the operations that a file describes (tools/ops).
  if(EXISTS ${directory}/ops.json)
    set(made ops.gen.h op_codec.gen.h op_rules.gen.h op_visits.gen.h)
    list(TRANSFORM made PREPEND ${gen}/${name}/)
    file(GLOB generator CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/ops/*.mjs)
    list(FILTER generator EXCLUDE REGEX "\\.test\\.mjs$")
    add_custom_command(
      OUTPUT ${made} ${gen}/${name}/ops.proto
      COMMAND ${WEFT_NODE} ${CMAKE_SOURCE_DIR}/tools/ops/generate.mjs cpp ${directory}/ops.json
              ${gen}/${name}
      DEPENDS ${directory}/ops.json ${generator})
    list(APPEND generated ${made})
    list(APPEND protos ${gen}/${name}/ops.proto)
  endif()
  foreach(proto ${protos})
    get_filename_component(stem ${proto} NAME_WE)
    set(out ${gen}/${name}/${stem}.pb)
    add_custom_command(
      OUTPUT ${out}.cc ${out}.h
      COMMAND ${CMAKE_COMMAND} -E make_directory ${gen}
      COMMAND protobuf::protoc --proto_path=${CMAKE_SOURCE_DIR}/src --proto_path=${gen}
              --cpp_out=${gen} ${proto}
      DEPENDS ${protos})
    set_source_files_properties(${out}.cc PROPERTIES COMPILE_OPTIONS "-w")
    list(APPEND generated ${out}.cc)
  endforeach()

  set(scope PUBLIC)
  if(sources OR generated)
    add_library(weft_${name} STATIC ${sources} ${generated})
    weft_unity(weft_${name} "${apart}" ${sources} ${generated})
    if(ARG_WAITS)
      target_compile_options(weft_${name} PRIVATE "$<$<CONFIG:Release>:-O1>")
      weft_headers(waiting_headers OPTIONS "$<$<CONFIG:Release>:-O1>")
      weft_precompile(weft_${name} waiting_headers)
    else()
      weft_precompile(weft_${name} weft_base)
    endif()
  else()
    add_library(weft_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(weft_${name} ${scope} ${CMAKE_SOURCE_DIR}/src)
  if(ARG_PROTOS)
    target_include_directories(weft_${name} SYSTEM ${scope} ${CMAKE_BINARY_DIR}/gen)
    target_link_libraries(weft_${name} ${scope} protobuf::libprotobuf)
  endif()
  list(TRANSFORM ARG_DEPS PREPEND weft_)
  target_link_libraries(weft_${name} ${scope} ${ARG_DEPS} ${ARG_LIBS})
  set_property(GLOBAL APPEND PROPERTY WEFT_MODULES weft_${name})

  if(tests AND GTest_FOUND AND NOT WEFT_FUZZ)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE weft_${name} GTest::gtest GTest::gmock
                          GTest::gtest_main ${ARG_TEST_LIBS})
    # The last -O and -g count: macros of tests are most of their code, nobody waits for them, and
    # what fails names its line itself. GCC takes the level from the precompiled headers, so each
    # level has its own.
    set(level -O0 -U_FORTIFY_SOURCE)
    set(headers_of base_test)
    if(ARG_FAST_TESTS)
      set(level -O1)
      set(headers_of fast_test_headers)
      # Compiled as the test programs are: executables, and not what libraries are made of.
      weft_headers(fast_test_headers
                   OPTIONS -fPIE "$<$<CONFIG:Release>:-O1;-g0>"
                   LIBS GTest::gtest GTest::gmock HEADERS <gmock/gmock.h> <gtest/gtest.h>)
      set_target_properties(fast_test_headers PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    endif()
    target_compile_options(${name}_test PRIVATE "$<$<CONFIG:Release>:${level};-g0>")
    target_include_directories(${name}_test SYSTEM PRIVATE ${CMAKE_BINARY_DIR}/gen)
    weft_precompile(${name}_test ${headers_of} <gmock/gmock.h> <gtest/gtest.h>)
    weft_unity(${name}_test "${apart}" ${tests})
    add_test(NAME ${name} COMMAND ${name}_test)
  endif()
endfunction()

function(weft_program name)
  cmake_parse_arguments(ARG "" "MAIN;MODULE" "" ${ARGN})
  if(WEFT_FUZZ OR NOT EXISTS ${CMAKE_SOURCE_DIR}/${ARG_MAIN})
    return()
  endif()
  add_executable(${name} ${ARG_MAIN})
  target_link_libraries(${name} PRIVATE weft_${ARG_MODULE})
  target_compile_options(${name} PRIVATE "$<$<CONFIG:Release>:-O1>")
endfunction()

# In any other build all targets are one program of tests, in which each has a name of its own.
function(weft_fuzz_replay)
  set(named)
  foreach(source ${ARGN})
    get_filename_component(stem ${source} NAME_WE)
    string(APPEND named " X(${stem})")
    set_source_files_properties(${source} PROPERTIES
                                COMPILE_DEFINITIONS LLVMFuzzerTestOneInput=${stem})
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/gen/fuzz_targets.h
       CONTENT "#pragma once\n#define WEFT_FUZZ_TARGETS(X)${named}\n" @ONLY)
  get_property(modules GLOBAL PROPERTY WEFT_MODULES)
  add_executable(fuzz_test ${ARGN} tests/fuzz/replay_test.cc)
  target_link_libraries(fuzz_test PRIVATE ${modules} GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_options(fuzz_test PRIVATE
                         "$<$<CONFIG:Release>:-O0;-U_FORTIFY_SOURCE;-g0>")
  target_include_directories(fuzz_test SYSTEM PRIVATE ${CMAKE_BINARY_DIR}/gen)
  weft_precompile(fuzz_test base_test)
  add_test(NAME fuzz COMMAND fuzz_test)
endfunction()

function(weft_fuzz_targets)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/fuzz/*_fuzz.cc)
  if(NOT WEFT_FUZZ)
    if(GTest_FOUND)
      weft_fuzz_replay(${sources})
    endif()
    return()
  endif()
  foreach(source ${sources})
    get_filename_component(stem ${source} NAME_WE)
    add_executable(${stem} ${source})
    # Only the modules that the target includes: a fuzz build compiles nothing else.
    file(STRINGS ${source} includes REGEX "^#include \"[a-z]+/")
    list(TRANSFORM includes REPLACE "^#include \"([a-z]+)/.*" "weft_\\1")
    list(REMOVE_DUPLICATES includes)
    target_link_libraries(${stem} PRIVATE ${includes})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
    target_link_options(${stem} PRIVATE -fsanitize=fuzzer)
  endforeach()
endfunction()

function(weft_benchmarks)
  find_package(benchmark QUIET)
  if(WEFT_FUZZ OR NOT benchmark_FOUND)
    return()
  endif()
  get_property(modules GLOBAL PROPERTY WEFT_MODULES)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/bench/*_bench.cc)
  foreach(source ${sources})
    get_filename_component(stem ${source} NAME_WE)
    add_executable(${stem} EXCLUDE_FROM_ALL ${source})
    target_link_libraries(${stem} PRIVATE ${modules} benchmark::benchmark)
  endforeach()
  # A device for benchmarks of servers.
  add_executable(hash_worker EXCLUDE_FROM_ALL bench/hash_worker.cc)
  target_link_libraries(hash_worker PRIVATE ${modules})
  # Lines that lose packets, for benchmarks of devices.
  add_executable(lossy_network EXCLUDE_FROM_ALL bench/lossy_network.cc)
  target_link_libraries(lossy_network PRIVATE weft_base)
endfunction()
