// Tokenizers against ids of the Hugging Face tokenizers library (expected.json) and of
// @huggingface/tokenizers (tools/text_oracle), on real vocabularies.
#include "text/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cstdio>
#include <thread>

#include "base/file.h"
#include "text/test_data.h"
#include "text/test_time.h"

namespace weft {
namespace {

Tokenizer Load(const std::filesystem::path& path) {
  const auto file = ReadTextFile(path);
  CHECK(file.ok(), file.ok() ? "" : file.error().ToString());
  auto tokenizer = Tokenizer::FromJson(AsBytes(*file));
  CHECK(tokenizer.ok(), tokenizer.ok() ? "" : tokenizer.error().ToString());
  return *std::move(tokenizer);
}

boost::json::value LoadJson(const std::filesystem::path& path) {
  return boost::json::parse(*ReadTextFile(path));
}

std::vector<int32_t> Ids(const boost::json::value& value) {
  return boost::json::value_to<std::vector<int32_t>>(value);
}

// Pushes ids one by one; every part must be whole characters.
std::string Stream(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool skip_special) {
  Detokenizer detokenizer(tokenizer, skip_special);
  std::string text;
  for (const int32_t id : ids) {
    const std::string part = detokenizer.Push(id);
    EXPECT_NO_THROW(boost::json::parse(boost::json::serialize(boost::json::string(part))));
    text += part;
  }
  return text + detokenizer.Flush();
}

class ExpectedIds : public testing::TestWithParam<const char*> {};

TEST_P(ExpectedIds, EqualHuggingFace) {
  const auto folder = TestDataFolder() / "tokenizers" / GetParam();
  WEFT_NEED_DATA(folder);
  const Tokenizer tokenizer = Load(folder / "tokenizer.json");
  const boost::json::value expected = LoadJson(folder / "expected.json");
  for (const boost::json::value& test : expected.as_array()) {
    const std::string text(test.at("text").as_string());
    const auto ids = tokenizer.Encode(text, false);
    ASSERT_TRUE(ids.ok()) << ids.error().ToString();
    EXPECT_EQ(*ids, Ids(test.at("ids"))) << text;
    EXPECT_EQ(tokenizer.Decode(*ids, false), test.at("decoded").as_string()) << text;
    EXPECT_EQ(Stream(tokenizer, *ids, false), test.at("decoded").as_string()) << text;
  }
}
INSTANTIATE_TEST_SUITE_P(Tokenizer, ExpectedIds, testing::Values("gpt2", "phi3"));

TEST(Tokenizer, Stories260KPromptsAndText) {
  const auto folder = TestDataFolder() / "stories260K";
  WEFT_NEED_DATA(folder);
  const Tokenizer tokenizer = Load(folder / "tokenizer.json");
  const boost::json::value expected = LoadJson(folder / "expected.json");
  for (const auto& [prompt, test] : expected.as_object()) {
    auto ids = Ids(test.at("prompt_ids"));
    EXPECT_EQ(*tokenizer.Encode(prompt, true), ids);
    const auto output = Ids(test.at("output_ids"));
    ids.insert(ids.end(), output.begin(), output.end());
    EXPECT_EQ(tokenizer.Decode(ids, true), test.at("text").as_string());
  }
}

// ---- time ----

// Ordinary text: the words and punctuation of the repository's own plan of tests, repeated.
std::string OrdinaryText(size_t byte_count) {
  static constexpr std::string_view kWords[] = {"The",     " server",
                                                " keeps",  " deciding",
                                                " as",     " devices",
                                                " come",   " and",
                                                " go",     ",",
                                                " and",    " answers",
                                                " 2048",   " requests",
                                                " over",   " a",
                                                " chat",   " page;",
                                                " it's",   "\n\n",
                                                " naïve",  " computation",
                                                ".",       " function(x)",
                                                " return", " x + 1;\n",
                                                " größer", " internationalisation",
                                                " of",     " weights"};
  std::string text;
  for (uint64_t i = 0; text.size() < byte_count;
       i = i * 6364136223846793005u + 1442695040888963407u) {
    text += kWords[(i >> 33) % std::size(kWords)];
  }
  return text;
}

double EncodeSeconds(const Tokenizer& tokenizer, const std::string& text) {
  const double start = ThreadSeconds();
  const auto ids = tokenizer.Encode(text, false);
  const double seconds = ThreadSeconds() - start;
  EXPECT_TRUE(ids.ok());
  EXPECT_EQ(tokenizer.Decode(*ids, false), text);
  return seconds;
}

class EncodeTime : public testing::TestWithParam<const char*> {};

TEST_P(EncodeTime, OrdinaryAndAdversarialText) {
  const auto folder = TestDataFolder() / "tokenizers" / GetParam();
  WEFT_NEED_DATA(folder);
  const double load_start = ThreadSeconds();
  const Tokenizer tokenizer = Load(folder / "tokenizer.json");
  const double load = ThreadSeconds() - load_start;
  const auto repeat = [](std::string_view unit) {
    std::string text;
    while (text.size() < 1'000'000) text += unit;
    return text;
  };
  std::printf("%s: load %.0f ms, ordinary %.1f MB/s;", GetParam(), load * 1e3,
              4.0 / EncodeSeconds(tokenizer, OrdinaryText(4'000'000)));
  for (const auto& [name, text] :
       std::vector<std::pair<const char*, std::string>>{{"letter", repeat("a")},
                                                        {"spaces", repeat(" ")},
                                                        {"newlines", repeat("\n")},
                                                        {"emoji", repeat("\U0001F999")},
                                                        {"capitals", repeat("A")},
                                                        {"digits", repeat("9")},
                                                        {"chinese", repeat("深度学习")},
                                                        {"space letter", repeat(" a")},
                                                        {"marks", repeat("a\u0316\u0301")},
                                                        {"apostrophes", repeat("'s")},
                                                        {"brackets", repeat("<|")}}) {
    const double seconds = EncodeSeconds(tokenizer, text);
    std::printf(" %s %.2f s;", name, seconds);
    // Linear with room for a slow machine; the quadratic alternative takes minutes.
    EXPECT_LT(seconds, 5 * kTimeLimitFactor) << name;
  }
  std::printf("\n");
}
INSTANTIATE_TEST_SUITE_P(Tokenizer, EncodeTime, testing::Values("gpt2", "phi3"));

}  // namespace
}  // namespace weft
