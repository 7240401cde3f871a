// Structured lines on stderr (spdlog underneath). Never prompt or answer text: ids, counts and
// times only.
//   LogInfo("worker {} joined, offers {}", name, HumanBytes(offer));
#pragma once

#include <spdlog/spdlog.h>

#include <string_view>
#include <utility>

namespace weft {

// level: "error", "warn" or "info"; false when it is none of these.
bool SetLogLevel(std::string_view level);

template <typename... Args>
void LogError(spdlog::format_string_t<Args...> format, Args&&... args) {
  spdlog::error(format, std::forward<Args>(args)...);
}
template <typename... Args>
void LogWarn(spdlog::format_string_t<Args...> format, Args&&... args) {
  spdlog::warn(format, std::forward<Args>(args)...);
}
template <typename... Args>
void LogInfo(spdlog::format_string_t<Args...> format, Args&&... args) {
  spdlog::info(format, std::forward<Args>(args)...);
}

}  // namespace weft
