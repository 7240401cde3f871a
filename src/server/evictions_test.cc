#include "server/evictions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft::server {
namespace {

using testing::HasSubstr;

constexpr Instant kNow{1'000'000};

Eviction Of(const std::string& device) {
  return {.device = device, .name = "Heron", .kind = "native", .address = "192.0.2.7", .until = {}};
}

TEST(Evictions, KeepADeviceOutForAnHour) {
  Evictions evictions;
  evictions.Evict(Of("a"), kNow);
  ASSERT_TRUE(evictions.Find("a", kNow));
  EXPECT_THAT(*evictions.Find("a", kNow), HasSubstr("It may come back in 60 min"));
  EXPECT_THAT(*evictions.Find("a", kNow + Seconds(3599)), HasSubstr("It may come back in 1 min"));
  EXPECT_FALSE(evictions.Find("a", kNow + Seconds(3600)));
  EXPECT_FALSE(evictions.Find("b", kNow));
  EXPECT_TRUE(evictions.Current(kNow + Seconds(3600)).empty());
}

TEST(Evictions, EndWhenTheOwnerLetsItIn) {
  Evictions evictions;
  const uint64_t first = evictions.Evict(Of("a"), kNow);
  const uint64_t second = evictions.Evict(Of("b"), kNow);
  EXPECT_FALSE(evictions.LetIn(second + 1, kNow));
  EXPECT_TRUE(evictions.LetIn(first, kNow));
  EXPECT_FALSE(evictions.LetIn(first, kNow)) << "it is in already";
  EXPECT_FALSE(evictions.Find("a", kNow));
  EXPECT_TRUE(evictions.Find("b", kNow));
  EXPECT_FALSE(evictions.LetIn(second, kNow + Seconds(3600))) << "its time is over";
}

TEST(Evictions, OfOneDeviceCountTheLast) {
  Evictions evictions;
  const uint64_t first = evictions.Evict(Of("a"), kNow);
  evictions.Evict(Of("b"), kNow + Seconds(1));
  const uint64_t again = evictions.Evict(Of("a"), kNow + Seconds(1800));
  EXPECT_NE(first, again);
  EXPECT_TRUE(evictions.Find("a", kNow + Seconds(3700)));
  const auto current = evictions.Current(kNow + Seconds(1800));
  ASSERT_EQ(current.size(), 2U);
  EXPECT_EQ(current[0].device, "b");
  EXPECT_EQ(current[1].device, "a");
  EXPECT_EQ(current[1].name, "Heron");
}

TEST(Evictions, AreSoManyAtMost) {
  Evictions evictions;
  for (size_t i = 0; i <= Evictions::kMost; ++i) evictions.Evict(Of(std::to_string(i)), kNow);
  EXPECT_EQ(evictions.Current(kNow).size(), Evictions::kMost);
  EXPECT_FALSE(evictions.Find("0", kNow)) << "it would have come back first";
  EXPECT_TRUE(evictions.Find("1", kNow));
}

}  // namespace
}  // namespace weft::server
