#include "api/answer_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft_source_dir.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <filesystem>

#include "api/openai_request.h"
#include "api/token_grammar.h"
#include "api/vocabulary_trie.h"
#include "base/file.h"

namespace weft::api {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ApiResult<std::optional<AnswerForm>> Read(std::string_view fields) {
  return ReadRequestedForm(boost::json::parse(fields).as_object());
}

AnswerForm Found(std::string_view fields) {
  const auto read = Read(fields);
  if (const auto* error = std::get_if<ApiError>(&read)) {
    ADD_FAILURE() << error->message;
    return {};
  }
  const auto& found = std::get<std::optional<AnswerForm>>(read);
  EXPECT_TRUE(found) << fields;
  return found.value_or(AnswerForm{});
}

TEST(AnswerForm, IsInOneOfThreeFields) {
  using enum AnswerForm::Kind;
  EXPECT_EQ(Found(R"({"response_format":{"type":"json_object"}})").kind, kJsonObject);
  const AnswerForm schema = Found(R"({"response_format":{"type":"json_schema","json_schema":
      {"name":"a","strict":true,"description":"d","schema":{"type":"null"}}}})");
  EXPECT_EQ(schema.kind, kSchema);
  EXPECT_EQ(schema.field, "response_format.json_schema.schema");
  EXPECT_EQ(schema.schema, boost::json::parse(R"({"type":"null"})"));
  EXPECT_EQ(Found(R"({"structured_outputs":{"json":"{\"type\":\"null\"}"}})").schema,
            schema.schema);
  EXPECT_EQ(Found(R"({"structured_outputs":{"regex":"a+","choice":null}})").text, "a+");
  EXPECT_THAT(Found(R"({"structured_outputs":{"choice":["a","b"]}})").choices,
              ElementsAre("a", "b"));
  EXPECT_EQ(Found(R"({"structured_outputs":{"grammar":"root ::= \"a\""}})").kind, kGrammar);
  EXPECT_EQ(Found(R"({"structured_outputs":{"json_object":true}})").kind, kJsonObject);
  EXPECT_EQ(Found(R"({"grammar":"root ::= \"a\"","response_format":{"type":"text"}})").field,
            "grammar");
  for (const char* none : {"{}", R"({"response_format":{"type":"text"}})", R"({"grammar":""})",
                           R"({"response_format":null,"structured_outputs":null})"}) {
    const auto read = Read(none);
    ASSERT_TRUE(std::holds_alternative<std::optional<AnswerForm>>(read)) << none;
    EXPECT_FALSE(std::get<std::optional<AnswerForm>>(read)) << none;
  }
}

TEST(AnswerForm, ErrorsNameTheField) {
  struct Bad {
    const char* fields;
    const char* param;
    const char* message;
  };
  const Bad kBad[] = {
      {R"({"response_format":5})", "response_format", "is 5; expected"},
      {R"({"response_format":{"type":"xml"}})", "response_format", "\"json_object\""},
      {R"({"response_format":{"type":"text","schema":{}}})", "response_format.schema", "no such"},
      {R"({"response_format":{"type":"json_schema"}})", "response_format.json_schema", "'schema'"},
      {R"({"response_format":{"type":"json_schema","json_schema":{"schema":{},"x":1}}})",
       "response_format.json_schema.x", "'name'"},
      {R"({"response_format":{"type":"json_schema","json_schema":{"schema":5}}})",
       "response_format.json_schema.schema", "a schema"},
      {R"({"structured_outputs":5})", "structured_outputs", "an object"},
      {R"({"structured_outputs":{}})", "structured_outputs", "names no form"},
      {R"({"structured_outputs":{"xml":1}})", "structured_outputs.xml", "alone"},
      {R"({"structured_outputs":{"json":"{"}})", "structured_outputs.json", "its text in JSON"},
      {R"({"structured_outputs":{"regex":5}})", "structured_outputs.regex", "a string"},
      {R"({"structured_outputs":{"choice":[1]}})", "structured_outputs.choice", "list of strings"},
      {R"({"structured_outputs":{"json_object":false}})", "structured_outputs.json_object", "true"},
      {R"({"structured_outputs":{"regex":"a","choice":["a"]}})", "structured_outputs.choice",
       "both given"},
      {R"({"grammar":["a"]})", "grammar", "a string"},
      {R"({"grammar":"root ::= \"a\"","response_format":{"type":"json_object"}})", "grammar",
       "an answer has one form"}};
  for (const auto& [fields, param, message] : kBad) {
    const auto read = Read(fields);
    const auto* error = std::get_if<ApiError>(&read);
    ASSERT_TRUE(error != nullptr) << fields;
    EXPECT_EQ(error->param, param);
    EXPECT_THAT(error->message, HasSubstr(message));
  }
}

