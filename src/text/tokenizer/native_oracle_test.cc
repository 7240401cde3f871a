// Generated tokenizers, each option of every pre-tokenizer, normaliser and decoder in turn, and
// those of models, against the native library, whose answers native_tokenizers.mjs writes.
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "base/file.h"
#include "text/test_data.h"
#include "text/tokenizer/tokenizer.h"

namespace weft {
namespace {

namespace json = boost::json;

std::vector<int32_t> IdList(const json::value& answer) {
  return json::value_to<std::vector<int32_t>>(answer);
}

// `answer`: ids, the text of them and, where something is put around texts, ids with it; null
// where the library ends with an error.
void ExpectAnswer(const Tokenizer& tokenizer, const std::string& text, const json::value& answer) {
  const auto ids = tokenizer.Encode(text, false);
  ASSERT_EQ(ids.ok(), !answer.is_null()) << (ids.ok() ? "" : ids.error().ToString());
  if (!ids.ok()) return;
  EXPECT_EQ(*ids, IdList(answer.at(0)));
  EXPECT_EQ(tokenizer.Decode(IdList(answer.at(0)), false), answer.at(1).as_string());
  if (answer.as_array().size() > 2) {
    EXPECT_EQ(*tokenizer.Encode(text, true), IdList(answer.at(2)));
  }
}

TEST(NativeTokenizers, SameIdsAndText) {
  const auto path = TextOracleFolder() / "native-tokenizers.json";
  WEFT_NEED_ORACLE(path, "native_tokenizers.mjs");
  const json::value oracle = json::parse(*ReadTextFile(path, 256 << 20));
  const json::array& texts = oracle.at("texts").as_array();
  const json::array& form_texts = oracle.at("formTexts").as_array();
  const json::array& cases = oracle.at("cases").as_array();
  EXPECT_GE(cases.size(), 252u);
  EXPECT_GE(texts.size(), 500u);
  EXPECT_GE(form_texts.size(), 30u);
  for (const json::value& test : cases) {
    SCOPED_TRACE(test.at("name").as_string());
    const json::value* model = test.as_object().if_contains("file");
    const std::string file = model != nullptr
                                 ? *ReadTextFile(std::string(model->as_string()), 64 << 20)
                                 : json::serialize(test.at("json"));
    const auto tokenizer = Tokenizer::FromJson(AsBytes(file));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().ToString();
    const json::array& answers = test.at("answers").as_array();
    for (size_t i = 0; i < answers.size() && !HasFailure(); ++i) {
      const json::value& text = i < texts.size() ? texts[i] : form_texts.at(i - texts.size());
      SCOPED_TRACE(json::serialize(text));
      ExpectAnswer(*tokenizer, std::string(text.as_string()), answers[i]);
    }
  }
}

}  // namespace
}  // namespace weft
