// Regular expressions, compared with those of PCRE2 where JavaScript's are the same.
#include "grammar/regex.h"

#include <gmock/gmock.h>

#include "base/random.h"
#include "grammar/grammar_testing.h"
#include "text/tokenizer/regex.h"

namespace weft::grammar {
namespace {

using testing::HasSubstr;

// An expression of letters that are few, so that random texts fit it now and then.
std::string RandomPattern(SeededRandom& random, int depth) {
  constexpr const char* kAtoms[] = {"a",    "b",     "1",      "\\d", "\\w",
                                    "[ab]", "[^a]",  "[a-c1]", ".",   "\\s",
                                    "\\W",  "\\x61", "[\\d-]", "\\.", "\\u0062"};
  std::string out;
  for (uint64_t i = 0; i <= random.Below(3); ++i) {
    if (depth > 0 && random.Below(3) == 0) {
      // Repeats of repeats without an end would keep the other side busy for years.
      constexpr const char* kFewRepeats[] = {"", "", "?", "{2}", "{0,2}"};
      out += (random.Below(2) == 0 ? "(" : "(?:") + RandomPattern(random, depth - 1) + "|" +
             RandomPattern(random, depth - 1) + ")" +
             kFewRepeats[random.Below(std::size(kFewRepeats))];
      continue;
    }
    constexpr const char* kRepeats[] = {"",    "",     "*",     "+",  "?",
                                        "{2}", "{1,}", "{0,2}", "*?", "{1,3}?"};
    out += kAtoms[random.Below(std::size(kAtoms))] +
           std::string(kRepeats[random.Below(std::size(kRepeats))]);
  }
  return out;
}

std::string RandomText(SeededRandom& random) {
  constexpr std::string_view kLetters = "aabb1c. -\n";
  std::string text;
  for (uint64_t i = random.Below(7); i > 0; --i) text += kLetters[random.Below(kLetters.size())];
  return text;
}

// Whether PCRE2 finds the expression anywhere in the text; nullopt where that takes too long.
std::optional<bool> Finds(RegexSearch& search, const std::string& text) {
  RegexSearch::Match match{};
  const auto found = search.Find(text, 0, match);
  return found.ok() ? std::optional(*found) : std::nullopt;
}

TEST(Regex, MatchesWhatJavaScriptsDo) {
  SeededRandom random(7);
  size_t matched = 0;
  for (int round = 0; round < 700; ++round) {
    const std::string pattern = RandomPattern(random, 2);
    const auto whole = ::weft::Regex::Compile("\\A(?:" + pattern + ")\\z");
    ASSERT_TRUE(whole.ok()) << pattern;
    RegexSearch search(*whole);
    const auto compiled = CompileRegex(pattern);
    ASSERT_TRUE(compiled.ok()) << pattern << " " << compiled.error().message();
    for (int i = 0; i < 30; ++i) {
      const std::string text = RandomText(random);
      const auto fits = Finds(search, text);
      if (!fits) continue;
      matched += *fits;
      ASSERT_EQ(Matches(compiled, text), *fits) << pattern << " and '" << text << "'";
    }
  }
  EXPECT_GT(matched, 2000u);
}

// As JSON Schema's patterns are looked for.
TEST(Regex, SearchesWhereNothingAnchorsIt) {
  SeededRandom random(8);
  size_t matched = 0;
  for (int round = 0; round < 600; ++round) {
    const std::string pattern = (random.Below(2) == 0 ? "^" : "") + RandomPattern(random, 1) +
                                (random.Below(2) == 0 ? "$" : "") + "|" + RandomPattern(random, 0) +
                                (random.Below(2) == 0 ? "$" : "");
    const auto anywhere = ::weft::Regex::Compile(pattern);
    ASSERT_TRUE(anywhere.ok()) << pattern;
    RegexSearch search(*anywhere);
    Rules rules;
    const auto body = AddRegex(pattern, {nullptr, true}, rules);
    ASSERT_TRUE(body.ok()) << pattern << body.error().message();
    const RuleId root = rules.Declare("root");
    rules.Define(root, *body);
    const auto compiled = Automaton::Compile(rules, root);
    for (int i = 0; i < 30; ++i) {
      std::string text = RandomText(random);
      std::erase(text, '\n');  // "^" and "$" stand beside a line's end there
      const auto fits = Finds(search, text);
      if (!fits) continue;
      matched += *fits;
      ASSERT_EQ(Matches(compiled, text), *fits) << pattern << " and '" << text << "'";
    }
  }
  EXPECT_GT(matched, 2000u);
}

TEST(Regex, KnowsCharactersBeyondAscii) {
  ExpectMatches(CompileRegex("[à-ü]+é\\u{1F600}."), {"ùéé😀€"});
  ExpectRefuses(CompileRegex("[à-ü]+"), {"a", "\xC3", "ÿ"});
  ExpectMatches(CompileRegex("\\s+"), {" \t\xC2\xA0\xE3\x80\x80"});
  ExpectRefuses(CompileRegex("."), {"\xE2\x80\xA8", "\n", "ab"});
}

TEST(Regex, RefusesWithThePlace) {
  const std::pair<const char*, const char*> kBad[] = {
      {"a(?=b)", "looks ahead or behind"},
      {"(?<=a)b", "looks ahead or behind"},
      {"(a)\\1", "refers to a group"},
      {"\\bword", "word boundary"},
      {"\\p{L}", "property of Unicode"},
      {"(a", "'(' that is not closed"},
      {"a)", "')' without a '('"},
      {"[a", "'[' that is not closed"},
      {"a**", "repeats a repeat"},
      {"*a", "without anything to repeat"},
      {"a{3,2}", "first number is the larger"},
      {"a{99999}", "repeats more than 16384 times"},
      {"a^b", "'^' in the middle"},
      {"a$b", "behind '$'"},
      {"(a$)", "'$' in a group"},
      {"[z-a]", "a range of characters that is none"},
      {"\\uD800", "names no character"},
      {"\\q", "an escape that it does not know"},
      {"a{,3}", "begins no repeat"},
      {"a\\", "ends with a backslash"}};
  for (const auto& [pattern, message] : kBad)
    EXPECT_THAT(ErrorOf(CompileRegex(pattern)), HasSubstr(message)) << pattern;
  EXPECT_THAT(ErrorOf(CompileRegex("ab(?!c)")), HasSubstr("at byte 2"));
  EXPECT_THAT(ErrorOf(CompileRegex(std::string(kMaxRegexBytes + 1, 'a'))),
              HasSubstr("the limit is 16384"));
  EXPECT_THAT(ErrorOf(CompileRegex(std::string(200, '(') + std::string(200, ')'))),
              HasSubstr("nested more than 100 deep"));
  EXPECT_THAT(ErrorOf(CompileRegex("\xFF")), HasSubstr("not valid UTF-8"));
  EXPECT_THAT(ErrorOf(CompileRegex("[]")), HasSubstr("no text at all"));
}

}  // namespace
}  // namespace weft::grammar
