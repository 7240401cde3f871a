#include "grammar/text_without.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "grammar/grammar_testing.h"

namespace weft::grammar {
namespace {

using Make = ExprId (*)(std::string_view, Rules&);

Compiled Of(Make make, std::string_view marker) {
  Rules rules;
  const RuleId root = rules.Declare("root");
  rules.Define(root, make(marker, rules));
  return Automaton::Compile(rules, root);
}

TEST(TextWithout, EndsWhereTheMarkerWouldBe) {
  const Compiled without = Of(TextWithout, "</p>");
  ExpectMatches(without, {"", "a < b", "</", "<</p", "< /p>", "Zürich"});
  ExpectRefuses(without, {"</p>", "a</p>b", "<</p>"});
}

TEST(TextUpTo, HasTheMarkerOnce) {
  const Compiled up_to = Of(TextUpTo, "</p>");
  ExpectMatches(up_to, {"</p>", "a < b</p>", "<</p>", "<</</p>", "\n\xE2\x82\xAC</p>"});
  ExpectRefuses(up_to, {"", "a", "</p", "</p></p>", "</p>a", "\xFF</p>"});
}

// Against looking for the marker, with letters that are few enough for every kind of overlap.
TEST(TextUpTo, IsWhatFindSays) {
  std::mt19937 random(5);
  for (const std::string marker :
       {"a", "aa", "ab", "aab", "abab", "aabaaab", "abcabd", "ü\xE2\x96\x81ü"}) {
    const Compiled without = Of(TextWithout, marker), up_to = Of(TextUpTo, marker);
    const std::vector<std::string> letters = {"a", "b", "c", "d", "ü", "\xE2\x96\x81"};
    for (int i = 0; i < 400; ++i) {
      std::string text;
      for (uint32_t n = random() % 12; n > 0; --n) text += letters[random() % letters.size()];
      if (i % 2 == 0) text += marker;
      const size_t found = text.find(marker);
      EXPECT_EQ(Matches(without, text), found == std::string::npos) << marker << " " << text;
      EXPECT_EQ(Matches(up_to, text),
                found != std::string::npos && found + marker.size() == text.size())
          << marker << " " << text;
    }
  }
}

}  // namespace
}  // namespace weft::grammar
