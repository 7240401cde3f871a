// Tokenizers made up for one rule each, and files that are wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <thread>

#include "base/file.h"
#include "text/test_data.h"
#include "text/test_time.h"
#include "text/tokenizer/regex.h"
#include "text/tokenizer/tokenizer.h"

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A byte-level vocabulary of all 256 bytes' characters that JSON shows as they are, plus a few
// merges.
boost::json::object TinyFile() {
  boost::json::object vocab;
  int64_t id = 0;
  for (const char* token :
       {"a", "b", "c", "d", "Ġ", "Ġa", "ab", "abc", "Ċ", "Ã", "©", "ð", "Ł", "ł", "Ģ", "x"}) {
    vocab[token] = id++;
  }
  return {
      {"version", "1.0"},
      {"added_tokens", boost::json::array()},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"a b", "ab c", "Ġ a"}}}}};
}

boost::json::object Added(const char* content, int64_t id) {
  return {{"id", id},        {"content", content}, {"special", false},    {"normalized", false},
          {"lstrip", false}, {"rstrip", false},    {"single_word", false}};
}

Result<Tokenizer> Make(const boost::json::object& file) {
  return Tokenizer::FromJson(AsBytes(boost::json::serialize(file)));
}

std::vector<std::string> Tokens(const Tokenizer& tokenizer, std::string_view text,
                                bool parse_special = true) {
  const auto ids = tokenizer.Encode(text, false, parse_special);
  if (!ids.ok()) return {"ERROR " + ids.error().message()};
  std::vector<std::string> tokens;
  for (const int32_t id : *ids) tokens.emplace_back(tokenizer.TokenText(id));
  return tokens;
}

TEST(TokenizerRules, MergesByRankThenLeftmost) {
  const auto tokenizer = *Make(TinyFile());
  EXPECT_THAT(Tokens(tokenizer, "abcab a"), ElementsAre("abc", "ab", "Ġa"));
  EXPECT_THAT(Tokens(tokenizer, "aabb"), ElementsAre("a", "ab", "b"));
  EXPECT_EQ(tokenizer.vocab_count(), 16);
  EXPECT_EQ(tokenizer.TokenBytes(5), " a");
  EXPECT_EQ(tokenizer.TokenBytes(9), "\xC3");
  EXPECT_EQ(tokenizer.TokenId("abc"), 7);
  EXPECT_EQ(tokenizer.TokenText(99), "");
}

TEST(TokenizerRules, AddedTokensAndTheirFlags) {
  auto file = TinyFile();
  auto left = Added("<l>", 16);
  left["lstrip"] = true;
  auto right = Added("<r>", 17);
  right["rstrip"] = true;
  auto word = Added("xx", 18);
  word["single_word"] = true;
  auto special = Added("<s>", 19);
  special["special"] = true;
  file["added_tokens"] = {left, right, word, special, Added("<s><s>", 20)};
  const auto tokenizer = *Make(file);
  EXPECT_THAT(Tokens(tokenizer, "a  <l> b"), ElementsAre("a", "<l>", "Ġ", "b"));
  EXPECT_THAT(Tokens(tokenizer, "a <r> \n b"), ElementsAre("a", "Ġ", "<r>", "b"));
  EXPECT_THAT(Tokens(tokenizer, "a xx b"), ElementsAre("a", "Ġ", "xx", "Ġ", "b"));
  EXPECT_THAT(Tokens(tokenizer, "axx xxb"), ElementsAre("a", "x", "x", "Ġ", "x", "x", "b"));
  EXPECT_THAT(Tokens(tokenizer, "<s><s><s>"), ElementsAre("<s><s>", "<s>"));
  // Without special tokens their text is text; '<', 's' and '>' are not in this vocabulary and drop
  // out.
  EXPECT_THAT(Tokens(tokenizer, "a<s>b", false), ElementsAre("ab"));
  EXPECT_EQ(tokenizer.Decode(std::vector<int32_t>{0, 19, 1}, true), "ab");
  EXPECT_EQ(tokenizer.Decode(std::vector<int32_t>{0, 19, 1}, false), "a<s>b");
}

