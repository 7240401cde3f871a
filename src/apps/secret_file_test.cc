#include "apps/secret_file.h"

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

TEST(SecretFile, ItsFirstLineIsTheSecret) {
  for (const char* text : {"abc123", "abc123\n", "  abc123 \r\nmore\n"})
    EXPECT_EQ(ReadSecretFile(FileOf(text), "join token").value(), "abc123");
}

TEST(SecretFile, OneThatHasNoneIsNamed) {
  for (const std::string& text : {std::string(), std::string("\nabc"), std::string(257, 'x')})
    EXPECT_THAT(ReadSecretFile(FileOf(text), "join token").error().message(),
                HasSubstr("expected as join token 1 to 256"));
  EXPECT_THAT(ReadSecretFile("/nowhere/token", "API key").error().message(),
              HasSubstr("'/nowhere/token' cannot be read: No such file"));
  EXPECT_THAT(ReadSecretFile(testing::TempDir(), "API key").error().message(),
              HasSubstr("cannot be read"));
}

}  // namespace
}  // namespace weft::apps
