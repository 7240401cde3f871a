#include "apps/progress_line.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/bytes.h"
#include "base/environment.h"

namespace weft::apps {
namespace {

constexpr int kBarColumns = 28;

std::string TimeText(double seconds) {
  const auto whole = std::lround(seconds);
  if (whole < 120) return std::to_string(whole) + " s";
  return std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s";
}

}  // namespace

ProgressLine::ProgressLine(std::string verb, std::string unit)
    : verb_(std::move(verb)),
      unit_(std::move(unit)),
      is_terminal_(isatty(STDERR_FILENO) == 1 && EnvironmentValue(std::getenv, "TERM") != "dumb"),
      began_(MonotonicNow()),
      last_drawn_(began_) {}

void ProgressLine::Show(uint64_t done, uint64_t total, uint64_t fresh) {
  const Instant now = MonotonicNow();
  const Duration pause = is_terminal_ ? Milliseconds(100) : Seconds(5);
  if (now - last_drawn_ < pause || total == 0) return;
  last_drawn_ = now;
  drawn_ = true;
  const double share = static_cast<double>(done) / static_cast<double>(total);
  const double rate = static_cast<double>(fresh) / std::max(seconds(), 1e-3);
  const double left =
      static_cast<double>(total - done) / std::max(rate, unit_.empty() ? 1.0 : 1e-3);
  std::string figures = unit_.empty()
                            ? HumanBytes(done) + " of " + HumanBytes(total) + ", " +
                                  HumanBytes(static_cast<uint64_t>(rate)) + "/s"
                            : std::to_string(done) + " of " + std::to_string(total) + " " + unit_;
  figures += ", " + TimeText(left) + " left";
  if (!is_terminal_) {
    std::fprintf(stderr, "%s: %.0f%%, %s\n", verb_.c_str(), 100 * share, figures.c_str());
    return;
  }
  const auto filled = static_cast<int>(share * kBarColumns);
  const std::string bar = std::string(static_cast<size_t>(filled), '#') +
                          std::string(static_cast<size_t>(kBarColumns - filled), '.');
  std::fprintf(stderr, "\r%s [%s] %3.0f%% %s\x1b[K", verb_.c_str(), bar.c_str(), 100 * share,
               figures.c_str());
}

void ProgressLine::Finish() {
  if (is_terminal_ && std::exchange(drawn_, false)) std::fprintf(stderr, "\r\x1b[K");
}

}  // namespace weft::apps
