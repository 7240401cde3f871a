// No field of a request is passed over that would change the answer.
#include "api/request_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <weft_source_dir.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <filesystem>
#include <set>

#include "api/openai_request.h"
#include "api/text_request.h"
#include "base/file.h"

namespace weft::api {
namespace {

namespace json = boost::json;
using testing::HasSubstr;

std::optional<ApiError> Refused(std::string_view name, const json::value& value) {
  json::object request = {{"model", "m"},
                          {"messages", json::array{{{"role", "user"}, {"content", "x"}}}}};
  request[name] = value;
  const std::string body = json::serialize(request);
  auto parsed = ParseChatRequest(AsBytes(body));
  auto* error = std::get_if<ApiError>(&parsed);
  return error != nullptr ? std::optional(std::move(*error)) : std::nullopt;
}

// Values of every kind, so that a field of any kind has one that is not neutral.
json::array SomeValues() {
  return {true, false, 7, 0.25, "some", json::array{"a"}, json::object{{"a", 1}}};
}

TEST(RequestFields, AreNeverPassedOver) {
  std::set<std::string_view> names;
  for (const RequestField& field : RequestFields()) {
    SCOPED_TRACE(field.name);
    EXPECT_TRUE(names.insert(field.name).second) << "twice";
    const json::value list = json::parse("[" + std::string(field.neutral) + "]");
    for (const json::value& neutral : list.as_array())
      EXPECT_FALSE(Refused(field.name, neutral)) << json::serialize(neutral);
    if (field.handling == Handling::kDone) continue;
    EXPECT_FALSE(field.why.empty());
    EXPECT_FALSE(Refused(field.name, nullptr));
    for (const json::value& value : SomeValues()) {
      const json::array& good = list.as_array();
      if (std::find(good.begin(), good.end(), value) != good.end()) continue;
      if (field.name == "repeat_last_n") continue;  // below
      const auto error = Refused(field.name, value);
      if (field.handling == Handling::kIgnored) {
        EXPECT_FALSE(error) << json::serialize(value);
        continue;
      }
      ASSERT_TRUE(error) << json::serialize(value);
      EXPECT_EQ(error->status, 400);
      EXPECT_EQ(error->param, field.name);
      EXPECT_THAT(error->message, HasSubstr(ShownValue(value)));
    }
  }
}

// Each with a value that it cannot have: something reads it.
TEST(RequestFields, WhatIsDoneIsRead) {
  for (const RequestField& field : RequestFields()) {
    if (field.handling != Handling::kDone) continue;
    const json::value value =
        field.name == "messages" || field.name == "model" || field.name == "tools"
            ? json::value(5)
            : json::value(json::array{json::array{}});
    const auto error = Refused(field.name, value);
    ASSERT_TRUE(error) << field.name;
    EXPECT_THAT(error->param, testing::StartsWith(std::string(field.name)));
    EXPECT_THAT(error->message, HasSubstr(ShownValue(value).substr(0, 1))) << "the value";
    EXPECT_THAT(error->message, testing::AnyOf(HasSubstr("expected"), HasSubstr("only")));
  }
}

TEST(RequestFields, AWindowOfPenaltiesCountsWhereThereAreSome) {
  const auto refused = [](const char* text) {
    return RefuseFields(json::parse(text).as_object()).has_value();
  };
  EXPECT_FALSE(refused(R"({"repeat_last_n": 64, "presence_penalty": 0.0})"));
  EXPECT_FALSE(refused(R"({"repeat_last_n": -1, "presence_penalty": 1})"));
  EXPECT_TRUE(refused(R"({"repeat_last_n": 64, "presence_penalty": 1})"));
  EXPECT_TRUE(refused(R"({"repeat_last_n": 64, "repetition_penalty": 1.1})"));
}

std::string RowOf(const RequestField& field) {
  const std::string values = field.neutral.empty() ? "" : "`" + std::string(field.neutral) + "`";
  std::string what;
  switch (field.handling) {
    case Handling::kDone:
      what = values.empty() ? "done" : "done: " + values + " only";
      break;
    case Handling::kIgnored:
      what = "ignored: " + std::string(field.why);
      break;
    case Handling::kRefused:
      what = (values.empty() ? "refused: " : "refused, but for " + values + ": ") +
             std::string(field.why);
  }
  return "\n| `" + std::string(field.name) + "` | " + ServerNames(field.servers) + " | " + what +
         " |\n";
}

// The section has a row for each of these, and no other.
void ExpectRows(const std::string& heading, std::span<const RequestField> fields) {
  const auto path = std::filesystem::path(WEFT_SOURCE_DIR) / "docs" / "api.md";
  const auto document = ReadTextFile(path, 1 << 20);
  ASSERT_TRUE(document.ok());
  const size_t begin = document->find("\n## " + heading + "\n");
  ASSERT_NE(begin, std::string::npos);
  const std::string section = document->substr(begin, document->find("\n## ", begin + 1) - begin);
  size_t rows = 0;
  for (size_t at = section.find("\n| `"); at != std::string::npos; ++rows)
    at = section.find("\n| `", at + 1);
  for (const RequestField& field : fields) EXPECT_THAT(section, HasSubstr(RowOf(field)));
  EXPECT_EQ(rows, fields.size()) << "a row of no field";
}

TEST(RequestFields, AreThoseOfTheDocument) {
  ExpectRows("Every field of a request", RequestFields());
  ExpectRows("Completions of a text", TextFields());
}

}  // namespace
}  // namespace weft::api
