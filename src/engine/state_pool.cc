#include "engine/state_pool.h"

#include <algorithm>
#include <utility>

namespace weft::engine {

LargeMemory StatePool::Take(size_t byte_count) {
  const auto known = waiting_.find(byte_count);
  if (known == waiting_.end() || known->second.pages.empty()) return LargeMemory(byte_count);
  LargeMemory page = std::move(known->second.pages.back());
  known->second.pages.pop_back();
  return page;
}

void StatePool::GiveBack(LargeMemory page, size_t byte_count) {
  const auto known = waiting_.find(byte_count);
  if (known == waiting_.end() || known->second.pages.size() >= known->second.most) return;
  known->second.pages.push_back(std::move(page));
}

void StatePool::Keep(const Counts& most) {
  std::erase_if(waiting_, [&](const auto& entry) { return !most.contains(entry.first); });
  for (const auto& [byte_count, count] : most) {
    Waiting& waiting = waiting_[byte_count];
    waiting.most = count;
    waiting.pages.resize(std::min(waiting.pages.size(), count));
    waiting.pages.reserve(count);
  }
}

uint64_t StatePool::waiting_bytes() const {
  uint64_t bytes = 0;
  for (const auto& [byte_count, waiting] : waiting_) bytes += byte_count * waiting.pages.size();
  return bytes;
}

}  // namespace weft::engine
