#include "base/strong_id.h"

#include <concepts>
#include <set>
#include <sstream>
#include <type_traits>
#include <unordered_set>

#include <gtest/gtest.h>

namespace weft {
namespace {

using ShelfId = StrongId<struct ShelfTag>;
using BookId = StrongId<struct BookTag>;
using PageId = StrongId<struct PageTag, uint64_t>;

// What the type is for: none of these compiles by accident.
static_assert(!std::convertible_to<uint32_t, ShelfId>);
static_assert(!std::convertible_to<ShelfId, uint32_t>);
static_assert(!std::constructible_from<ShelfId, BookId>);
static_assert(!std::assignable_from<ShelfId&, BookId>);
static_assert(!std::assignable_from<ShelfId&, uint32_t>);
static_assert(!std::equality_comparable_with<ShelfId, BookId>);
static_assert(!std::equality_comparable_with<ShelfId, uint32_t>);

// It costs nothing.
static_assert(sizeof(ShelfId) == sizeof(uint32_t) && sizeof(PageId) == sizeof(uint64_t));
static_assert(std::is_trivially_copyable_v<ShelfId>);

TEST(StrongId, NamesNothingUntilItIsGiven) {
  EXPECT_FALSE(ShelfId().is_set());
  EXPECT_EQ(ShelfId(), ShelfId(0));
  EXPECT_TRUE(ShelfId(7).is_set());
  EXPECT_EQ(ShelfId(7).value(), 7u);
}

TEST(StrongId, ALiteralMayStandForIt) {
  ShelfId shelf = 7;
  EXPECT_EQ(shelf, ShelfId(7));
  shelf = 9;
  EXPECT_TRUE(shelf == 9 && shelf != 7);
  EXPECT_EQ(shelf++, ShelfId(9));
  EXPECT_EQ(++shelf, ShelfId(11));
}

TEST(StrongId, IsOrderedAsItsValue) {
  EXPECT_LT(ShelfId(9), ShelfId(10));
  EXPECT_GE(ShelfId(10), ShelfId(10));
  EXPECT_NE(ShelfId(9), ShelfId(10));
  EXPECT_EQ(ShelfId(9).Next(), ShelfId(10));
  EXPECT_EQ(*std::set<ShelfId>({ShelfId(3), ShelfId(1), ShelfId(2)}).begin(), ShelfId(1));
}

TEST(StrongId, IsAKeyOfHashedContainers) {
  const std::unordered_set<ShelfId> shelves = {ShelfId(1), ShelfId(2), ShelfId(1)};
  EXPECT_EQ(shelves.size(), 2u);
  EXPECT_TRUE(shelves.contains(ShelfId(2)));
  EXPECT_FALSE(shelves.contains(ShelfId(3)));
}

TEST(StrongId, IsWrittenAsItsValue) {
  EXPECT_EQ(ToString(ShelfId(4294967295u)), "4294967295");
  EXPECT_EQ(ToString(PageId(uint64_t{1} << 40)), "1099511627776");
  std::ostringstream out;
  out << BookId(12);
  EXPECT_EQ(out.str(), "12");
}

}  // namespace
}  // namespace weft
