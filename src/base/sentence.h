// Sentences of errors from texts and numbers, without a stream or a format string.
#pragma once

#include <string>
#include <type_traits>

namespace weft {

// The parts joined: Sentence("The frame has ", 3, " rows.").
template <typename... Parts>
std::string Sentence(const Parts&... parts) {
  std::string out;
  const auto append = [&out](const auto& part) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(part)>>) {
      out += std::to_string(part);
    } else {
      out += part;
    }
  };
  (append(parts), ...);
  return out;
}

}  // namespace weft
