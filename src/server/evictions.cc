#include "server/evictions.h"

#include <algorithm>
#include <utility>

namespace weft::server {
namespace {

constexpr int64_t kMinuteUs = 60'000'000;

}  // namespace

uint64_t Evictions::Evict(Eviction eviction, Instant now) {
  Expire(now);
  std::erase_if(evictions_, [&](const Eviction& each) { return each.device == eviction.device; });
  if (evictions_.size() >= kMost) evictions_.erase(evictions_.begin());
  eviction.number = ++last_number_;
  eviction.until = now + kEvictionTime;
  evictions_.push_back(std::move(eviction));
  return last_number_;
}

bool Evictions::LetIn(uint64_t number, Instant now) {
  Expire(now);
  return std::erase_if(evictions_, [&](const Eviction& each) { return each.number == number; }) > 0;
}

std::optional<std::string> Evictions::Find(const std::string& device, Instant now) const {
  for (const Eviction& each : evictions_) {
    if (each.device != device || each.until <= now) continue;
    const int64_t minutes = ((each.until - now).us + kMinuteUs - 1) / kMinuteUs;
    return "The owner of this swarm has evicted this device. It may come back in " +
           std::to_string(minutes) + " min, or as soon as the owner lets it in.";
  }
  return std::nullopt;
}

const std::vector<Eviction>& Evictions::Current(Instant now) {
  Expire(now);
  return evictions_;
}

void Evictions::Expire(Instant now) {
  std::erase_if(evictions_, [&](const Eviction& each) { return each.until <= now; });
}

}  // namespace weft::server