TEST(AnswerForm, AnEndThatIsIgnoredContradictsIt) {
  const std::string body =
      R"({"model":"m","messages":[{"role":"user","content":"x"}],"ignore_eos":true,"grammar":"r"})";
  const auto parsed = ParseChatRequest(AsBytes(body));
  const auto* error = std::get_if<ApiError>(&parsed);
  ASSERT_TRUE(error != nullptr);
  EXPECT_EQ(error->param, "ignore_eos");
}

Tokenizer LoadedTokenizer() {
  const auto file = ReadTextFile(
      std::filesystem::path(WEFT_SOURCE_DIR) / "models" / "weft-tiny" / "tokenizer.json", 16 << 20);
  CHECK(file.ok());
  auto tokenizer = Tokenizer::FromJson(AsBytes(*file));
  CHECK(tokenizer.ok());
  return std::move(*tokenizer);
}

// Advances by the tokens of the text; false at the first one that is refused.
bool Say(sampling::AnswerState& answer, const Tokenizer& tokenizer, std::string_view text) {
  const auto ids = tokenizer.Encode(text, false);
  CHECK(ids.ok());
  return std::ranges::all_of(*ids,
                             [&](int32_t id) { return answer.Allows(id) && answer.Advance(id); });
}

TEST(TokenGrammar, AllowsTokensOfTheTextAndItsEnd) {
  const Tokenizer tokenizer = LoadedTokenizer();
  const int32_t end = tokenizer.TokenId("<|im_end|>").value_or(-1);
  ASSERT_GE(end, 0);
  const auto compiled = grammar::CompileRegex("a[ab]*c");
  ASSERT_TRUE(compiled.ok());
  const TokenGrammar constraint(*compiled, VocabularyTrie(tokenizer, {end}), tokenizer, "");
  const auto answer = constraint.Begin();
  EXPECT_FALSE(answer->Allows(end));
  EXPECT_FALSE(answer->Advance(end));
  for (const int32_t id : answer->Allowed()) EXPECT_EQ(tokenizer.TokenBytes(id)[0], 'a');
  EXPECT_TRUE(Say(*answer, tokenizer, "aab"));
  EXPECT_FALSE(Say(*answer, tokenizer, "d"));
  EXPECT_FALSE(answer->IsOver());
  EXPECT_TRUE(Say(*answer, tokenizer, "c"));
  EXPECT_TRUE(answer->IsOver());
  EXPECT_THAT(answer->Allowed(), ElementsAre(end));
  EXPECT_FALSE(constraint.Begin()->IsOver()) << "another answer";
}

TEST(TokenGrammar, SaysWhatMustCome) {
  const Tokenizer tokenizer = LoadedTokenizer();
  const int32_t end = tokenizer.TokenId("<|im_end|>").value_or(-1);
  const auto said = [&](const std::string& pattern, std::string_view begin) {
    const auto compiled = grammar::CompileRegex(pattern);
    CHECK(compiled.ok());
    const TokenGrammar constraint(*compiled, VocabularyTrie(tokenizer, {end}), tokenizer, "");
    const auto answer = constraint.Begin();
    EXPECT_TRUE(Say(*answer, tokenizer, begin));
    const std::vector<int32_t> ids = answer->Forced();
    std::string text;
    for (const int32_t id : ids) {
      EXPECT_TRUE(answer->Advance(id));
      text += tokenizer.TokenBytes(id);
    }
    return text;
  };
  // All of it where nothing follows; else the last token is the model's to write.
  EXPECT_EQ(said("a, and then the house was gone", "a"), ", and then the house was gone");
  const std::string open = said("a, and then the house was gone[xy]", "a");
  EXPECT_TRUE(std::string(", and then the house was gone").starts_with(open)) << open;
  EXPECT_GT(open.size(), 15u);
  EXPECT_LT(open.size(), 29u);
  EXPECT_EQ(said("a[xy]", "a"), "");
  EXPECT_EQ(said("a(bcdef)?", "a"), "") << "it may end here";
}

TEST(TokenGrammar, BeginsBehindThoughts) {
  const Tokenizer tokenizer = LoadedTokenizer();
  const int32_t end = tokenizer.TokenId("<|im_end|>").value_or(-1);
  const auto compiled = grammar::CompileChoice({"yes", "no"});
  const TokenGrammar constraint(*compiled, VocabularyTrie(tokenizer, {end}), tokenizer, "</think>");
  const auto answer = constraint.Begin();
  EXPECT_TRUE(Say(*answer, tokenizer, "Let me think: no <think or </thin"));
  EXPECT_FALSE(answer->Allows(end)) << "nothing was answered";
  EXPECT_GT(answer->Allowed().size(), 1000u);
  EXPECT_TRUE(Say(*answer, tokenizer, " it.</think>"));
  EXPECT_FALSE(Say(*answer, tokenizer, "maybe"));
  EXPECT_TRUE(Say(*answer, tokenizer, "no"));
  EXPECT_TRUE(answer->IsOver());
}

}  // namespace
}  // namespace weft::api