TEST(TokenizerRules, PostProcessorFramesTheText) {
  auto file = TinyFile();
  file["added_tokens"] = {Added("<s>", 16), Added("</s>", 17)};
  const auto special = [](const char* name) {
    return boost::json::value{{"SpecialToken", {{"id", name}, {"type_id", 0}}}};
  };
  const boost::json::value text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const boost::json::value framed = {
      {"type", "TemplateProcessing"},
      {"single", boost::json::array{special("<s>"), text, special("</s>")}},
      {"special_tokens", {{"<s>", {{"ids", {16}}}}, {"</s>", {{"ids", {17}}}}}}};
  file["post_processor"] = {{"type", "Sequence"},
                            {"processors", boost::json::array{{{"type", "ByteLevel"}}, framed}}};
  const auto tokenizer = *Make(file);
  EXPECT_THAT(*tokenizer.Encode("a", true), ElementsAre(16, 0, 17));
  EXPECT_THAT(*tokenizer.Encode("", true), ElementsAre(16, 17));
  EXPECT_THAT(*tokenizer.Encode("a", false), ElementsAre(0));
}

TEST(TokenizerRules, DetokeniserNeverGivesHalfACharacter) {
  const auto tokenizer = *Make(TinyFile());
  // é in two tokens, an emoji in four.
  Detokenizer detokenizer(tokenizer, true);
  EXPECT_EQ(detokenizer.Push(0), "a");
  EXPECT_EQ(detokenizer.Push(9), "");
  EXPECT_EQ(detokenizer.Push(10), "é");
  EXPECT_EQ(detokenizer.Push(11), "");
  EXPECT_EQ(detokenizer.Push(12), "");
  EXPECT_EQ(detokenizer.Push(13), "");
  EXPECT_EQ(detokenizer.Push(14), "\xF0\x9F\xA0\x80");
  // An incomplete one gives way to what follows, and to the end.
  EXPECT_EQ(detokenizer.Push(9), "");
  EXPECT_EQ(detokenizer.Push(0), "\uFFFDa");
  EXPECT_EQ(detokenizer.Push(11), "");
  EXPECT_EQ(detokenizer.Push(-5), "");
  EXPECT_EQ(detokenizer.Push(1 << 30), "");
  EXPECT_EQ(detokenizer.Flush(), "\uFFFD");
  EXPECT_EQ(tokenizer.Decode(std::vector<int32_t>{11, 12, 9, 10, 14}, false), "\uFFFDé\uFFFD");
}

TEST(TokenizerRules, DetokeniserCanContinueAText) {
  const auto folder = TestDataFolder() / "stories260K";
  WEFT_NEED_DATA(folder);
  const auto tokenizer = *Tokenizer::FromJson(AsBytes(*ReadTextFile(folder / "tokenizer.json")));
  const auto ids = *tokenizer.Encode("time", false);
  Detokenizer alone(tokenizer, true);
  Detokenizer continued(tokenizer, true, true);
  std::string a;
  std::string b;
  for (const int32_t id : ids) {
    a += alone.Push(id);
    b += continued.Push(id);
  }
  EXPECT_EQ(a + alone.Flush(), "time");
  EXPECT_EQ(b + continued.Flush(), " time");
}

