#include "text/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace weft {

StopMatcher::StopMatcher(std::vector<std::string> stops) {
  for (std::string& stop : stops) {
    if (stop.empty()) continue;
    Progress progress;
    progress.fallback.assign(stop.size(), 0);
    for (size_t i = 1; i < stop.size(); ++i) {
      size_t length = progress.fallback[i - 1];
      while (length > 0 && stop[i] != stop[length]) length = progress.fallback[length - 1];
      progress.fallback[i] = stop[i] == stop[length] ? length + 1 : 0;
    }
    progress.stop = std::move(stop);
    progress_.push_back(std::move(progress));
  }
}

bool StopMatcher::Progress::Advance(char c) {
  while (matched_bytes > 0 && stop[matched_bytes] != c) matched_bytes = fallback[matched_bytes - 1];
  if (stop[matched_bytes] == c) ++matched_bytes;
  return matched_bytes == stop.size();
}

std::string StopMatcher::Push(std::string_view text) {
  if (stopped_) return {};
  for (size_t i = 0; i < text.size(); ++i) {
    const Progress* found = nullptr;
    for (Progress& progress : progress_) {
      // Of several that end here, the one that starts first takes the most text away.
      if (progress.Advance(text[i]) &&
          (found == nullptr || found->stop.size() < progress.stop.size())) {
        found = &progress;
      }
    }
    if (found == nullptr) continue;
    stopped_ = true;
    matched_ = found->stop;
    std::string ready = std::move(held_);
    ready += text.substr(0, i + 1);
    ready.resize(ready.size() - matched_.size());
    held_.clear();
    return ready;
  }
  held_ += text;
  size_t kept = 0;
  for (const Progress& progress : progress_) kept = std::max(kept, progress.matched_bytes);
  std::string ready = held_.substr(0, held_.size() - kept);
  held_.erase(0, ready.size());
  return ready;
}

std::string StopMatcher::Flush() {
  if (stopped_) return {};
  for (Progress& progress : progress_) progress.matched_bytes = 0;
  return std::exchange(held_, {});
}

}  // namespace weft
