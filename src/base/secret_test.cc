#include "base/secret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace weft {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

// What `ps` shows of a command line that began as this one.
std::vector<std::string> Shown(std::vector<std::string> given) {
  std::vector<char*> arguments;
  for (std::string& argument : given) arguments.push_back(argument.data());
  const std::vector<std::string> before = given;
  EXPECT_THAT(TakeArguments(static_cast<int>(arguments.size()), arguments.data()),
              ElementsAreArray(before));
  return {arguments.begin(), arguments.end()};
}

TEST(Secret, LeavesTheCommandLine) {
  EXPECT_THAT(Shown({"weft", "worker", "wss://host:1#abc", "--name", "it"}),
              ElementsAre("weft", "worker", "wss://host:1#***", "--name", "it"));
  EXPECT_THAT(Shown({"weft", "worker", "--token", "abcd", "ws://host:1"}),
              ElementsAre("weft", "worker", "--token", "****", "ws://host:1"));
  EXPECT_THAT(Shown({"weft", "worker", "--token=abcd", "--token="}),
              ElementsAre("weft", "worker", "--token=****", "--token="));
  EXPECT_THAT(Shown({"weft", "run", "--api-key", "k", "http://host/#key=abc"}),
              ElementsAre("weft", "run", "--api-key", "*", "http://host/#*******"));
}

TEST(Secret, WhatIsNoneIsShown) {
  EXPECT_THAT(Shown({"weft", "generate", "--prompt", "#1 of 2", "--token-file", "path"}),
              ElementsAre("weft", "generate", "--prompt", "#1 of 2", "--token-file", "path"));
  EXPECT_THAT(Shown({"weft"}), ElementsAre("weft"));
  EXPECT_THAT(Shown({"weft", "--token"}), ElementsAre("weft", "--token"));
}

TEST(Secret, LeavesTheEnvironment) {
  setenv("WEFT_SECRET_TEST", "abc", 1);
  const char* const stands = std::getenv("WEFT_SECRET_TEST");
  EXPECT_EQ(TakeFromEnvironment("WEFT_SECRET_TEST"), "abc");
  EXPECT_EQ(std::getenv("WEFT_SECRET_TEST"), nullptr);
  EXPECT_EQ(std::string(stands, 3), std::string(3, '\0'));
  EXPECT_EQ(TakeFromEnvironment("WEFT_SECRET_TEST"), "");
}

}  // namespace
}  // namespace weft
