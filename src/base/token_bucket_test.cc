#include "base/token_bucket.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(TokenBucket, GivesWhatItHasAtOnceAndThenAsItFills) {
  const Instant start{0};
  TokenBucket bucket(3, 2, start);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(bucket.Take(start));
  EXPECT_FALSE(bucket.Take(start));
  EXPECT_FALSE(bucket.Take(start + Milliseconds(499)));
  EXPECT_TRUE(bucket.Take(start + Milliseconds(501)));
  EXPECT_FALSE(bucket.Take(start + Milliseconds(502)));
  EXPECT_TRUE(bucket.Take(start + Seconds(100), 3)) << "full, and no fuller";
  EXPECT_FALSE(bucket.Take(start + Seconds(100)));
}

TEST(TokenBucket, WhatIsRefusedCostsNothing) {
  const Instant start{0};
  TokenBucket bucket(10, 1, start);
  EXPECT_FALSE(bucket.Take(start, 11));
  EXPECT_TRUE(bucket.Take(start, 10));
}

}  // namespace
}  // namespace weft
