#include "base/log.h"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/environment.h"
#include "base/log_budget.h"

namespace weft {
namespace {

// Of each level apart: a flood of one hides no line of another.
constexpr double kLinesPerSecond = 20;
constexpr double kBurstLines = 200;

// Standard error within a budget of lines, so that no client can fill a disk by being refused.
class LimitedSink : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    LogBudget& budget = budgets_.at(static_cast<size_t>(message.level));
    const LogBudget::Verdict verdict = budget.Take(MonotonicNow());
    if (!verdict.write) return;
    if (verdict.left_out > 0) {
      const std::string text = std::to_string(verdict.left_out) + " lines like these were left out";
      terminal_.log(spdlog::details::log_msg(message.logger_name, message.level, text));
    }
    terminal_.log(message);
  }
  void flush_() override { terminal_.flush(); }
  void set_pattern_(const std::string& pattern) override { terminal_.set_pattern(pattern); }
  void set_formatter_(std::unique_ptr<spdlog::formatter> formatter) override {
    terminal_.set_formatter(std::move(formatter));
  }

 private:
  spdlog::sinks::stderr_color_sink_mt terminal_{
      WantsPlainText(std::getenv) ? spdlog::color_mode::never : spdlog::color_mode::automatic};
  std::array<LogBudget, spdlog::level::n_levels> budgets_ = [] {
    std::array<LogBudget, spdlog::level::n_levels> budgets;
    budgets.fill(LogBudget(kLinesPerSecond, kBurstLines));
    return budgets;
  }();
};

}  // namespace

bool SetLogLevel(std::string_view level) {
  static const bool to_stderr = [] {
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("weft", std::make_shared<LimitedSink>()));
    spdlog::set_pattern("%H:%M:%S.%e %^%L%$ %v");
    return true;
  }();
  static_cast<void>(to_stderr);
  for (const auto known : {spdlog::level::err, spdlog::level::warn, spdlog::level::info}) {
    const std::string_view name = known == spdlog::level::err    ? "error"
                                  : known == spdlog::level::warn ? "warn"
                                                                 : "info";
    if (level != name) continue;
    spdlog::set_level(known);
    return true;
  }
  return false;
}

}  // namespace weft
