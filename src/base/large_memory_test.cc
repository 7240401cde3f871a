#include "base/large_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace weft {
namespace {

constexpr size_t kBytes = size_t{6} << 20;

bool Are(const LargeMemory& memory, size_t begin, size_t end, uint8_t value) {
  return std::all_of(memory.data() + begin, memory.data() + end,
                     [value](uint8_t byte) { return byte == value; });
}

TEST(LargeMemory, GivesBackWholePagesAndNothingBesideThem) {
  const LargeMemory memory(kBytes);
  std::memset(memory.data(), 7, kBytes);
  const size_t begin = (size_t{1} << 20) + 5, end = (size_t{5} << 20) - 3;
  memory.GiveBack(begin, end);
  EXPECT_TRUE(Are(memory, 0, begin, 7));
  EXPECT_TRUE(Are(memory, end, kBytes, 7));
#if defined(__linux__)
  constexpr size_t kPage = size_t{64} << 10;  // no system has longer ones
  EXPECT_TRUE(Are(memory, begin + kPage, end - kPage, 0)) << "the pages are still there";
#endif
  std::memset(memory.data(), 9, kBytes);
  EXPECT_TRUE(Are(memory, 0, kBytes, 9)) << "it can be used again";
}

TEST(LargeMemory, LessThanAPageIsKept) {
  const LargeMemory memory(size_t{64} << 10);
  std::memset(memory.data(), 7, size_t{64} << 10);
  memory.GiveBack(1, 4095);
  memory.GiveBack(100, 100);
  EXPECT_TRUE(Are(memory, 0, size_t{64} << 10, 7));
}

}  // namespace
}  // namespace weft
