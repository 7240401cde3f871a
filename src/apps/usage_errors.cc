#include "apps/usage_errors.h"

#include <iostream>
#include <string>
#include <vector>

#include "apps/commands.h"
#include "base/spelling.h"

namespace weft::apps {
namespace {

// The command that was named last: "weft keys add" of `weft keys add --rol user`.
const CLI::App* Innermost(const CLI::App* app) {
  for (;;) {
    const auto named = app->get_subcommands();
    if (named.empty()) return app;
    app = named.front();
  }
}

std::vector<std::string> FlagsOf(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  return flags;
}

std::vector<std::string> CommandsOf(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* each : command.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(each->get_name());
  return names;
}

}  // namespace

int ReportParseError(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);
  const CLI::App* command = Innermost(&app);
  std::string path = "weft";
  for (const CLI::App* each = &app; each != command;) {
    each = each->get_subcommands().front();
    path += " " + each->get_name();
  }
  const std::vector<std::string> unknown = app.remaining(/*recurse=*/true);
  std::string sentence = error.what();
  if (!unknown.empty()) {
    const std::string word = unknown.front().substr(0, unknown.front().find('='));
    const bool is_flag = word.starts_with('-');
    const auto known = is_flag ? FlagsOf(*command) : CommandsOf(*command);
    const std::string what = is_flag ? "flag" : known.empty() ? "argument" : "command";
    sentence = "'" + path + "' has no " + what + " '" + word + "'." + DidYouMean(word, known);
  }
  std::cerr << "weft: " << sentence << "\n`" << path << " --help` says what there is.\n";
  return kExitUsage;
}

}  // namespace weft::apps
