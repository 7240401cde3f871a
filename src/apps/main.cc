// `weft`: one program for the server, native workers and tools.
#include "apps/commands.h"
#include "apps/convert_command.h"
#include "apps/usage_errors.h"
#include "base/log.h"
#include "base/secret.h"
#include "wire/protobuf_log.h"
#include "wire/version.h"

namespace weft::apps {

namespace {

int Main(const std::vector<std::string>& arguments) {
  CLI::App app(
      "weft runs a language model that is too big for any one of your devices on all of them "
      "together.");
  app.set_version_flag("--version", std::string("weft ") + wire::kServerVersion);
  app.require_subcommand(1);
  std::string log_level = "info";
  app.add_option("--log", log_level, "How much to log: error, warn or info")
      ->capture_default_str()
      ->check([](const std::string& level) {
        return SetLogLevel(level) ? std::string() : "'" + level + "' is no level of logging";
      });
  SetLogLevel(log_level);
  wire::SilenceProtobuf();
  int exit_code = 0;
  AddServeCommand(app, &exit_code);
  AddConfigCommand(app, &exit_code);
  AddWorkerCommand(app, &exit_code);
  AddRunCommand(app, &exit_code);
  AddPullCommand(app, &exit_code);
  AddLibraryCommands(app, &exit_code);
  AddKeysCommand(app, &exit_code);
  AddStateCommand(app, &exit_code);
  AddClusterCommand(app, &exit_code);
  AddJoinLinkCommand(app, &exit_code);
  AddConvertCommand(app, &exit_code);
  AddGroupsCommand(app, &exit_code);
  AddProfileCommand(app, &exit_code);
  AddPlanCommand(app, &exit_code);
  AddGenerateCommand(app, &exit_code);
  AddEvalCommand(app, &exit_code);
  AddTextCommands(app, &exit_code);
  AddGrammarCommand(app, &exit_code);
  AddSimCommand(app, &exit_code);
  AddOnnxSplitCommand(app, &exit_code);
  try {
    std::vector<const char*> pointers;
    for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
    app.parse(static_cast<int>(pointers.size()), pointers.data());
  } catch (const CLI::ParseError& error) {
    return ReportParseError(app, error);
  }
  return exit_code;
}

}  // namespace
}  // namespace weft::apps

int main(int argc, char** argv) {
  // Before anything else: until then everybody on this machine may read them.
  return weft::apps::Main(weft::TakeArguments(argc, argv));
}
