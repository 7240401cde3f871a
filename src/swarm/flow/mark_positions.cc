#include "swarm/flow/mark_positions.h"

#include <algorithm>

namespace weft::swarm {

std::set<uint32_t> MarkPositions(const Request& request, uint32_t prefix,
                                 const std::set<uint32_t>& earlier) {
  std::set<uint32_t> marks(earlier.begin(), earlier.upper_bound(prefix));
  const uint32_t below = marks.empty() ? 0 : *marks.rbegin();
  const auto size = static_cast<uint32_t>(request.prompt_ids.size());
  std::set<uint32_t> wanted(request.marks.begin(), request.marks.end());
  if (wanted.empty()) wanted.insert(size - 1);
  for (uint32_t at = kMarkInterval; at < size; at += kMarkInterval) wanted.insert(at);
  wanted.erase(wanted.begin(), wanted.upper_bound(prefix));
  wanted.erase(wanted.lower_bound(size), wanted.end());
  // Other chats with the same system prompt begin there, be this one's message ever so short.
  if (below == 0 && !request.marks.empty()) {
    const uint32_t first = *std::ranges::min_element(request.marks);
    if (first >= kLeastMarkGap && wanted.contains(first)) marks.insert(first);
  }
  uint32_t above = UINT32_MAX;
  for (auto at = wanted.rbegin(); at != wanted.rend() && *at - below >= kLeastMarkGap; ++at) {
    if (above - *at < kLeastMarkGap) continue;
    marks.insert(*at);
    above = *at;
  }
  return marks;
}

}  // namespace weft::swarm
