// Where the settings of `weft serve` come from, and what is said of wrong ones.
#include "apps/settings.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "apps/serve_command.h"
#include "apps/service_manager.h"
#include "base/random.h"

namespace weft::apps {
namespace {

class SettingsTest : public testing::Test {
 protected:
  void SetUp() override { AddServeOptions(command_, options_); }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }

  void WriteConfig(const std::string& text) {
    path_ = std::filesystem::temp_directory_path() / ("weft-config-" + SecureRandomHex(6));
    std::ofstream(path_) << text;
    variables_["WEFT_CONFIG"] = path_.string();
  }
  Status Apply(const std::string& command_line) {
    command_.parse(command_line);
    return ApplySettings(command_, [this](const char* name) -> const char* {
      const auto found = variables_.find(name);
      return found == variables_.end() ? nullptr : found->second.c_str();
    });
  }
  std::string ProblemsOf(const std::string& text) {
    const auto entries = ParseConfig(text, "weft.toml");
    if (!entries.ok()) return entries.error().message();
    std::string all;
    for (const auto& each : FindConfigProblems(command_, "weft.toml", *entries)) all += each + "\n";
    return all;
  }

  CLI::App command_;
  ServeOptions options_;
  std::map<std::string, std::string> variables_;
  std::filesystem::path path_;
};

TEST_F(SettingsTest, AFlagCountsMoreThanAVariableAndThatMoreThanTheFile) {
  WriteConfig(
      "package = \"of-file\"\nport = 1001\nqueue = 11\nsessions = 3\n"
      "host-name = [\"a.example\", \"b.example\"]\nno-worker = true\nshare = true\n");
  variables_["WEFT_PORT"] = "1002";
  variables_["WEFT_QUEUE"] = "12";
  variables_["WEFT_SHARE"] = "false";
  const Status applied = Apply("--port 1003");
  ASSERT_TRUE(applied.ok()) << applied.error().message();
  EXPECT_EQ(options_.port, 1003);
  EXPECT_EQ(options_.queue, 12u);
  EXPECT_EQ(options_.sessions, 3u);
  EXPECT_EQ(options_.wait_s, 30u) << "nobody said anything of it";
  EXPECT_EQ(options_.packages, (std::vector<std::string>{"of-file"}));
  EXPECT_TRUE(options_.no_worker);
  EXPECT_FALSE(options_.share);
  EXPECT_EQ(options_.host_names, (std::vector<std::string>{"a.example", "b.example"}));
}

TEST_F(SettingsTest, AFormerNameStillCounts) {
  ASSERT_TRUE(Apply("--prefill-slice 20").ok());
  EXPECT_EQ(options_.prefill_chunk_ms, 20u);
  WriteConfig("prefill-slice = 30\n");
  ASSERT_TRUE(Apply("").ok());
  EXPECT_EQ(options_.prefill_chunk_ms, 30u);
  variables_["WEFT_PREFILL_SLICE"] = "40";
  ASSERT_TRUE(Apply("").ok());
  EXPECT_EQ(options_.prefill_chunk_ms, 40u);
  variables_["WEFT_PREFILL_CHUNK"] = "50";  // the name of now counts more
  ASSERT_TRUE(Apply("").ok());
  EXPECT_EQ(options_.prefill_chunk_ms, 50u);
}

TEST_F(SettingsTest, AListOfTheEnvironmentReplacesThatOfTheFile) {
  WriteConfig("host-name = [\"a.example\"]\n");
  variables_["WEFT_HOST_NAME"] = "c.example,d.example";
  ASSERT_TRUE(Apply("").ok());
  EXPECT_EQ(options_.host_names, (std::vector<std::string>{"c.example", "d.example"}));
}

TEST_F(SettingsTest, AFlagReplacesTheListOfTheFile) {
  WriteConfig("host-name = [\"a.example\"]\n");
  ASSERT_TRUE(Apply("--host-name e.example").ok());
  EXPECT_EQ(options_.host_names, std::vector<std::string>{"e.example"});
}

TEST_F(SettingsTest, ASecretOfTheEnvironmentCountsMoreThanAFileThatTheConfigNames) {
  WriteConfig("api-key-file = \"key\"\njoin-token-file = \"token\"\n");
  variables_["WEFT_API_KEY"] = "0123456789abcdef0123456789abcdef";
  ASSERT_TRUE(Apply("").ok());
  EXPECT_EQ(options_.api_key_file, "");
  EXPECT_EQ(options_.join_token_file, "token");
}

TEST_F(SettingsTest, WhatIsWrongWithAFileIsSaidWithItsLine) {
  EXPECT_EQ(ProblemsOf("port = 8080\nhost-name = \"one.example\"\nhistory = 1000000\n"), "");
  EXPECT_EQ(ProblemsOf("\nprot = 1\n"),
            "weft.toml:2: there is no setting 'prot'. Did you mean 'port'?\n");
  EXPECT_EQ(ProblemsOf("port = \"8080\"\n"), "weft.toml:1: 'port' wants a whole number.\n");
  EXPECT_EQ(ProblemsOf("share = 1\n"), "weft.toml:1: 'share' wants true or false.\n");
  EXPECT_EQ(ProblemsOf("address = 1\n"), "weft.toml:1: 'address' wants a text in quotes.\n");
  EXPECT_EQ(ProblemsOf("port = [1]\n"), "weft.toml:1: 'port' wants a whole number.\n");
  EXPECT_EQ(ProblemsOf("[server]\nport = 1\n"),
            "weft.toml:2: there is no setting 'server.port'.\n");
  EXPECT_EQ(ProblemsOf("config = \"other\"\n"), "weft.toml:1: there is no setting 'config'.\n");
  const std::string range = ProblemsOf("# of mine\n\nport = 70000\nqueue = -1\n");
  EXPECT_NE(range.find("weft.toml:3: 'port' is refused: "), std::string::npos) << range;
  EXPECT_NE(range.find("65535"), std::string::npos) << range;
  EXPECT_NE(range.find("weft.toml:4: 'queue' is refused: "), std::string::npos) << range;
  const std::string memory = ProblemsOf("worker-memory = \"much\"\n");
  EXPECT_NE(memory.find("is no amount of memory"), std::string::npos) << memory;
  EXPECT_TRUE(ProblemsOf("port = \n").starts_with("weft.toml:1: this is no TOML: "));
}

TEST_F(SettingsTest, ASecretInTheFileIsRefusedAndNotRepeated) {
  const std::string said = ProblemsOf("api-key = \"0123456789abcdef\"\n");
  EXPECT_EQ(said,
            "weft.toml:1: secrets do not stand in this file; name a file with 'api-key-file', or "
            "set WEFT_API_KEY.\n");
}

TEST_F(SettingsTest, AllProblemsOfFileAndEnvironmentAreTold) {
  WriteConfig("prot = 1\nqueue = true\n");
  variables_["WEFT_PORT"] = "many";
  variables_["WEFT_SHARE"] = "perhaps";
  const Status applied = Apply("");
  ASSERT_FALSE(applied.ok());
  const std::string& said = applied.error().message();
  EXPECT_NE(said.find(":1: there is no setting 'prot'."), std::string::npos) << said;
  EXPECT_NE(said.find(":2: 'queue' wants a whole number."), std::string::npos) << said;
  EXPECT_NE(said.find("WEFT_PORT is refused: "), std::string::npos) << said;
  EXPECT_NE(said.find("WEFT_SHARE wants true or false."), std::string::npos) << said;
}

TEST_F(SettingsTest, AFileThatIsNotThereIsAnError) {
  const Status applied = Apply("--config /nowhere/weft.toml");
  ASSERT_FALSE(applied.ok());
  EXPECT_EQ(applied.error().code(), ErrorCode::kNotFound);
  EXPECT_NE(applied.error().message().find("'/nowhere/weft.toml'"), std::string::npos);
}

TEST_F(SettingsTest, MistypedVariablesAreNoticed) {
  const auto found = FindMistypedVariables(
      command_, {"WEFT_PROT", "WEFT_PORT", "WEFT_API_KEY", "WEFT_HOME", "HOME", "WEFT_DATA"});
  EXPECT_EQ(found, std::vector<std::string>{"WEFT_PROT is no setting. Did you mean WEFT_PORT?"});
}

TEST(ServiceManagerTest, TheJournalIsToldNoSecretsAndATerminalIs) {
  const auto with = [](const std::string& name) {
    return [name](const char* asked) { return name == asked ? "8:1234" : nullptr; };
  };
  EXPECT_TRUE(IsKeptInJournal(with("INVOCATION_ID"), false));
  EXPECT_TRUE(IsKeptInJournal(with("JOURNAL_STREAM"), false));
  EXPECT_FALSE(IsKeptInJournal(with("JOURNAL_STREAM"), true));
  EXPECT_FALSE(IsKeptInJournal(with("HOME"), false));
}

}  // namespace
}  // namespace weft::apps
