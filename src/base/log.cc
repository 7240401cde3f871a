#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

namespace weft {

bool SetLogLevel(std::string_view level) {
  static const bool to_stderr = [] {
    spdlog::set_default_logger(spdlog::stderr_color_mt("weft"));
    spdlog::set_pattern("%H:%M:%S.%e %^%L%$ %v");
    return true;
  }();
  static_cast<void>(to_stderr);
  for (const auto known :
       {spdlog::level::err, spdlog::level::warn, spdlog::level::info, spdlog::level::debug}) {
    const std::string_view name = known == spdlog::level::err    ? "error"
                                  : known == spdlog::level::warn ? "warn"
                                  : known == spdlog::level::info ? "info"
                                                                 : "debug";
    if (level != name) continue;
    spdlog::set_level(known);
    return true;
  }
  return false;
}

}  // namespace weft
