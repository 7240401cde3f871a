// CHECK: our own bugs end the process with the place and a sentence, in every build.
// Nothing that a file, a user or a peer sends may reach a CHECK: those are Results (result.h).
#pragma once

#include <string_view>

namespace weft {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              std::string_view message);

}  // namespace weft

// CHECK(condition) or CHECK(condition, message); the message is only evaluated on failure.
#define CHECK(condition, ...)                                                               \
  do {                                                                                      \
    if (!(condition)) [[unlikely]]                                                          \
      ::weft::CheckFailed(__FILE__, __LINE__, #condition, ::std::string_view{__VA_ARGS__}); \
  } while (false)
