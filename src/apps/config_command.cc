// `weft config check FILE`: what is wrong with a file of `weft serve --config`.
#include <iostream>
#include <memory>

#include "apps/commands.h"
#include "apps/config_file.h"
#include "apps/serve_command.h"
#include "apps/settings.h"

namespace weft::apps {
namespace {

// With a command that nobody runs: its options are what a file may set.
Status CheckConfig(const std::string& path) {
  CLI::App command;
  ServeOptions options;
  AddServeOptions(command, options);
  ASSIGN_OR_RETURN(const auto entries, ReadConfigFile(path));
  const auto problems = FindConfigProblems(command, path, entries);
  if (problems.empty()) {
    std::cout << path << " is right: " << entries.size() << " settings.\n";
    return OkStatus();
  }
  std::string text;
  for (const std::string& problem : problems) text += (text.empty() ? "" : "\n") + problem;
  return Error(ErrorCode::kInvalidArgument, text);
}

}  // namespace

void AddConfigCommand(CLI::App& app, int* exit_code) {
  const auto path = std::make_shared<std::string>();
  CLI::App* config = app.add_subcommand("config", "Files of `weft serve --config`.");
  config->require_subcommand(1);
  CLI::App* check =
      config->add_subcommand("check", "Say what is wrong with a file, by line; starts nothing.");
  check->add_option("file", *path, "A file of TOML")->required();
  check->callback([path, exit_code] { *exit_code = ReportStatus(CheckConfig(*path)); });
}

}  // namespace weft::apps
