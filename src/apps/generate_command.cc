// `weft generate` and `weft eval`: one model in this process, without a server, cut over N workers.
// The text of the first and the numbers of the second do not depend on N.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <cstring>
#include <iostream>

#include "api/model_text.h"
#include "apps/commands.h"
#include "apps/local_swarm.h"
#include "apps/model_info.h"
#include "base/file.h"
#include "convert/safetensors.h"
#include "package/package.h"

namespace weft::apps {
namespace json = boost::json;

namespace {

// Steps whose best two logits are closer than this may differ between correct engines.
constexpr float kMarginThatCounts = 1e-3f;

struct LocalOptions {
  std::string package;
  uint32_t workers = 1;
  uint32_t threads = 1;
  bool reference_kernels = false;
};

struct GenerateOptions : LocalOptions {
  std::string prompt;
  uint32_t max_tokens = 128;
  bool ignore_stop = false;
  bool as_json = false;
};

struct EvalOptions : LocalOptions {
  std::string reference;
  bool split_everywhere = false;
};

Status CheckedWorkers(const package::Package& package, uint32_t workers) {
  if (workers <= package.manifest.layers.size()) return OkStatus();
  return Error(ErrorCode::kInvalidArgument, std::to_string(workers) +
                                                " workers cannot share a model of " +
                                                std::to_string(package.manifest.layers.size()) +
                                                " layers: at most one a layer.");
}

LocalSwarmOptions SwarmOptions(const LocalOptions& options, size_t positions) {
  LocalSwarmOptions swarm;
  swarm.worker_count = options.workers;
  swarm.threads_per_worker = options.threads;
  swarm.context_length = static_cast<uint32_t>(positions);
  swarm.reference_kernels = options.reference_kernels;
  return swarm;
}

template <typename T>
json::array ToArray(const std::vector<T>& values) {
  json::array array;
  for (const T value : values) array.push_back(value);
  return array;
}

Status Generate(const GenerateOptions& options) {
  ASSIGN_OR_RETURN(const package::Package package, package::Package::Open(options.package));
  TRY(CheckedWorkers(package, options.workers));
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

struct Reference {
  std::vector<int32_t> input_ids;
  std::vector<float> logits;
  std::vector<int32_t> greedy_ids;
  std::vector<float> greedy_margin;
};

// The values of one tensor; kInvalidData when it is missing or of another dtype.
template <typename T>
Result<std::vector<T>> ReadTensor(const convert::TensorMap& tensors, const std::string& name,
                                  DType dtype, const std::string& file) {
  const auto found = tensors.find(name);
  if (found == tensors.end() || found->second.dtype != dtype) {
    return Error(ErrorCode::kInvalidData, "'" + file + "' has no tensor '" + name + "' of type " +
                                              std::string(DTypeName(dtype)) + ".");
  }
  const ByteSpan bytes = found->second.bytes.bytes();
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

Result<Reference> LoadReference(const std::string& path, uint32_t vocabulary) {
  ASSIGN_OR_RETURN(const auto file, MappedFile::Open(path));
  ASSIGN_OR_RETURN(const auto tensors, convert::ParseSafetensors(AsSlice(file), path));
  Reference reference;
  ASSIGN_OR_RETURN(const auto input_ids,
                   ReadTensor<int64_t>(tensors, "input_ids", DType::kI64, path));
  ASSIGN_OR_RETURN(const auto greedy_ids,
                   ReadTensor<int64_t>(tensors, "greedy_ids", DType::kI64, path));
  ASSIGN_OR_RETURN(reference.logits, ReadTensor<float>(tensors, "logits", DType::kF32, path));
  ASSIGN_OR_RETURN(reference.greedy_margin,
                   ReadTensor<float>(tensors, "greedy_margin", DType::kF32, path));
  for (const int64_t id : input_ids) reference.input_ids.push_back(static_cast<int32_t>(id));
  for (const int64_t id : greedy_ids) reference.greedy_ids.push_back(static_cast<int32_t>(id));
  if (reference.input_ids.empty() ||
      reference.greedy_margin.size() != reference.greedy_ids.size() ||
      reference.logits.size() != reference.input_ids.size() * vocabulary) {
    return Error(ErrorCode::kInvalidData,
                 "'" + path +
                     "' does not fit the package: " + std::to_string(reference.logits.size()) +
                     " logits for " + std::to_string(reference.input_ids.size()) +
                     " positions of a vocabulary of " + std::to_string(vocabulary) + ".");
  }
  return reference;
}

json::object Compare(const Reference& reference, const LocalAnswer& answer) {
  double max_error = 0;
  for (size_t i = 0; i < reference.logits.size(); ++i) {
    const double error =
        i < answer.prompt_logits.size()
            ? std::fabs(double{reference.logits[i]} - double{answer.prompt_logits[i]})
            : INFINITY;
    if (!(error <= max_error)) max_error = error;
  }
  json::value first_difference = nullptr;
  bool equal = true;
  for (size_t i = 0; i < reference.greedy_ids.size(); ++i) {
    if (i < answer.output_ids.size() && answer.output_ids[i] == reference.greedy_ids[i]) continue;
    equal = i < answer.output_ids.size() && reference.greedy_margin[i] < kMarginThatCounts;
    first_difference =
        json::object{{"step", i},
                     {"expected", reference.greedy_ids[i]},
                     {"got", i < answer.output_ids.size() ? answer.output_ids[i] : -1},
                     {"margin", reference.greedy_margin[i]}};
    break;
  }
  return {{"max_abs_logit_error", max_error},
          {"greedy_equal", equal},
          {"first_difference", first_difference},
          {"greedy_steps", reference.greedy_ids.size()}};
}

Status Eval(EvalOptions options) {
  ASSIGN_OR_RETURN(const package::Package package, package::Package::Open(options.package));
  if (options.split_everywhere)
    options.workers = static_cast<uint32_t>(package.manifest.layers.size());
  TRY(CheckedWorkers(package, options.workers));
  ASSIGN_OR_RETURN(const Reference reference,
                   LoadReference(options.reference, package.manifest.vocabulary));
  swarm::Request request;
  request.prompt_ids = reference.input_ids;
  request.max_tokens = static_cast<uint32_t>(reference.greedy_ids.size());
  request.sampling.temperature = 0;
  request.want_logits = true;
  LocalSwarm swarm(package,
                   SwarmOptions(options, request.prompt_ids.size() + request.max_tokens + 1));
  ASSIGN_OR_RETURN(const LocalAnswer answer, swarm.Run(std::move(request)));
  json::object outcome = Compare(reference, answer);
  outcome["workers"] = options.workers;
  std::cout << json::serialize(outcome) << "\n";
  return OkStatus();
}

void AddLocalOptions(CLI::App& command, LocalOptions& options) {
  command.add_option("package", options.package, "A folder that 'weft convert' wrote")->required();
  command.add_option("--workers", options.workers, "Native workers to cut the model over")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  command.add_option("--threads", options.threads, "Threads of each worker")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  command.add_flag("--reference-kernels", options.reference_kernels,
                   "Use the scalar kernels that the others are judged by");
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

void AddEvalCommand(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<EvalOptions>();
  CLI::App* command = app.add_subcommand(
      "eval", "Compare a package with reference logits and greedy ids; prints JSON.");
  AddLocalOptions(*command, *options);
  command
      ->add_option("--reference", options->reference,
                   "A safetensors file with input_ids, logits, greedy_ids, greedy_margin")
      ->required();
  command->add_flag("--split-everywhere", options->split_everywhere, "One worker for each layer");
  command->callback([options, exit_code] { *exit_code = ReportStatus(Eval(*options)); });
}

}  // namespace weft::apps
