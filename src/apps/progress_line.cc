#include "apps/progress_line.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>

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

ProgressLine::ProgressLine(std::string verb)
    : verb_(std::move(verb)),
      is_terminal_(isatty(STDERR_FILENO) == 1 && EnvironmentValue(std::getenv, "TERM") != "dumb"),
      began_(MonotonicNow()),
      last_drawn_(began_) {}

void ProgressLine::Show(uint64_t done_bytes, uint64_t total_bytes, uint64_t fresh_bytes) {
  const Instant now = MonotonicNow();
  const Duration pause = is_terminal_ ? Milliseconds(100) : Seconds(5);
  if (now - last_drawn_ < pause || total_bytes == 0) return;
  last_drawn_ = now;
  drawn_ = true;
  const double share = static_cast<double>(done_bytes) / static_cast<double>(total_bytes);
  const double rate = static_cast<double>(fresh_bytes) / std::max(seconds(), 1e-3);
  const double left = static_cast<double>(total_bytes - done_bytes) / std::max(rate, 1.0);
  const std::string figures = HumanBytes(done_bytes) + " of " + HumanBytes(total_bytes) + ", " +
                              HumanBytes(static_cast<uint64_t>(rate)) + "/s, " + TimeText(left) +
                              " left";
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
  if (is_terminal_ && drawn_) std::fprintf(stderr, "\r\x1b[K");
}

}  // namespace weft::apps
