#include "base/log.h"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/environment.h"
#include "base/log_budget.h"
#include "base/log_line.h"

namespace weft {
namespace {

// Of each level apart: a flood of one hides no line of another.
constexpr double kLinesPerSecond = 20;
constexpr double kBurstLines = 200;

constexpr char kPattern[] = "%H:%M:%S.%e %^%L%$ %v";

// The logger of lines whose text is fields already, and that of those which are never left out.
constexpr char kFieldsLogger[] = "fields";
constexpr char kWholeLogger[] = "whole";

std::atomic<bool> is_json = false;

bool IsOfFields(std::string_view logger) {
  return logger == kFieldsLogger || logger == kWholeLogger;
}

// One object a line.
class JsonFormatter : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    const auto since_1970 = message.time.time_since_epoch();
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(since_1970).count();
    const std::string_view text(message.payload.data(), message.payload.size());
    const std::string_view logger(message.logger_name.data(), message.logger_name.size());
    const auto level = spdlog::level::to_string_view(message.level);
    std::string object = "{\"time\":\"" + IsoTime(ms) + "\",\"level\":\"";
    object.append(level.data(), level.size());
    object += IsOfFields(logger) ? "\",\"event\":" + std::string(text)
                                 : "\",\"event\":\"log\",\"message\":" + QuotedForJson(text);
    object += "}\n";
    line.append(object.data(), object.data() + object.size());
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>();
  }

 private:
  // "2027-01-09T14:05:09.120Z"
  static std::string IsoTime(int64_t unix_ms) {
    const std::time_t seconds = unix_ms / 1000;
    std::tm utc{};
    gmtime_r(&seconds, &utc);
    char text[40];
    const size_t length = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
    const std::string ms = std::to_string(1000 + unix_ms % 1000);
    return std::string(text, length) + "." + ms.substr(1) + "Z";
  }
};

// Standard error within a budget of lines, so that no client can fill a disk by being refused.
class LimitedSink : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::string_view logger(message.logger_name.data(), message.logger_name.size());
    if (logger == kWholeLogger) return terminal_.log(message);
    LogBudget& budget = budgets_.at(static_cast<size_t>(message.level));
    const LogBudget::Verdict verdict = budget.Take(MonotonicNow());
    if (!verdict.write) return;
    if (verdict.left_out > 0) {
      const std::string text = std::to_string(verdict.left_out) + " lines like these were left out";
      terminal_.log(spdlog::details::log_msg("weft", message.level, text));
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

// All loggers write to this one, in the same form.
const std::shared_ptr<LimitedSink>& Sink() {
  static const auto sink = [] {
    auto made = std::make_shared<LimitedSink>();
    made->set_pattern(kPattern);
    return made;
  }();
  return sink;
}

std::string TextOf(const LogField& field, bool as_json) {
  if (const auto* text = std::get_if<std::string>(&field.value))
    return as_json ? QuotedForJson(*text) : *text;
  if (const auto* count = std::get_if<uint64_t>(&field.value)) return std::to_string(*count);
  char digits[32];
  std::snprintf(digits, sizeof(digits), "%.3f", std::get<double>(field.value));
  return digits;
}

}  // namespace

bool SetLogFormat(std::string_view format) {
  if (format != "text" && format != "json") return false;
  is_json = format == "json";
  if (is_json)
    Sink()->set_formatter(std::make_unique<JsonFormatter>());
  else
    Sink()->set_pattern(kPattern);
  return true;
}

std::string QuotedForJson(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte < 0x20 || byte == 0x7f) {
      quoted += {'\\', 'u', '0', '0', kDigits[byte >> 4], kDigits[byte & 15]};
      continue;
    }
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

void LogLine(std::string_view event, const std::vector<LogField>& fields, bool may_be_left_out) {
  if (!spdlog::default_logger_raw()->should_log(spdlog::level::info)) return;
  static spdlog::logger limited(kFieldsLogger, Sink()), whole(kWholeLogger, Sink());
  const bool as_json = is_json;
  std::string text = as_json ? QuotedForJson(event) : std::string(event);
  for (const LogField& field : fields) {
    text += as_json ? "," + QuotedForJson(field.name) + ":" : " " + field.name + "=";
    text += TextOf(field, as_json);
  }
  // As an argument: what strangers send is no format.
  (may_be_left_out ? limited : whole).info("{}", text);
}

bool SetLogLevel(std::string_view level) {
  static const bool to_stderr = [] {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("weft", Sink()));
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
