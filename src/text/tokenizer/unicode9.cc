#include "text/tokenizer/unicode9.h"

#include <algorithm>
#include <utility>

#include "text/utf8.h"

namespace weft {

// Age above 9.0 in DerivedAge.txt of Unicode 17, of marks and of characters with a decomposition in
// UnicodeData.txt; neighbours are one range where no older mark, decomposition or part of a
// composition lies between them.
bool IsPlainInUnicode9(uint32_t code_point) {
  static constexpr std::pair<uint32_t, uint32_t> kRanges[] = {
      {0x07FD, 0x07FD},   {0x0897, 0x08D3},   {0x09FE, 0x09FE},   {0x0AFA, 0x0AFF},
      {0x0B55, 0x0B55},   {0x0C04, 0x0C3C},   {0x0CF3, 0x0D00},   {0x0D3B, 0x0D3C},
      {0x0D81, 0x0D81},   {0x0EBA, 0x0EBA},   {0x0ECE, 0x0ECE},   {0x1715, 0x1715},
      {0x180F, 0x180F},   {0x1ABF, 0x1AEB},   {0x1CF7, 0x1CF7},   {0x1DF6, 0x1DFA},
      {0x32FF, 0x32FF},   {0xA7F1, 0xA7F4},   {0xA82C, 0xA82C},   {0xA8FF, 0xA8FF},
      {0xAB69, 0xAB69},   {0x105C9, 0x107BA}, {0x10D24, 0x10F85}, {0x11070, 0x11074},
      {0x110C2, 0x110C2}, {0x11145, 0x11146}, {0x111C9, 0x111C9}, {0x111CE, 0x111CF},
      {0x11241, 0x11241}, {0x1133B, 0x1133B}, {0x11383, 0x113E2}, {0x1145E, 0x1145E},
      {0x1182C, 0x11B67}, {0x11D31, 0x1612F}, {0x16D68, 0x16F4F}, {0x16F7F, 0x16F87},
      {0x16FE4, 0x16FF1}, {0x1CCD6, 0x1CF46}, {0x1E030, 0x1E6F5}, {0x1F16C, 0x1F16C},
      {0x1FBF0, 0x1FBF9}};
  if (code_point < kRanges[0].first) return false;
  const auto* after =
      std::upper_bound(std::begin(kRanges), std::end(kRanges), code_point,
                       [](uint32_t c, const auto& range) { return c < range.first; });
  return code_point <= std::prev(after)->second;
}

bool IsMarkInUnicode9(uint32_t code_point) {
  // Vedic signs that are letters since version 12.
  if (code_point == 0x1CF2 || code_point == 0x1CF3) return true;
  return utf8::IsMark(code_point) && !IsPlainInUnicode9(code_point);
}

}  // namespace weft
