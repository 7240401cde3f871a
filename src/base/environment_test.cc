// Variables as their specifications read them.
#include "base/environment.h"

#include <gtest/gtest.h>

#include <map>

namespace weft {
namespace {

TEST(Environment, BaseFoldersAreAbsolute) {
  std::map<std::string, std::string> variables = {{"HOME", "/u"}};
  const Environment environment = [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  const auto folder = [&] { return BaseFolder(environment, "XDG_CACHE_HOME", ".cache"); };
  EXPECT_EQ(folder(), "/u/.cache");
  for (const char* none : {"", "relative", "./x", "~/x"}) {
    variables["XDG_CACHE_HOME"] = none;
    EXPECT_EQ(folder(), "/u/.cache") << none;
  }
  variables["XDG_CACHE_HOME"] = "/c";
  EXPECT_EQ(folder(), "/c");
  variables.clear();
  EXPECT_EQ(folder(), "");
}

TEST(Environment, NoColorIsAnythingButNothing) {
  std::map<std::string, std::string> variables;
  const Environment environment = [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  EXPECT_FALSE(WantsPlainText(environment));
  variables["NO_COLOR"] = "";
  EXPECT_FALSE(WantsPlainText(environment));
  variables["NO_COLOR"] = "0";
  EXPECT_TRUE(WantsPlainText(environment));
  variables = {{"TERM", "dumb"}};
  EXPECT_TRUE(WantsPlainText(environment));
}

}  // namespace
}  // namespace weft
