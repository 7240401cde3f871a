#include "worker/fetch_queue.h"

#include <algorithm>

#include "base/check.h"

namespace weft::worker {

void FetchQueue::Add(uint32_t ticket, Urgency urgency, std::vector<uint32_t> layers) {
  const auto place = std::find_if(wants_.begin(), wants_.end(),
                                  [&](const Want& want) { return want.urgency > urgency; });
  wants_.insert(place, {ticket, urgency, std::move(layers)});
}

void FetchQueue::Drop(uint32_t ticket) {
  std::erase_if(wants_, [ticket](const Want& want) { return want.ticket == ticket; });
  if (served_ == ticket) served_.reset();
}

void FetchQueue::Clear() {
  wants_.clear();
  served_.reset();
}

std::optional<std::vector<uint32_t>> FetchQueue::Begin() {
  if (under_way_ || wants_.empty()) return std::nullopt;
  under_way_ = true;
  interrupting_ = false;
  served_ = wants_.front().ticket;
  return wants_.front().layers;
}

bool FetchQueue::TakeInterrupt() {
  if (!under_way_ || interrupting_) return false;
  // Whoever is first in the list and not the one that is served has overtaken it.
  interrupting_ = !served_ || wants_.front().ticket != *served_;
  return interrupting_;
}

void FetchQueue::LayerCame(uint32_t layer) {
  for (Want& want : wants_)
    if (want.ticket == served_) std::erase(want.layers, layer);
}

std::optional<uint32_t> FetchQueue::Ended(End end) {
  CHECK(under_way_);
  under_way_ = false;
  const std::optional<uint32_t> ticket = served_;
  served_.reset();
  // An interruption that nobody asked for is a failure of whoever fetches: it must not go round in
  // circles.
  if (!ticket || (end == End::kInterrupted && interrupting_)) return std::nullopt;
  Drop(*ticket);
  return ticket;
}

}  // namespace weft::worker
