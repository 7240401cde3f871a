#include "grammar/matcher.h"

#include <algorithm>
#include <utility>

namespace weft::grammar {

Matcher::Matcher(std::shared_ptr<const Automaton> automaton)
    : automaton_(std::move(automaton)), stepper_(std::make_shared<Stepper>(*automaton_)) {
  stepper_->Begin(places_);
}

bool Matcher::Advance(std::string_view bytes) {
  Items at = places_, next;
  for (const char byte : bytes) {
    stepper_->Step(at, static_cast<uint8_t>(byte), next);
    if (next.is_dead()) return false;
    std::swap(at, next);
  }
  places_ = std::move(at);
  return true;
}

size_t Matcher::AcceptedBytes(std::string_view bytes) const {
  Items buffers[2];
  const Items* at = &places_;
  for (size_t i = 0; i < bytes.size(); ++i) {
    Items& next = buffers[i % 2];
    stepper_->Step(*at, static_cast<uint8_t>(bytes[i]), next);
    if (next.is_dead()) return i;
    at = &next;
  }
  return bytes.size();
}

std::bitset<256> Matcher::NextBytes() const {
  std::bitset<256> next;
  for (const Item& item : places_.items)
    for (const Automaton::Edge& edge : automaton_->edges(item.state))
      for (uint32_t byte = edge.first; byte <= edge.last; ++byte) next.set(byte);
  return next;
}

std::string Matcher::ForcedBytes(size_t most_bytes) const {
  std::string forced;
  Matcher ahead = *this;
  while (forced.size() < most_bytes && !ahead.CanEnd()) {
    const std::bitset<256> next = ahead.NextBytes();
    if (next.count() != 1) break;
    const auto byte = static_cast<char>(next._Find_first());
    ahead.Advance({&byte, 1});
    forced.push_back(byte);
  }
  return forced;
}

uint32_t Matcher::BytesToEnd() const {
  uint64_t least = places_.at_end ? 0 : kUnbounded;
  for (const Item& item : places_.items)
    least =
        std::min(least, uint64_t{automaton_->bytes_to_end(item.state)} + item.frame->bytes_to_end);
  return static_cast<uint32_t>(std::min<uint64_t>(least, kUnbounded));
}

}  // namespace weft::grammar
