#include "text/stop_matcher.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace weft {
namespace {

struct Outcome {
  std::string text;
  std::string matched;
  bool operator==(const Outcome&) const = default;
};

Outcome Feed(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopMatcher matcher(stops);
  Outcome outcome;
  for (const std::string& piece : pieces) outcome.text += matcher.Push(piece);
  outcome.text += matcher.Flush();
  outcome.matched = matcher.matched();
  return outcome;
}

TEST(StopMatcher, CutsAtAStopStringAcrossPieces) {
  EXPECT_EQ(Feed({"END"}, {"some te", "xt E", "N", "D more"}), (Outcome{"some text ", "END"}));
  EXPECT_EQ(Feed({"\n\n"}, {"a\n", "b\n", "\nc"}), (Outcome{"a\nb", "\n\n"}));
  EXPECT_EQ(Feed({"aab"}, {"a", "a", "a", "b"}), (Outcome{"a", "aab"}));
  EXPECT_EQ(Feed({"stop", "op"}, {"non", "stop"}), (Outcome{"non", "stop"}));
  EXPECT_EQ(Feed({"日本"}, {"x日", "本y"}), (Outcome{"x", "日本"}));
  EXPECT_EQ(Feed({}, {"a", "b"}), (Outcome{"ab", ""}));
  EXPECT_EQ(Feed({""}, {"a", "b"}), (Outcome{"ab", ""}));
}

TEST(StopMatcher, HoldsBackOnlyWhatMayBecomeAStopString) {
  StopMatcher matcher({"<|end|>", "\nUser:"});
  EXPECT_EQ(matcher.Push("Hello"), "Hello");
  EXPECT_EQ(matcher.Push(" there\nUs"), " there");
  EXPECT_EQ(matcher.Push("ually"), "\nUsually");
  EXPECT_EQ(matcher.Push("<|"), "");
  EXPECT_EQ(matcher.Push("e"), "");
  EXPECT_FALSE(matcher.stopped());
  EXPECT_EQ(matcher.Flush(), "<|e");
  StopMatcher again({"ab"});
  EXPECT_EQ(again.Push("xaby"), "x");
  EXPECT_TRUE(again.stopped());
  EXPECT_EQ(again.Push("more"), "");
  EXPECT_EQ(again.Flush(), "");
}

TEST(StopMatcher, EqualsASearchInTheWholeText) {
  SeededRandom random(7);
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> stops(1 + random.Below(3));
    for (std::string& stop : stops) {
      for (uint64_t i = 0; i <= random.Below(4); ++i)
        stop.push_back(static_cast<char>('a' + random.Below(2)));
    }
    std::string whole;
    std::vector<std::string> pieces;
    for (uint64_t i = 0; i < 12; ++i) {
      pieces.emplace_back();
      for (uint64_t j = 0; j < random.Below(4); ++j)
        pieces.back().push_back(static_cast<char>('a' + random.Below(3)));
      whole += pieces.back();
    }
    // The stop string that ends first; of those that end together the longest.
    Outcome expected{whole, ""};
    for (size_t end = 1; end <= whole.size() && expected.matched.empty(); ++end) {
      for (const std::string& stop : stops) {
        if (stop.size() > expected.matched.size() &&
            std::string_view(whole).substr(0, end).ends_with(stop)) {
          expected = {whole.substr(0, end - stop.size()), stop};
        }
      }
    }
    EXPECT_EQ(Feed(stops, pieces), expected) << whole;
  }
}

TEST(StopMatcher, IsLinearInHostileText) {
  const std::string stop(1000, 'a');
  StopMatcher matcher({stop + "b", stop + "c"});
  std::string text;
  for (int i = 0; i < 1'000'000; ++i) text += matcher.Push("a");
  text += matcher.Flush();
  EXPECT_EQ(text.size(), 1'000'000u);
}

}  // namespace
}  // namespace weft
