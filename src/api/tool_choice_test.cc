#include "api/tool_choice.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <string>

namespace weft::api {
namespace {

namespace json = boost::json;

std::optional<ToolChoice> ReadText(const std::string& text) {
  return ReadToolChoice(json::parse(text));
}

TEST(ToolChoice, IsReadInEveryForm) {
  EXPECT_EQ(ReadText(R"("auto")")->kind, ToolChoice::Kind::kAuto);
  EXPECT_EQ(ReadText(R"("required")")->kind, ToolChoice::Kind::kRequired);
  EXPECT_EQ(ReadText(R"({"type": "function", "function": {"name": "f"}})")->name, "f");
  EXPECT_EQ(ReadText(R"({"type": "function", "name": "f"})")->name, "f");
  for (const char* bad : {R"("any")", "5", "{}", R"({"type": "function"})",
                          R"({"type": "custom", "name": "f"})", R"({"name": "f"})"})
    EXPECT_FALSE(ReadText(bad)) << bad;
}

TEST(ToolChoice, IsOfToolsThatAreThere) {
  const json::array tools = json::parse(R"([{"type": "function", "function": {"name": "f"}},
                                            {"name": "g"}, {"type": "function"}])")
                                .as_array();
  const auto error = [&](const ToolChoice& choice, const json::array& given) {
    const auto refused = CheckChoice(choice, given, "CHOICE");
    return refused ? refused->message : "";
  };
  EXPECT_EQ(error({}, {}), "");
  EXPECT_EQ(error({ToolChoice::Kind::kRequired}, tools), "");
  EXPECT_EQ(error({ToolChoice::Kind::kNamed, "g"}, tools), "");
  EXPECT_EQ(error({ToolChoice::Kind::kNamed, "h"}, tools),
            "'tool_choice' is CHOICE; expected one of 'tools': f, g.");
  EXPECT_EQ(error({ToolChoice::Kind::kRequired}, {tools[2]}),
            "'tool_choice' is CHOICE; 'tools' has no function that could be called.");
}

}  // namespace
}  // namespace weft::api
