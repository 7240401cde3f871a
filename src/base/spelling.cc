#include "base/spelling.h"

#include <algorithm>
#include <vector>

namespace weft {
namespace {

// Names are short; whatever else is asked for is no slip of a finger.
constexpr size_t kLongestName = 200;

char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// Optimal string alignment distance: rows of the table are prefixes of `a`, columns those of `b`.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = Lower(a[i - 1]) == Lower(b[j - 1]);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && Lower(a[i - 1]) == Lower(b[j - 2]) &&
                           Lower(a[i - 2]) == Lower(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

}  // namespace

std::string NearestName(std::string_view text, std::span<const std::string> candidates) {
  std::string nearest;
  size_t least = 0;
  if (text.empty() || text.size() > kLongestName) return nearest;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kLongestName) continue;
    const size_t distance = Distance(text, candidate);
    if (distance * 3 > std::max(text.size(), candidate.size())) continue;
    if (!nearest.empty() && distance >= least) continue;
    nearest = candidate;
    least = distance;
  }
  return nearest;
}

std::string DidYouMean(std::string_view text, std::span<const std::string> candidates) {
  const std::string nearest = NearestName(text, candidates);
  return nearest.empty() ? "" : " Did you mean '" + nearest + "'?";
}

}  // namespace weft
