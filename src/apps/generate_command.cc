// `weft generate`: one model in this process, without a server, cut over N workers. The text does
// not depend on N. With --prompt-ids, --json and --logits it is the reference that other engines
// are compared with.
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
  std::vector<int32_t> prompt_ids;
  uint32_t max_tokens = 128;
  bool ignore_stop = false;
  bool as_json = false;
  bool with_logits = false;
};

template <typename T>
json::array ToArray(const std::vector<T>& values) {
  json::array array;
  for (const T value : values) array.push_back(value);
  return array;
}

json::object ToJson(const GenerateOptions& options, const std::vector<int32_t>& prompt_ids,
                    const LocalAnswer& answer) {
  const double tokens = static_cast<double>(answer.output_ids.size());
  json::object object = {
      {"prompt_ids", ToArray(prompt_ids)},
      {"output_ids", ToArray(answer.output_ids)},
      {"time_to_first_token_ms", answer.time_to_first_token.ms()},
      {"ms_per_token", tokens > 1 ? answer.decode_time.ms() / (tokens - 1) : 0.0}};
  if (options.with_logits) object["logits"] = ToArray(answer.prompt_logits);
  return object;
}

// Ids are taken as they are: a package without a tokenizer will do.
Status GenerateFromIds(const GenerateOptions& options, const package::Package& package) {
  for (const int32_t id : options.prompt_ids) {
    if (id >= 0 && static_cast<uint32_t>(id) < package.manifest.vocabulary) continue;
    return Error(ErrorCode::kInvalidArgument,
                 "Token id " + std::to_string(id) + " is outside the vocabulary of " +
                     std::to_string(package.manifest.vocabulary) + ".");
  }
  swarm::Request request;
  request.prompt_ids = options.prompt_ids;
  request.max_tokens = options.max_tokens;
  request.sampling.temperature = 0;
  request.want_logits = options.with_logits;
  LocalSwarm swarm(package,
                   SwarmOptions(options, options.prompt_ids.size() + options.max_tokens + 1));
  ASSIGN_OR_RETURN(const LocalAnswer answer, swarm.Run(std::move(request)));
  std::cout << json::serialize(ToJson(options, options.prompt_ids, answer)) << "\n";
  return OkStatus();
}

Status Generate(const GenerateOptions& options) {
  ASSIGN_OR_RETURN(const package::Package package, package::Package::Open(options.package));
  TRY(CheckWorkers(package, options.workers));
  if (!options.prompt_ids.empty()) return GenerateFromIds(options, package);
  ASSIGN_OR_RETURN(const api::ModelText text, LoadModelText(package));
  swarm::Request request;
  ASSIGN_OR_RETURN(request.prompt_ids, text.EncodeText(options.prompt));
  request.max_tokens = options.max_tokens;
  request.sampling.temperature = 0;
  request.want_logits = options.with_logits;
  if (!options.ignore_stop) request.stop_ids = text.stop_ids();
  const std::vector<int32_t> prompt_ids = request.prompt_ids;
  LocalSwarm swarm(package, SwarmOptions(options, prompt_ids.size() + options.max_tokens + 1));
  ASSIGN_OR_RETURN(const LocalAnswer answer, swarm.Run(std::move(request)));
  const std::string output = text.tokenizer().Decode(answer.output_ids, true);
  if (!options.as_json) {
    std::cout << output << "\n";
    return OkStatus();
  }
  json::object object = ToJson(options, prompt_ids, answer);
  object["text"] = output;
  std::cout << json::serialize(object) << "\n";
  return OkStatus();
}

}  // namespace

void AddGenerateCommand(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<GenerateOptions>();
  CLI::App* command =
      app.add_subcommand("generate", "Continue a text greedily in this process, without a server.");
  AddLocalOptions(*command, *options);
  CLI::Option_group* prompt = command->add_option_group("prompt", "What to continue");
  prompt->add_option("--prompt", options->prompt, "The text, taken as it is (no chat template)");
  prompt
      ->add_option("--prompt-ids", options->prompt_ids,
                   "Token ids, separated by commas; prints JSON, and no id ends the answer")
      ->delimiter(',');
  prompt->require_option(1);
  command->add_option("--max-tokens", options->max_tokens, "Tokens at most")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  command->add_flag("--ignore-stop", options->ignore_stop, "Go on after an end-of-text token");
  command->add_flag("--json", options->as_json,
                    "Print prompt_ids, output_ids, text and times as JSON");
  command->add_flag(
      "--logits", options->with_logits,
      "With JSON: also the logits of every token of the prompt, [tokens, vocabulary]");
  command->callback([options, exit_code] { *exit_code = ReportStatus(Generate(*options)); });
}

}  // namespace weft::apps
