#include "grammar/code_points.h"

#include <algorithm>
#include <string>

#include "grammar/utf8.h"

namespace weft::grammar {
namespace {

// The last code points with one, two and three bytes.
constexpr uint32_t kLengthLimits[] = {0x7F, 0x7FF, 0xFFFF};

// Cuts [first, last] until every byte but those behind some place runs over all of its values. An
// example in decimal digits: 17 to 42 is 17-19, 20-39 and 40-42.
void Split(uint32_t first, uint32_t last, std::vector<ByteSequence>& out) {
  for (const uint32_t limit : kLengthLimits) {
    if (first > limit || last <= limit) continue;
    Split(first, limit, out);
    return Split(limit + 1, last, out);
  }
  const uint32_t continuation_bytes = last <= 0x7F ? 0 : last <= 0x7FF ? 1 : last <= 0xFFFF ? 2 : 3;
  for (uint32_t i = 1; i <= continuation_bytes; ++i) {
    const uint32_t low = (uint32_t{1} << (6 * i)) - 1;  // bits of the last i bytes
    if ((first & ~low) == (last & ~low)) continue;
    if ((first & low) != 0) {
      Split(first, first | low, out);
      return Split((first | low) + 1, last, out);
    }
    if ((last & low) != low) {
      Split(first, (last & ~low) - 1, out);
      return Split(last & ~low, last, out);
    }
  }
  std::string from, to;
  AppendUtf8(from, first);
  AppendUtf8(to, last);
  ByteSequence sequence;
  for (size_t i = 0; i < from.size(); ++i)
    sequence.push_back({static_cast<uint8_t>(from[i]), static_cast<uint8_t>(to[i])});
  out.push_back(std::move(sequence));
}

}  // namespace

void CodePointSet::Add(uint32_t first, uint32_t last) {
  last = std::min(last, kLastCodePoint);
  if (last < first) return;
  if (first <= kLastSurrogate && last >= kFirstSurrogate) {
    if (first < kFirstSurrogate) Add(first, kFirstSurrogate - 1);
    if (last > kLastSurrogate) Add(kLastSurrogate + 1, last);
    return;
  }
  // Those that overlap or touch it become one with it.
  const auto begin = std::ranges::partition_point(
      ranges_, [first](const CodePointRange& range) { return range.last + 1 < first; });
  auto end = begin;
  CodePointRange joined{first, last};
  for (; end != ranges_.end() && end->first <= last + 1; ++end) {
    joined.first = std::min(joined.first, end->first);
    joined.last = std::max(joined.last, end->last);
  }
  ranges_.insert(ranges_.erase(begin, end), joined);
}

void CodePointSet::Add(const CodePointSet& other) {
  for (const CodePointRange& range : other.ranges_) Add(range.first, range.last);
}

bool CodePointSet::Contains(uint32_t code_point) const {
  return std::ranges::any_of(ranges_, [code_point](const CodePointRange& range) {
    return range.first <= code_point && code_point <= range.last;
  });
}

CodePointSet CodePointSet::Complement() const {
  CodePointSet out;
  uint32_t next = 0;
  for (const CodePointRange& range : ranges_) {
    if (range.first > next) out.Add(next, range.first - 1);
    next = range.last + 1;
  }
  out.Add(next, kLastCodePoint);
  return out;
}

CodePointSet CodePointSet::Minus(const CodePointSet& other) const {
  CodePointSet outside = Complement();
  outside.Add(other);
  return outside.Complement();
}

std::vector<ByteSequence> Utf8Sequences(const CodePointSet& set) {
  std::vector<ByteSequence> out;
  for (const CodePointRange& range : set.ranges()) Split(range.first, range.last, out);
  return out;
}

}  // namespace weft::grammar
