#include "apps/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace weft::apps {
namespace {

using testing::HasSubstr;

std::string FileOf(const std::string& text) {
  const std::string path = testing::TempDir() + "/join_token";
  std::ofstream(path) << text;
  return path;
}

TEST(TokenFile, ItsFirstLineIsTheToken) {
  for (const char* text : {"abc123", "abc123\n", "  abc123 \r\nmore\n"})
    EXPECT_EQ(ReadTokenFile(FileOf(text)).value(), "abc123");
}

TEST(TokenFile, OneThatHasNoneIsNamed) {
  for (const std::string& text : {std::string(), std::string("\nabc"), std::string(257, 'x')})
    EXPECT_THAT(ReadTokenFile(FileOf(text)).error().message(), HasSubstr("expected a join token"));
  EXPECT_THAT(ReadTokenFile("/nowhere/token").error().message(),
              HasSubstr("'/nowhere/token' cannot be read: No such file"));
  EXPECT_THAT(ReadTokenFile(testing::TempDir()).error().message(), HasSubstr("cannot be read"));
}

}  // namespace
}  // namespace weft::apps
