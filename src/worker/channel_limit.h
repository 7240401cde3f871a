// ChannelLimit: how often hubs may offer channels (wire/tensor_channel.h). Each has this device
// send up to 160 probes in a second. So hubs that offer one after the other would have it fill
// other people's lines. A hub offers anew when nothing of several exchanges came, and 2 to 30 s
// after a channel failed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

#include "base/token_bucket.h"

namespace weft::worker {

class ChannelLimit {
 public:
  static constexpr size_t kMostHubs = 16;  // that may have one at a time

  // Whether this hub's channel is taken. It then counts.
  bool Take(Instant now, uint32_t hub) {
    if (hubs_.size() > kMostHubs)
      hubs_.erase(std::min_element(hubs_.begin(), hubs_.end(), [](const auto& a, const auto& b) {
        return a.second.last_asked_at() < b.second.last_asked_at();
      }));
    TokenBucket& own = hubs_.try_emplace(hub, kOwn, kOwnPerS, now).first->second;
    if (!all_) all_.emplace(kAll, kAllPerS, now);
    return own.Take(now) && all_->Take(now);
  }

 private:
  static constexpr double kOwn = 4, kOwnPerS = 0.1;
  static constexpr double kAll = 16, kAllPerS = 0.5;
  std::map<uint32_t, TokenBucket> hubs_;
  std::optional<TokenBucket> all_;
};

}  // namespace weft::worker
