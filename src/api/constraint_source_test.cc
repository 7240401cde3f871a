// What an answer has to be is the same at another server that was sent the source of it.
#include "api/constraint_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft_source_dir.h>
#include <boost/json/parse.hpp>
#include <filesystem>
#include <map>

#include "api/make_constraint.h"
#include "base/file.h"

namespace weft::api {
namespace {

namespace json = boost::json;
using testing::HasSubstr;

// The text of models/weft-tiny with a template of Qwen's form.
const ModelText& Text() {
  static const ModelText text = [] {
    std::map<std::string, std::string> files;
    const auto folder = std::filesystem::path(WEFT_SOURCE_DIR) / "models" / "weft-tiny";
    for (const char* name : kTextFiles) {
      auto file = ReadTextFile(folder / name);
      if (file.ok()) files[name] = std::move(file).value();
    }
    files["chat_template.jinja"] = R"({%- for m in messages %}<|im_start|>{{ m.role }}
{% if m.tool_calls %}{% for c in m.tool_calls %}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}{% else %}{{ m.content }}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %})";
    return ModelText::Load(files).value();
  }();
  return text;
}

// Of these texts those that the constraint allows.
std::string Allowed(const sampling::Constraint& constraint, std::vector<std::string> texts) {
  std::string allowed;
  for (const std::string& text : texts) {
    const auto answer = constraint.Begin();
    const auto ids = Text().tokenizer().Encode(text, false);
    bool fits = ids.ok();
    for (size_t i = 0; fits && i < ids->size(); ++i) fits = answer->Advance((*ids)[i]);
    if (fits) allowed += text + "|";
  }
  return allowed;
}

std::shared_ptr<const TokenGrammar> Made(ConstraintSource source) {
  auto made = MakeConstraint(std::move(source), Text());
  const auto* error = std::get_if<ApiError>(&made);
  EXPECT_EQ(error, nullptr) << error->message;
  return error != nullptr ? nullptr : std::get<std::shared_ptr<const TokenGrammar>>(made);
}

// The same made of what another server sent.
std::shared_ptr<const TokenGrammar> Sent(const sampling::Constraint& constraint) {
  auto source = ConstraintSource::FromJson(constraint.Source());
  EXPECT_TRUE(source.ok()) << source.error().message();
  return source.ok() ? Made(std::move(source).value()) : nullptr;
}

void ExpectTheSame(const ConstraintSource& source, const std::vector<std::string>& texts,
                   const std::string& allowed) {
  const auto made = Made(source);
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(Allowed(*made, texts), allowed);
  const auto sent = Sent(*made);
  ASSERT_NE(sent, nullptr);
  EXPECT_EQ(Allowed(*sent, texts), allowed);
  EXPECT_EQ(sent->Source(), made->Source());
}

TEST(ConstraintSource, EveryFormIsTheSameBehindIt) {
  for (const auto& [form, allowed] : std::map<std::string, std::string>{
           {R"({"json":{"type":"object","properties":{"a":{"type":"integer"}}}})", R"({"a":1}|)"},
           {R"({"json_object":true})", R"({"a":1}|)"},
           {R"({"regex":"[0-9]+"})", "42|"},
           {R"({"choice":["yes","no"]})", "yes|"},
           {R"({"grammar":"root ::= \"maybe\""})", "maybe|"}}) {
    ConstraintSource source;
    auto read = ReadForm(json::parse(form).as_object(), "");
    source.form = std::get<AnswerForm>(read);
    ExpectTheSame(source, {R"({"a":1})", "42", "yes", "maybe"}, allowed);
  }
}

TEST(ConstraintSource, ThoughtsMayComeBeforeAForm) {
  ConstraintSource source;
  source.form = std::get<AnswerForm>(ReadForm({{"choice", {"yes", "no"}}}, ""));
  source.begins_behind = "</think>";
  ExpectTheSame(source, {"yes", "what?", "what?</think>yes", "</think>what?"},
                "yes|what?|what?</think>yes|");
  const auto behind = Made(source)->WithoutThoughts();
  EXPECT_EQ(Allowed(*Sent(*behind), {"yes", "what?"}), "yes|");
}

TEST(ConstraintSource, CallsAreTheSameBehindIt) {
  ConstraintSource source;
  source.calls.tools = json::parse(R"([{"type":"function","function":{"name":"look",
      "parameters":{"type":"object","properties":{"at":{"type":"integer"}}}}},
      {"type":"function","function":{"name":"go","parameters":{}}}])")
                           .as_array();
  const std::string look =
      "<tool_call>\n{\"name\": \"look\", \"arguments\": {\"at\": 3}}\n</tool_call>";
  const std::string go = "<tool_call>\n{\"name\": \"go\", \"arguments\": {}}\n</tool_call>";
  source.calls.tool_choice.kind = ToolChoice::Kind::kRequired;
  ExpectTheSame(source, {"text", look, go}, look + "|" + go + "|");
  source.calls.tool_choice = {ToolChoice::Kind::kNamed, "go"};
  source.calls.ends_with_call = true;
  source.may_think = true;
  ExpectTheSame(source, {"text", look, go}, go + "|");
}

TEST(ConstraintSource, RefusesWhatIsNone) {
  for (const char* text :
       {"", "7", "{", "{}", R"({"begins_behind":7})", R"({"begins_behind":""})",
        R"({"begins_behind":"","form":7})", R"({"begins_behind":"","form":{}})",
        R"({"begins_behind":"","form":{"regex":"a","choice":["b"]}})",
        R"({"begins_behind":"","tools":{}})", R"({"begins_behind":"","tools":[]})",
        R"({"begins_behind":"","tools":[],"tool_choice":"perhaps"})"}) {
    const auto read = ConstraintSource::FromJson(text);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_THAT(read.error().message(), HasSubstr("The source of a constraint"));
  }
}

TEST(ConstraintSource, WhatCannotBeFollowedNamesItsField) {
  ConstraintSource source;
  source.form = std::get<AnswerForm>(ReadForm({{"regex", "(a"}}, "structured_outputs"));
  const auto made = MakeConstraint(source, Text());
  ASSERT_TRUE(std::holds_alternative<ApiError>(made));
  EXPECT_THAT(std::get<ApiError>(made).message,
              HasSubstr("'structured_outputs.regex' cannot be followed."));
}

}  // namespace
}  // namespace weft::api
