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

TEST(NativeTokenizers, SameIdsAndText) {
  const auto path = TextOracleFolder() / "native-tokenizers.json";
  WEFT_NEED_ORACLE(path, "native_tokenizers.mjs");
  const json::value oracle = json::parse(*ReadTextFile(path, 256 << 20));
  const json::array& texts = oracle.at("texts").as_array();
  const json::array& cases = oracle.at("cases").as_array();
  EXPECT_GE(cases.size(), 200u);
  EXPECT_GE(texts.size(), 500u);
  for (const json::value& test : cases) {
    SCOPED_TRACE(test.at("name").as_string());
    const json::value* model = test.as_object().if_contains("file");
    const std::string file = model != nullptr
                                 ? *ReadTextFile(std::string(model->as_string()), 64 << 20)
                                 : json::serialize(test.at("json"));
    const auto tokenizer = Tokenizer::FromJson(AsBytes(file));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().ToString();
    size_t failures = 0;
    for (size_t i = 0; i < texts.size() && failures == 0; ++i) {
      const std::string text(texts[i].as_string());
      const json::array& answer = test.at("answers").at(i).as_array();
      const auto wanted = json::value_to<std::vector<int32_t>>(answer[0]);
      const auto ids = tokenizer->Encode(text, false);
      ASSERT_TRUE(ids.ok()) << ids.error().ToString();
      const std::string decoded = tokenizer->Decode(wanted, false);
      if (*ids != wanted || decoded != answer[1].as_string()) ++failures;
      EXPECT_EQ(*ids, wanted) << json::serialize(texts[i]);
      EXPECT_EQ(decoded, answer[1].as_string()) << json::serialize(texts[i]);
    }
  }
}

}  // namespace
}  // namespace weft
