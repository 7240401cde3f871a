// Which name somebody meant, and when nobody can tell.
#include "base/spelling.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

const std::vector<std::string> kNames = {"maths", "physics", "art"};

TEST(Spelling, FindsWhatAFewSlipsOfAFingerMake) {
  for (const char* text : {"maths", "math", "mathss", "mahts", "MATHS"})
    EXPECT_EQ(NearestName(text, kNames), "maths") << text;
  EXPECT_EQ(NearestName("phisics", kNames), "physics");
  EXPECT_EQ(NearestName("rat", kNames), "art");
}

TEST(Spelling, GuessesNothingFromAfar) {
  for (const char* text : {"", "history", "m", "philosophy", "xyz"})
    EXPECT_EQ(NearestName(text, kNames), "") << text;
  EXPECT_EQ(NearestName(std::string(100'000, 'm'), kNames), "");
  EXPECT_EQ(NearestName("maths", {}), "");
}

TEST(Spelling, AsksInASentence) {
  EXPECT_EQ(DidYouMean("math", kNames), " Did you mean 'maths'?");
  EXPECT_EQ(DidYouMean("history", kNames), "");
}

}  // namespace
}  // namespace weft
