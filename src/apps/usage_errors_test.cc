#include "apps/usage_errors.h"

#include <gtest/gtest.h>

#include "apps/commands.h"

namespace weft::apps {
namespace {

class UsageErrorsTest : public testing::Test {
 protected:
  UsageErrorsTest() {
    app_.require_subcommand(1);
    AddServeCommand(app_, &exit_code_);
    AddKeysCommand(app_, &exit_code_);
  }
  // What is said on stderr; the exit code is in exit_code_.
  std::string Say(const std::string& command_line) {
    testing::internal::CaptureStderr();
    try {
      app_.parse(command_line);
      ADD_FAILURE() << "it was taken";
    } catch (const CLI::ParseError& error) {
      exit_code_ = ReportParseError(app_, error);
    }
    return testing::internal::GetCapturedStderr();
  }

  CLI::App app_;
  int exit_code_ = 0;
};

TEST_F(UsageErrorsTest, AMistypedCommandIsNamedWithWhatWasMeant) {
  EXPECT_EQ(Say("srve tiny"),
            "weft: 'weft' has no command 'srve'. Did you mean 'serve'?\n"
            "`weft --help` says what there is.\n");
  EXPECT_EQ(exit_code_, kExitUsage);
}

TEST_F(UsageErrorsTest, AMistypedFlagIsNamedWithWhatWasMeant) {
  EXPECT_EQ(Say("serve tiny --prot=80"),
            "weft: 'weft serve' has no flag '--prot'. Did you mean '--port'?\n"
            "`weft serve --help` says what there is.\n");
  EXPECT_EQ(exit_code_, kExitUsage);
}

TEST_F(UsageErrorsTest, TheInnermostCommandIsMeant) {
  EXPECT_EQ(Say("keys add maths --rolle user"),
            "weft: 'weft keys add' has no flag '--rolle'. Did you mean '--role'?\n"
            "`weft keys add --help` says what there is.\n");
}

TEST_F(UsageErrorsTest, WhatIsNearNothingHasNoSuggestion) {
  EXPECT_EQ(Say("serve tiny --quantum-leaps"),
            "weft: 'weft serve' has no flag '--quantum-leaps'.\n"
            "`weft serve --help` says what there is.\n");
}

TEST_F(UsageErrorsTest, ExitCodesTellKindsOfFailures) {
  EXPECT_EQ(ExitCodeOf(ErrorCode::kInvalidArgument), 2);
  EXPECT_EQ(ExitCodeOf(ErrorCode::kNotFound), 3);
  EXPECT_EQ(ExitCodeOf(ErrorCode::kInvalidData), 4);
  EXPECT_EQ(ExitCodeOf(ErrorCode::kAlreadyExists), 5);
  EXPECT_EQ(ExitCodeOf(ErrorCode::kOutOfMemory), 6);
  EXPECT_EQ(ExitCodeOf(ErrorCode::kUnavailable), 1);
}

}  // namespace
}  // namespace weft::apps
