// For tests of requests in any form: their fields are followed, ignored with a reason or refused by
// name, and a document has the same table.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <weft_source_dir.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <filesystem>
#include <set>
#include <string>
#include <variant>

#include "api/request_fields.h"
#include "base/file.h"

namespace weft::api {

// Values of every kind, so that a field of any kind has one that is not neutral.
inline boost::json::array SomeValues() {
  return {true, false, 7, 0.25, "some", boost::json::array{"a"}, boost::json::object{{"a", 1}}};
}

// `parse` reads a good request with these fields more.
template <typename Parse>
void ExpectNeverPassedOver(const FieldTable& table, const Parse& parse) {
  std::set<std::string_view> names;
  for (const RequestField& field : table.fields) {
    SCOPED_TRACE(field.name);
    EXPECT_TRUE(names.insert(field.name).second) << "twice";
    if (field.handling == Handling::kDone) continue;
    EXPECT_FALSE(field.why.empty());
    const boost::json::array neutral =
        boost::json::parse("[" + std::string(field.neutral) + "]").as_array();
    for (const boost::json::value& value : SomeValues()) {
      const auto parsed = parse(boost::json::object{{field.name, value}});
      const auto* error = std::get_if<ApiError>(&parsed);
      const bool is_neutral = std::find(neutral.begin(), neutral.end(), value) != neutral.end();
      const bool is_taken = field.handling == Handling::kIgnored || is_neutral;
      ASSERT_EQ(error == nullptr, is_taken) << boost::json::serialize(value);
      if (error == nullptr) continue;
      EXPECT_EQ(error->status, 400);
      EXPECT_EQ(error->param, std::string(table.prefix) + std::string(field.name));
      EXPECT_THAT(error->message, testing::HasSubstr(ShownValue(value)));
    }
  }
}

// A row for each field: | `name` | what weft does |
inline void ExpectDocumented(const FieldTable& table) {
  const auto path = std::filesystem::path(WEFT_SOURCE_DIR) / table.document;
  const auto document = ReadTextFile(path, 1 << 20);
  ASSERT_TRUE(document.ok());
  for (const RequestField& field : table.fields) {
    const std::string values = field.neutral.empty() ? "" : "`" + std::string(field.neutral) + "`";
    std::string what = "done";
    if (field.handling == Handling::kDone && !values.empty()) what += ": " + values + " only";
    if (field.handling == Handling::kIgnored) what = "ignored: " + std::string(field.why);
    if (field.handling == Handling::kRefused)
      what = (values.empty() ? "refused: " : "refused, but for " + values + ": ") +
             std::string(field.why);
    EXPECT_THAT(*document, testing::HasSubstr("\n| `" + std::string(table.prefix) +
                                              std::string(field.name) + "` | " + what));
  }
}

}  // namespace weft::api
