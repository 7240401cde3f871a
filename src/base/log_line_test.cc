#include "base/log_line.h"

#include <gtest/gtest.h>

#include <string>

#include "base/log.h"

namespace weft {
namespace {

// What `write` puts on standard error.
template <typename Write>
std::string LinesOf(const std::string& format, Write write) {
  EXPECT_TRUE(SetLogLevel("info"));
  testing::internal::CaptureStderr();
  EXPECT_TRUE(SetLogFormat(format));
  write();
  EXPECT_TRUE(SetLogFormat("text"));
  return testing::internal::GetCapturedStderr();
}

const std::vector<LogField> kFields = {{"id", "7f3a"}, {"status", uint64_t{200}}, {"ms", 12.3456}};

TEST(LogLine, HasItsFieldsInText) {
  const std::string said = LinesOf("text", [] { LogLine("request", kFields, false); });
  EXPECT_NE(said.find(" request id=7f3a status=200 ms=12.346\n"), std::string::npos) << said;
}

TEST(LogLine, IsAnObjectInJson) {
  const std::string said = LinesOf("json", [] { LogLine("request", kFields, true); });
  EXPECT_EQ(said.substr(0, 11), "{\"time\":\"20") << said;
  EXPECT_NE(said.find("Z\",\"level\":\"info\",\"event\":\"request\",\"id\":\"7f3a\",\"status\":200,"
                      "\"ms\":12.346}\n"),
            std::string::npos)
      << said;
}

TEST(LogLine, OtherLinesAreObjectsToo) {
  const std::string said = LinesOf("json", [] { LogWarn("a \"name\"\n"); });
  EXPECT_NE(
      said.find("\"level\":\"warning\",\"event\":\"log\",\"message\":\"a \\\"name\\\"\\u000a\"}\n"),
      std::string::npos)
      << said;
}

TEST(LogLine, AFloodLeavesOutOnlyWhatMayBe) {
  const std::string said = LinesOf("text", [] {
    for (int i = 0; i < 1000; ++i) LogLine("refused", {}, true);
    for (int i = 0; i < 1000; ++i) LogLine("served", {}, false);
  });
  size_t served = 0, refused = 0;
  for (size_t at = 0; (at = said.find(" served", at)) != std::string::npos; ++at) ++served;
  for (size_t at = 0; (at = said.find(" refused", at)) != std::string::npos; ++at) ++refused;
  EXPECT_EQ(served, 1000u);
  EXPECT_LT(refused, 500u);
}

TEST(LogLine, KnowsItsForms) {
  EXPECT_FALSE(SetLogFormat("xml"));
  EXPECT_EQ(QuotedForJson("a\\b\t\x7f"), "\"a\\\\b\\u0009\\u007f\"");
}

}  // namespace
}  // namespace weft
