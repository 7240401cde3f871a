// `weft generate`: one model in this process, without a server, cut over N workers. The text does
// not depend on N.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <iostream>

#include "api/model_text.h"
#include "apps/commands.h"
#include "apps/local_options.h"
#include "apps/model_info.h"
#include "package/package.h"

namespace weft::apps {
namespace json = boost::json;

namespace {

struct GenerateOptions : LocalOptions {
  std::string prompt;
  uint32_t max_tokens = 128;
  bool ignore_stop = false;
  bool as_json = false;
};

template <typename T>
json::array ToArray(const std::vector<T>& values) {
  json::array array;
  for (const T value : values) array.push_back(value);
  return array;
}

Status Generate(const GenerateOptions& options) {
  ASSIGN_OR_RETURN(const package::Package package, package::Package::Open(options.package));
  TRY(CheckWorkers(package, options.workers));
  ASSIGN_OR_RETURN(const api::ModelText text, LoadModelText(package));
  swarm::Request request;
  ASSIGN_OR_RETURN(request.prompt_ids, text.EncodeText(options.prompt));
  request.max_tokens = options.max_tokens;
  request.sampling.temperature = 0;
  if (!options.ignore_stop) request.stop_ids = text.stop_ids();
  const std::vector<int32_t> prompt_ids = request.prompt_ids;
  LocalSwarm swarm(package, SwarmOptions(options, prompt_ids.size() + options.max_tokens + 1));
  ASSIGN_OR_RETURN(const LocalAnswer answer, swarm.Run(std::move(request)));
  const std::string output = text.tokenizer().Decode(answer.output_ids, true);
  if (!options.as_json) {
    std::cout << output << "\n";
    return OkStatus();
  }
  const double tokens = static_cast<double>(answer.output_ids.size());
  std::cout << json::serialize(json::object{
                   {"prompt_ids", ToArray(prompt_ids)},
                   {"output_ids", ToArray(answer.output_ids)},
                   {"text", output},
                   {"time_to_first_token_ms", answer.time_to_first_token.ms()},
                   {"ms_per_token", tokens > 1 ? answer.decode_time.ms() / (tokens - 1) : 0.0}})
            << "\n";
  return OkStatus();
}

}  // namespace

void AddGenerateCommand(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<GenerateOptions>();
  CLI::App* command =
      app.add_subcommand("generate", "Continue a text greedily in this process, without a server.");
  AddLocalOptions(*command, *options);
  command->add_option("--prompt", options->prompt, "The text, taken as it is (no chat template)")
      ->required();
  command->add_option("--max-tokens", options->max_tokens, "Tokens at most")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  command->add_flag("--ignore-stop", options->ignore_stop, "Go on after an end-of-text token");
  command->add_flag("--json", options->as_json,
                    "Print prompt_ids, output_ids, text and times as JSON");
  command->callback([options, exit_code] { *exit_code = ReportStatus(Generate(*options)); });
}

}  // namespace weft::apps
