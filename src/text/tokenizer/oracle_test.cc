// Tokenizers against @huggingface/tokenizers on thousands of generated strings for each kind of
// tokenizer.json (tools/text_oracle/tokenizers.mjs writes the files).
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "base/file.h"
#include "text/test_data.h"
#include "text/tokenizer/tokenizer.h"

namespace weft {
namespace {

constexpr int kShownFailures = 5;

std::string Quoted(std::string_view text) {
  return boost::json::serialize(boost::json::string(text.data(), text.size()));
}

class TokenizerOracle : public testing::TestWithParam<const char*> {
 protected:
  // The base's tokenizer.json with the variant's sections in place of its own.
  static Result<Tokenizer> LoadVariant(const boost::json::object& oracle) {
    const auto path =
        TestDataFolder() / std::string(oracle.at("base").as_string()) / "tokenizer.json";
    boost::json::value json = boost::json::parse(*ReadTextFile(path));
    for (const auto& [key, value] : oracle.at("override").as_object())
      json.as_object()[key] = value;
    for (const auto& [key, value] : oracle.at("model").as_object()) {
      json.at("model").as_object()[key] = value;
    }
    return Tokenizer::FromJson(AsBytes(boost::json::serialize(json)));
  }

  static std::string StreamDecoded(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
    Detokenizer detokenizer(tokenizer, true);
    std::string text;
    for (const int32_t id : ids) text += detokenizer.Push(id);
    return text + detokenizer.Flush();
  }
};

TEST_P(TokenizerOracle, SameIdsAndText) {
  const auto path = TextOracleFolder() / (std::string("tokenizer-") + GetParam() + ".json");
  WEFT_NEED_ORACLE(path, "tokenizers.mjs");
  const boost::json::value oracle = boost::json::parse(*ReadTextFile(path));
  const auto tokenizer = LoadVariant(oracle.as_object());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().ToString();
  const boost::json::array& cases = oracle.at("cases").as_array();
  EXPECT_GE(cases.size(), 2000u);
  int failures = 0;
  const auto expect = [&](const std::string& text, const char* what, const auto& got,
                          const auto& wanted) {
    if (got == wanted) return;
    if (failures++ < kShownFailures) {
      EXPECT_EQ(got, wanted) << what << " of " << Quoted(text);
    }
  };
  for (const boost::json::value& test : cases) {
    const std::string text(test.at("text").as_string());
    const auto ids = tokenizer->Encode(text, false);
    ASSERT_TRUE(ids.ok()) << ids.error().ToString() << Quoted(text);
    const auto wanted = boost::json::value_to<std::vector<int32_t>>(test.at("ids"));
    expect(text, "ids", *ids, wanted);
    expect(text, "framed ids", *tokenizer->Encode(text, true),
           boost::json::value_to<std::vector<int32_t>>(test.at("framed")));
    expect(text, "text", tokenizer->Decode(wanted, false), test.at("decoded").as_string());
    expect(text, "text without special tokens", tokenizer->Decode(wanted, true),
           test.at("decoded_skip").as_string());
    expect(text, "streamed text", StreamDecoded(*tokenizer, wanted),
           test.at("decoded_skip").as_string());
  }
  EXPECT_EQ(failures, 0) << " of " << cases.size() << " strings";
}

INSTANTIATE_TEST_SUITE_P(Tokenizer, TokenizerOracle,
                         testing::Values("gpt2", "phi3", "stories260K", "llama3", "qwen2", "o200k",
                                         "kimi", "deepseek-llm", "deepseek-v3", "starcoder",
                                         "falcon", "prefix-space", "metaspace-first",
                                         "metaspace-always", "gemma", "nfkc-lower"),
                         [](const auto& variant) {
                           std::string name = variant.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace weft
