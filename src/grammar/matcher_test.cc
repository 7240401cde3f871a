#include "grammar/matcher.h"

#include <gmock/gmock.h>

#include <set>

#include "base/random.h"
#include "grammar/grammar_testing.h"

namespace weft::grammar {
namespace {

using testing::HasSubstr;

TEST(Matcher, SaysWhatMayComeNext) {
  const auto compiled = CompileGbnf(R"(root ::= "ab" ("c" | [x-z])+ "!"?)");
  ASSERT_TRUE(compiled.ok());
  Matcher matcher(*compiled);
  EXPECT_FALSE(matcher.CanEnd());
  EXPECT_EQ(matcher.BytesToEnd(), 3u);
  EXPECT_EQ(matcher.ForcedBytes(100), "ab");
  EXPECT_EQ(matcher.AcceptedBytes("abcq"), 3u);
  EXPECT_FALSE(matcher.Advance("abq"));
  EXPECT_TRUE(matcher.Advance("abc")) << "what was refused changed nothing";
  EXPECT_TRUE(matcher.CanEnd());
  EXPECT_EQ(matcher.ForcedBytes(100), "") << "it may end here";
  const Matcher copy = matcher;
  EXPECT_TRUE(matcher.Advance("!"));
  EXPECT_TRUE(matcher.IsOver());
  EXPECT_FALSE(copy.IsOver());
  EXPECT_EQ(copy.NextBytes().to_string().find('1') == std::string::npos, false);
  EXPECT_EQ(copy.NextBytes().count(), 5u) << "c, x, y, z and !";
}

TEST(Matcher, GoesThroughRulesThatCallThemselves) {
  const auto compiled = CompileGbnf(R"gbnf(root ::= "(" root ")" | "[" root "]" | "x")gbnf");
  ExpectMatches(compiled, {"x", "(x)", "([(x)])"});
  ExpectRefuses(compiled, {"", "(x", "(x]", "x)", "()"});
}

// Each "a" may want a "b", a "c" or nothing behind it: two to the 40 ways to be in the middle.
TEST(Matcher, WaysDoNotMultiply) {
  const auto compiled = CompileGbnf(R"(root ::= "a" root "b" | "a" root "c" | "a" root | "d")");
  ASSERT_TRUE(compiled.ok());
  Matcher matcher(*compiled);
  ASSERT_TRUE(matcher.Advance(std::string(40, 'a') + "d"));
  EXPECT_LT(matcher.places().items.size(), 200u);
  EXPECT_TRUE(matcher.Advance("bcbcbc"));
  EXPECT_TRUE(matcher.CanEnd());
  EXPECT_FALSE(matcher.Advance(std::string(35, 'b')));
  EXPECT_TRUE(matcher.Advance(std::string(34, 'b')));
}

// A rule that repeats itself at its end leaves nothing to come back to.
TEST(Matcher, RepetitionAtTheEndOfARuleTakesNoRoom) {
  const auto compiled = CompileGbnf(
      "root ::= list \".\"\nlist ::= item list | \"\"\n"
      "item ::= [a-z] | \"(\" item list \")\"");
  ASSERT_TRUE(compiled.ok());
  Matcher matcher(*compiled);
  for (int i = 0; i < 20'000; ++i) ASSERT_TRUE(matcher.Advance("a"));
  for (const Item& item : matcher.places().items) EXPECT_LE(item.frame->returns.size(), 2u);
  EXPECT_TRUE(matcher.Advance("(ab)."));
}

// Freed one after the other: a call for each would end the stack.
TEST(Matcher, NestsDeep) {
  const auto compiled = CompileGbnf(R"gbnf(root ::= "(" root ")" | "x")gbnf");
  ASSERT_TRUE(compiled.ok());
  Matcher matcher(*compiled);
  const std::string open(500'000, '(');
  ASSERT_TRUE(matcher.Advance(open));
  EXPECT_EQ(matcher.BytesToEnd(), 500'001u);
}

TEST(Matcher, RulesWithoutTextMayBeCalledAnywhere) {
  const auto compiled =
      CompileGbnf("root ::= s a s b s\ns ::= \" \"*\na ::= s \"a\"? s\nb ::= s (\"b\" a)* s");
  ExpectMatches(compiled, {"", " ", "a", "b", " a b ba b ", "bbb"});
  ExpectRefuses(compiled, {"aab", "ac"});
}

TEST(Matcher, RefusesWhatHasNoEnd) {
  EXPECT_THAT(ErrorOf(CompileGbnf("root ::= \"a\" root")), HasSubstr("'root' has no text at all"));
  EXPECT_THAT(ErrorOf(CompileGbnf("root ::= a\na ::= \"x\" b\nb ::= \"y\" a")),
              HasSubstr("no text at all"));
  EXPECT_THAT(ErrorOf(CompileGbnf("root ::= root \"a\" | \"b\"")), HasSubstr("left recursion"));
  EXPECT_THAT(ErrorOf(CompileGbnf("root ::= s a | \"b\"\na ::= root \"x\"\ns ::= \" \"?")),
              HasSubstr("left recursion"))
      << "over a rule that may be empty";
  EXPECT_THAT(ErrorOf(CompileGbnf("root ::= a")), HasSubstr("'a' is used but not defined"));
  // A way that does not end is left out where there is another one.
  const auto compiled = CompileGbnf("root ::= \"a\" | b\nb ::= \"b\" b");
  ExpectMatches(compiled, {"a"});
  Matcher matcher(*compiled);
  EXPECT_FALSE(matcher.Advance("b"));
}

TEST(Matcher, LargeGrammarsAreRefusedInTime) {
  std::string optional = "root ::= ";
  for (int i = 0; i < 20'000; ++i) optional += "a?";
  EXPECT_THAT(ErrorOf(CompileGbnf(optional.substr(0, 60'000))), HasSubstr("is used but not"));
  std::string optional_letters = "root ::= ";
  for (int i = 0; i < 12'000; ++i) optional_letters += "\"a\"?";
  EXPECT_THAT(ErrorOf(CompileGbnf(optional_letters)), HasSubstr("more than"));
  // Three million million letters are few states, since a part has a rule of its own.
  EXPECT_TRUE(CompileRegex("(((a{10000}){10000}){10000}b)?").ok());
  std::string letters;
  for (int i = 0; i < 1200; ++i) letters += "[a-z]{600}1";
  EXPECT_THAT(ErrorOf(CompileRegex(letters)), HasSubstr("more than 400000 states"));
  // The set of places where an "a" was, which is exponential as an automaton of one state a byte.
  const auto exponential = CompileRegex("[ab]*a[ab]{40}");
  ExpectMatches(exponential, {"a" + std::string(40, 'b')});
  ExpectRefuses(exponential, {"b" + std::string(40, 'b')});
}

// Grammars of a few rules, with all texts of up to six letters, against a parser that tries
// everything.
class Naive {
 public:
  Naive(const Rules& rules, std::string_view text) : rules_(rules), text_(text) {}

  std::set<size_t> Ends(ExprId id, size_t from, int depth) const {
    const Expr& expression = rules_.expression(id);
    std::set<size_t> ends;
    if (depth > 40) return ends;
    switch (expression.kind) {
      case Expr::Kind::kBytes:
        if (text_.substr(from).starts_with(expression.bytes))
          ends.insert(from + expression.bytes.size());
        return ends;
      case Expr::Kind::kSequence:
        ends = {from};
        for (const ExprId part : expression.parts) ends = Next(part, ends, depth);
        return ends;
      case Expr::Kind::kChoice:
        for (const ExprId part : expression.parts) ends.merge(Ends(part, from, depth + 1));
        return ends;
      case Expr::Kind::kRepeat: {
        std::set<size_t> at = {from};
        for (uint32_t i = 0; i <= expression.most && i < 9 && !at.empty(); ++i) {
          if (i >= expression.least) ends.insert(at.begin(), at.end());
          at = Next(expression.parts[0], at, depth);
        }
        return ends;
      }
      case Expr::Kind::kCall:
        return Ends(*rules_.rules()[expression.rule].body, from, depth + 1);
      default:
        return ends;
    }
  }

 private:
  std::set<size_t> Next(ExprId part, const std::set<size_t>& from, int depth) const {
    std::set<size_t> ends;
    for (const size_t at : from) ends.merge(Ends(part, at, depth + 1));
    return ends;
  }

  const Rules& rules_;
  std::string_view text_;
};

class RandomRules {
 public:
  explicit RandomRules(uint64_t seed) : random_(seed) {
    for (int i = 0; i < 4; ++i) rules_.Declare("r" + std::to_string(i), random_.Below(2) == 0);
    for (RuleId rule = 0; rule < 4; ++rule) rules_.Define(rule, Some(3));
  }
  const Rules& rules() const { return rules_; }

 private:
  ExprId Some(int depth) {
    const uint64_t kind = random_.Below(depth == 0 ? 2 : 7);
    std::vector<ExprId> parts;
    switch (kind) {
      case 0:
      case 1:
        return rules_.Bytes(
            std::string(random_.Below(3), static_cast<char>('a' + random_.Below(2))));
      case 2:
        return rules_.Call(static_cast<RuleId>(random_.Below(4)));
      case 3: {
        const auto least = static_cast<uint32_t>(random_.Below(2));
        const uint32_t most = random_.Below(3) == 0 ? kUnbounded : least + 1;
        return rules_.Repeat(Some(depth - 1), least, most);
      }
      default:
        for (uint64_t i = 0; i < 2 + random_.Below(2); ++i) parts.push_back(Some(depth - 1));
        return kind == 4 ? rules_.Choice(std::move(parts)) : rules_.Sequence(std::move(parts));
    }
  }

  SeededRandom random_;
  Rules rules_;
};

TEST(Matcher, AgreesWithTryingEverything) {
  size_t compiled_count = 0, matched = 0;
  for (uint64_t seed = 0; seed < 1200; ++seed) {
    const RandomRules random(seed);
    const auto compiled = Automaton::Compile(random.rules(), 0);
    if (!compiled.ok()) continue;  // left recursion, or no text
    ++compiled_count;
    for (uint32_t number = 0; number < 2 * 63 + 1; ++number) {
      // All texts of "a" and "b" with up to six letters: the digits of `number` behind its first 1.
      std::string text;
      for (uint32_t bits = number + 1; bits > 1; bits >>= 1) text += bits & 1 ? 'a' : 'b';
      const bool expected = Naive(random.rules(), text)
                                .Ends(*random.rules().rules()[0].body, 0, 0)
                                .contains(text.size());
      ASSERT_EQ(Matches(compiled, text), expected) << "seed " << seed << " text " << text;
      matched += expected;
    }
  }
  EXPECT_GT(compiled_count, 400u);
  EXPECT_GT(matched, 2000u);
}

// From wherever a text is, the shortest way to an end has as many bytes as it says.
TEST(Matcher, KnowsTheWayToTheEnd) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const RandomRules random(seed);
    const auto compiled = Automaton::Compile(random.rules(), 0);
    if (!compiled.ok()) continue;
    SeededRandom steps(seed);
    Matcher matcher(*compiled);
    for (int i = 0; i < 6 && !matcher.IsOver(); ++i) {
      Matcher shortest = matcher;
      for (uint32_t left = matcher.BytesToEnd(); left > 0; --left) {
        const std::bitset<256> next = shortest.NextBytes();
        bool found = false;
        for (const char c : {'a', 'b'}) {
          Matcher tried = shortest;
          if (found || !next[static_cast<uint8_t>(c)] || !tried.Advance({&c, 1})) continue;
          if (tried.BytesToEnd() + 1 != left) continue;
          shortest = tried;
          found = true;
        }
        ASSERT_TRUE(found) << seed;
      }
      ASSERT_TRUE(shortest.CanEnd()) << seed;
      const char c = static_cast<char>('a' + steps.Below(2));
      matcher.Advance({&c, 1});
    }
  }
}

}  // namespace
}  // namespace weft::grammar