TEST(TokenizerRules, NormalizersAndPreTokenizers) {
  const auto pieces = [](boost::json::value normalizer, boost::json::value pre, const char* text) {
    auto file = TinyFile();
    file["normalizer"] = std::move(normalizer);
    file["pre_tokenizer"] = std::move(pre);
    const auto tokenizer = Make(file);
    return tokenizer.ok() ? Tokens(*tokenizer, text)
                          : std::vector<std::string>{tokenizer.error().message()};
  };
  const auto split = [](const char* behavior, bool invert = false) {
    return boost::json::value{{"type", "Split"},
                              {"pattern", {{"String", "b"}}},
                              {"behavior", behavior},
                              {"invert", invert}};
  };
  // Pieces do not merge across cuts: "ab" stays together only where nothing cuts it.
  EXPECT_THAT(pieces(nullptr, split("Isolated"), "abab"), ElementsAre("a", "b", "a", "b"));
  EXPECT_THAT(pieces(nullptr, split("Removed"), "abab"), ElementsAre("a", "a"));
  EXPECT_THAT(pieces(nullptr, split("Removed", true), "abab"), ElementsAre("b", "b"));
  EXPECT_THAT(pieces(nullptr, split("MergedWithPrevious"), "abab"), ElementsAre("ab", "ab"));
  EXPECT_THAT(pieces(nullptr, split("MergedWithNext"), "abcab"),
              ElementsAre("a", "b", "c", "a", "b"));
  EXPECT_THAT(
      pieces({{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}}, nullptr, " \tabc\n"),
      ElementsAre("abc"));
  EXPECT_THAT(pieces({{"type", "Lowercase"}}, nullptr, "ABC"), ElementsAre("abc"));
  EXPECT_THAT(
      pieces({{"type", "Sequence"},
              {"normalizers", boost::json::array{{{"type", "NFD"}}, {{"type", "StripAccents"}}}}},
             nullptr, "áb\u0323c"),
      ElementsAre("abc"));
  EXPECT_THAT(pieces({{"type", "Replace"}, {"pattern", {{"Regex", "x+"}}}, {"content", "a"}},
                     nullptr, "xxxbc"),
              ElementsAre("abc"));
  EXPECT_THAT(pieces({{"type", "NFKC"}}, nullptr, "ａｂｃ"), ElementsAre("abc"));
  // Many marks out of order: sorted in n log n, not n squared.
  std::string marks = "x";
  for (int i = 0; i < 100'000; ++i) marks += i % 2 == 0 ? "\u0301" : "\u0323";
  EXPECT_EQ(pieces({{"type", "NFC"}}, nullptr, marks.c_str()).size(), 1u);
}

TEST(TokenizerRules, AnyThreadMayEncode) {
  const auto folder = TestDataFolder() / "tokenizers" / "gpt2";
  WEFT_NEED_DATA(folder);
  const auto tokenizer = *Tokenizer::FromJson(AsBytes(*ReadTextFile(folder / "tokenizer.json")));
  const std::string text = "Several threads share one tokenizer; none of them locks. 12345 café";
  const auto expected = *tokenizer.Encode(text, true);
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 200; ++j) {
        EXPECT_EQ(*tokenizer.Encode(text, true), expected);
        EXPECT_EQ(tokenizer.Decode(expected, true), text);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// ---- files and texts that are wrong ----

using File = boost::json::object;
using List = boost::json::array;

// What loading a file says after a change.
template <typename Change>
std::string FaultAfter(Change change) {
  auto file = TinyFile();
  change(file);
  const auto tokenizer = Make(file);
  return tokenizer.ok() ? "ok" : tokenizer.error().message();
}

TEST(TokenizerFaults, ModelsNameTheirField) {
  const auto message = [](auto change) { return FaultAfter(change); };
  const auto model = [](File& file) -> File& { return file["model"].as_object(); };
  EXPECT_EQ(message([](File&) {}), "ok");
  EXPECT_THAT(message([](File& f) { f.erase("model"); }),
              HasSubstr("model must be an object, but is missing"));
  EXPECT_THAT(message([&](File& f) { model(f).erase("vocab"); }), HasSubstr("model.vocab"));
  EXPECT_THAT(message([&](File& f) { model(f).erase("merges"); }),
              HasSubstr("model.merges must be an array, but is missing"));
  EXPECT_THAT(message([&](File& f) { model(f)["merges"] = List{"a"}; }), HasSubstr("merges[0]"));
  EXPECT_THAT(message([&](File& f) { model(f)["merges"] = List{"a q"}; }), HasSubstr("\"q\""));
  EXPECT_THAT(message([&](File& f) { model(f)["merges"] = List{"b b"}; }), HasSubstr("\"bb\""));
  EXPECT_THAT(message([&](File& f) {
                model(f)["merges"] = {{"a", "b", "c"}};
              }),
              HasSubstr("merges[0]"));
  EXPECT_THAT(message([&](File& f) { model(f)["type"] = "WordPiece"; }), HasSubstr("WordPiece"));
  EXPECT_THAT(message([&](File& f) { model(f)["unk_token"] = "nope"; }), HasSubstr("unk_token"));
  EXPECT_THAT(message([&](File& f) { model(f)["end_of_word_suffix"] = "</w>"; }),
              HasSubstr("end_of_word_suffix"));
  EXPECT_THAT(message([&](File& f) { model(f)["vocab"].as_object()["a"] = -1; }),
              HasSubstr("id -1"));
  EXPECT_THAT(message([&](File& f) { model(f)["vocab"].as_object()["a"] = 2000000000; }),
              HasSubstr("id 2000000000"));
  EXPECT_THAT(message([&](File& f) { model(f)["vocab"].as_object()["a"] = UINT64_MAX; }),
              HasSubstr("no integer"));
  EXPECT_THAT(message([&](File& f) { model(f)["vocab"].as_object()["a"] = 1.5; }),
              HasSubstr("no integer"));
  EXPECT_THAT(message([&](File& f) { model(f)["vocab"].as_object()["a"] = 1; }),
              HasSubstr("two tokens"));
}

TEST(TokenizerFaults, OtherSectionsNameTheirField) {
  const auto message = [](auto change) { return FaultAfter(change); };
  EXPECT_THAT(
      message([](File& f) { f["added_tokens"] = {Added(std::string(5000, 'x').c_str(), 20)}; }),
      HasSubstr("5000 bytes"));
  EXPECT_THAT(message([](File& f) { f["added_tokens"] = {Added("<a>", -7)}; }),
              HasSubstr("id is -7"));
  EXPECT_THAT(message([](File& f) { f["added_tokens"] = {Added("<a>", 1ll << 40)}; }),
              HasSubstr("id is"));
  EXPECT_THAT(message([](File& f) {
                f["normalizer"] = {{"type", "BertNormalizer"}};
              }),
              HasSubstr("BertNormalizer"));
  EXPECT_THAT(message([](File& f) {
                f["pre_tokenizer"] = {{"type", "Nonsense"}};
              }),
              HasSubstr("Nonsense"));
  EXPECT_THAT(message([](File& f) { f["pre_tokenizer"] = "x"; }),
              HasSubstr("pre_tokenizer must be an object"));
  EXPECT_THAT(message([](File& f) { f["decoder"] = {{"type", "CTC"}}; }), HasSubstr("CTC"));
  EXPECT_THAT(message([](File& f) { f["post_processor"] = {{"type", "Odd"}}; }), HasSubstr("Odd"));
  EXPECT_THAT(message([](File& f) {
                f["pre_tokenizer"] = {
                    {"type", "Split"}, {"pattern", {{"Regex", "(a"}}}, {"behavior", "Isolated"}};
              }),
              HasSubstr("does not compile"));
  EXPECT_THAT(
      message([](File& f) {
        f["post_processor"] = {{"type", "BertProcessing"}, {"cls", {"x", 999}}, {"sep", {"y", 1}}};
      }),
      HasSubstr("0 to 15"));
  EXPECT_THAT(message([](File& f) {
                boost::json::value deep = {{"type", "NFC"}};
                for (int i = 0; i < 20; ++i)
                  deep = {{"type", "Sequence"}, {"normalizers", boost::json::array{deep}}};
                f["normalizer"] = deep;
              }),
              HasSubstr("levels deep"));
}

TEST(TokenizerFaults, BrokenJson) {
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("{\"model\": 1}"),
        std::string(100'000, '['),
        std::string("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"\xff\": 1}}}"),
        std::string("{} trailing"), std::string("\0\0\0", 3)}) {
    const auto tokenizer = Tokenizer::FromJson(AsBytes(text));
    ASSERT_FALSE(tokenizer.ok()) << text.substr(0, 40);
    EXPECT_EQ(tokenizer.error().code(), ErrorCode::kInvalidData);
  }
}

TEST(TokenizerFaults, BadTextIsRefused) {
  const auto tokenizer = *Make(TinyFile());
  for (const char* text :
       {"a\xff", "\xC3", "\xED\xA0\x80", "\xC0\xAF", "\xF4\x90\x80\x80", "a\x80"}) {
    const auto ids = tokenizer.Encode(text, false);
    ASSERT_FALSE(ids.ok()) << text;
    EXPECT_EQ(ids.error().code(), ErrorCode::kInvalidArgument);
  }
  EXPECT_FALSE(tokenizer.Encode(std::string(Tokenizer::kMaxTextBytes + 1, 'a'), false).ok());
  EXPECT_TRUE(tokenizer.Encode(std::string("a\0b", 3), false).ok());
}

// It was found again and again at the same place, for ever.
TEST(TokenizerFaults, AMetaspaceWithoutReplacementIsRefused) {
  auto file = TinyFile();
  file["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", ""}, {"split", true}};
  const auto tokenizer = Make(file);
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_THAT(tokenizer.error().ToString(), HasSubstr("replacement"));
}

TEST(TokenizerFaults, CatastrophicExpressionsGiveUp) {
  auto file = TinyFile();
  file["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", {{"Regex", "(a+)+$x|(a|aa)+$y"}}}, {"behavior", "Isolated"}};
  const auto tokenizer = *Make(file);
  const double start = ThreadSeconds();
  const auto ids = tokenizer.Encode(std::string(5000, 'a') + "b", false);
  const double seconds = ThreadSeconds() - start;
  ASSERT_FALSE(ids.ok());
  EXPECT_THAT(ids.error().message(), HasSubstr("gave up"));
  EXPECT_LT(seconds, 5 * kTimeLimitFactor);
}

