# Language level, warnings, hardening (SECURITY.md) and sanitizers, for every target.
option(WEFT_FUZZ "Build the libFuzzer targets (needs clang)" OFF)
option(WEFT_UNITY "Compile several files of a folder at a time in release builds" ON)
# Other compilers warn of other things; whoever builds with them is not held up by that.
set(WEFT_WERROR_DEFAULT OFF)
if("${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}" MATCHES "^(GNU 12|Clang 14)\\.")
  set(WEFT_WERROR_DEFAULT ON)
endif()
option(WEFT_WERROR "Treat warnings as errors" ${WEFT_WERROR_DEFAULT})
set(WEFT_SANITIZE "" CACHE STRING "Value for -fsanitize, e.g. address,undefined")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
# Assertions stay on in every build: CHECK does not depend on NDEBUG, and assert() is kept too.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g")
if(WEFT_FUZZ OR WEFT_SANITIZE)
  # Enough for the lines of a sanitizer's report; variables take a quarter to a third of a
  # compiler's time.
  set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")
endif()
if(WEFT_FUZZ)
  # Code with sanitizers compiles in half the time unoptimised, and a target runs for seconds only.
  set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g1")
endif()

add_compile_options(-Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Wcast-qual
                    -Wno-missing-field-initializers -Wno-missing-braces)
if(WEFT_WERROR)
  add_compile_options(-Werror)
endif()
# Messages name files as the repository does, and two checkouts share what ccache keeps.
add_compile_options(-fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=)
# A compiler that collects its garbage less often is 2 to 9% faster, for up to half a gigabyte.
add_compile_options("$<$<CXX_COMPILER_ID:GNU>:SHELL:--param ggc-min-heapsize=524288>")
add_compile_options(-fstack-protector-strong -fno-math-errno -ffp-contract=off)
add_compile_definitions(_GLIBCXX_ASSERTIONS)
add_link_options(-pie -Wl,-z,relro,-z,now)
if(WEFT_SANITIZE)
  add_compile_options(-fsanitize=${WEFT_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${WEFT_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # It takes what the sanitizers add to a std::variant's move for reads of nothing.
    add_compile_options(-Wno-maybe-uninitialized)
  endif()
  if(WEFT_SANITIZE MATCHES thread AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    add_compile_options(-Wno-tsan) # asio's fences, which gcc's sanitizer does not know
  endif()
elseif(CMAKE_BUILD_TYPE STREQUAL "Release")
  add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
endif()
if(WEFT_FUZZ)
  # Kernels for one instruction set: each one more is minutes of compiling with sanitizers.
  add_compile_definitions(HWY_COMPILE_ONLY_STATIC)
  # What the sanitizer of undefined behaviour finds ends a target, as what the other one finds does.
  # Most of that sanitizer's code is left out: what null, freed and foreign memory does, the other
  # one finds. The preset asan-ubsan has all of it, under the unit tests.
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
                      -fno-sanitize=null,vptr,object-size,function
                      -fno-sanitize=alignment,vla-bound,pointer-overflow)
  add_link_options(-fsanitize=address,undefined)
endif()
find_program(WEFT_CCACHE ccache)
if(WEFT_CCACHE)
  # The settings and options are what ccache asks for where headers are precompiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros ${WEFT_CCACHE})
  add_compile_options("$<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>"
                      "$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>")
endif()
find_program(WEFT_LLD ld.lld)
if(WEFT_LLD)
  add_link_options(-fuse-ld=lld)
endif()
