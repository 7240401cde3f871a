#include "grammar/token_masks.h"

#include <gmock/gmock.h>

#include "base/random.h"
#include "grammar/grammar_testing.h"

namespace weft::grammar {
namespace {

// Pieces as vocabularies of JSON-speaking models have them, half characters among them.
std::vector<std::string> Vocabulary(size_t count, uint64_t seed) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  const char* const pieces[] = {"\"",  "\",", "\": ",     "{",    "}",    "{\"",  "\"}",  "}]",
                                "], ", " ",   "\n",       "  ",   "true", "null", "name", "a",
                                "b",   "the", "1",        "23",   "\\",   "\\n",  ".",    ",",
                                "-",   "é",   "\xE2\x82", "\xAC", "x\"",  ":",    "e",    "id"};
  SeededRandom random(seed);
  while (tokens.size() < count) {
    std::string token;
    for (uint64_t i = 0; i <= random.Below(4); ++i)
      token += pieces[random.Below(std::size(pieces))];
    tokens.push_back(token);
  }
  tokens[300] = "";           // no text
  tokens[301] = tokens[302];  // two of the same bytes
  return tokens;
}

constexpr int32_t kEnd = 400;

Compiled SomeGrammar(int which) {
  switch (which) {
    case 0:
      return SchemaOf(R"({"type":"object","properties":{"name":{"type":"string"},"a":{"type":
          "array","items":{"type":"number"}},"id":{"anyOf":[{"type":"null"},{"$ref":"#"}]}},
          "required":["name"]})");
    case 1:
      return CompileAnyObject();
    case 2:
      return CompileGbnf("root ::= [a-z]+ (\" \" [a-z]+)* \".\"?");
    case 3:
      return CompileGbnf(
          R"(root ::= "{" root "}" | "{" root "]" | "[" root "]" root | "1" | "23")");
    default:
      return CompileRegex("(é|€|a){2,9}\"?[^x]*");
  }
}

TEST(TokenMasks, AreThoseTokensThatTheGrammarGoesOnTo) {
  const auto trie = std::make_shared<TokenTrie>(Vocabulary(1500, 5), std::vector<int32_t>{kEnd});
  SeededRandom random(6);
  size_t allowed = 0;
  for (int which = 0; which < 5; ++which) {
    const auto compiled = SomeGrammar(which);
    ASSERT_TRUE(compiled.ok()) << compiled.error().message();
    TokenMasks masks(*compiled, trie);
    for (int walk = 0; walk < 6; ++walk) {
      Matcher matcher(*compiled);
      for (int step = 0; step < 40; ++step) {
        const TokenMask mask = masks.Mask(matcher);
        for (int32_t id = 0; id < 1500; ++id) {
          const bool fits = id == kEnd
                                ? matcher.CanEnd()
                                : !trie->bytes(id).empty() && matcher.Accepts(trie->bytes(id));
          ASSERT_EQ(mask.Has(id), fits) << which << " token '" << trie->bytes(id) << "'";
          ASSERT_EQ(masks.Allows(matcher, id), fits);
        }
        const std::vector<int32_t> ids = mask.Ids();
        ASSERT_EQ(ids.size(), mask.Count());
        allowed += ids.size();
        if (ids.empty()) {
          EXPECT_TRUE(matcher.IsOver());
          break;
        }
        const int32_t chosen = ids[random.Below(ids.size())];
        if (chosen == kEnd) break;
        ASSERT_TRUE(matcher.Advance(trie->bytes(chosen)));
      }
    }
  }
  EXPECT_GT(allowed, 10'000u);
}

TEST(TokenMasks, EndsAreAllowedWhereTheTextMayEnd) {
  const auto trie = std::make_shared<TokenTrie>(std::vector<std::string>{"a", "b", "</s>", "ab"},
                                                std::vector<int32_t>{2, 77});
  const auto compiled = CompileChoice({"a", "ab"});
  TokenMasks masks(*compiled, trie);
  Matcher matcher(*compiled);
  EXPECT_THAT(masks.Mask(matcher).Ids(), testing::ElementsAre(0, 3));
  EXPECT_FALSE(masks.Allows(matcher, 2));
  ASSERT_TRUE(matcher.Advance("a"));
  EXPECT_THAT(masks.Mask(matcher).Ids(), testing::ElementsAre(1, 2));
  EXPECT_TRUE(masks.Allows(matcher, 2));
  EXPECT_FALSE(masks.Allows(matcher, -1));
  EXPECT_FALSE(masks.Allows(matcher, 1'000'000));
}

TEST(TokenTrie, IsEveryTokenOnce) {
  const std::vector<std::string> tokens = Vocabulary(2000, 9);
  const TokenTrie trie(tokens, {kEnd});
  std::vector<std::string> found(tokens.size());
  std::string path;
  const auto nodes = trie.nodes();
  for (uint32_t at = 0; at < nodes.size(); ++at) {
    path.resize(nodes[at].depth - 1u);
    path.push_back(static_cast<char>(nodes[at].byte));
    ASSERT_GT(nodes[at].subtree_end, at);
    for (const int32_t id : trie.ids(at)) {
      EXPECT_EQ(found[static_cast<size_t>(id)], "");
      found[static_cast<size_t>(id)] = path;
    }
  }
  for (size_t id = 0; id < tokens.size(); ++id) EXPECT_EQ(found[id], id == kEnd ? "" : tokens[id]);
}

}  // namespace
}  // namespace weft::grammar