TEST(Regex, TranslatesOnigurumasSpelling) {
  const auto translated = [](const char* pattern) {
    const auto result = TranslateOniguruma(pattern);
    return result.ok() ? *result : "ERROR " + result.error().message();
  };
  EXPECT_EQ(translated(R"(\p{L}+|\h{,3})"), R"(\p{L}+|[0-9A-Fa-f]{0,3})");
  EXPECT_EQ(translated("a{1,3}+b"), "(?:a{1,3})+b");
  EXPECT_EQ(translated("(?:xy){2}+"), "(?:(?:xy){2})+");
  EXPECT_EQ(translated("[a&&[^b]]"), "(?:(?=[^b])[a])");
  EXPECT_EQ(translated("a{x}"), "a\\{x}");
  EXPECT_EQ(translated("[]a]"), "[]a]");
  EXPECT_EQ(translated("\\u4e00"), "\\x{4e00}");
  EXPECT_EQ(translated("[a[bc]d]e"), "[abcd]e");
  EXPECT_EQ(translated("[^(\\H|[.,!?])]+"), "(?:(?![^0-9A-Fa-f])[^(|.,!?)])+");
  EXPECT_EQ(translated("[a[^bc]]"), "(?:[a]|[^bc])");
  EXPECT_EQ(translated("[a[b&&c]]"), "(?:[a]|(?:(?=[c])[b]))");
  EXPECT_EQ(translated("[^b&&c]"), "(?:(?!(?:(?=[c])[b]))[\\s\\S])");
  EXPECT_EQ(translated("[[:^digit:]x]"), "(?:[x]|[^\\p{Nd}])");
  EXPECT_EQ(translated("\\p{Other Letter}\\P{alpha}\\p{^Lu}\\pL"),
            "\\p{Lo}[^\\p{Alphabetic}]\\P{Lu}\\pL");
  EXPECT_THAT(translated("[[:alfa:]]"), HasSubstr("[:alfa:]"));
  EXPECT_THAT(translated("[a"), HasSubstr("closing bracket"));
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "[a&&";
  EXPECT_THAT(translated(deep.c_str()), HasSubstr("ERROR"));
  EXPECT_FALSE(Regex::Compile(std::string(100'000, 'a')).ok());
  EXPECT_FALSE(Regex::Compile(std::string(1000, '(')).ok());
}

TEST(Regex, WhiteSpaceIsUnicodes) {
  const auto regex = *Regex::Compile(R"(\s+)");
  const auto matches = [&](std::string_view text) {
    RegexSearch search(regex);
    RegexSearch::Match match{};
    return *search.Find(text, 0, match) && match.begin == 0 && match.end == text.size();
  };
  EXPECT_TRUE(matches(" \t\n\v\f\r\u0085\u00A0\u1680\u2000\u200A\u2028\u2029\u202F\u205F\u3000"));
  for (const char* other : {"\u180E", "\u200B", "\uFEFF", "a"}) EXPECT_FALSE(matches(other));
}

}  // namespace
}  // namespace weft
