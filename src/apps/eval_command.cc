// `weft eval`: one package in this process against reference logits, or against text.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <cstring>
#include <iostream>

#include "api/model_text.h"
#include "apps/commands.h"
#include "apps/local_options.h"
#include "apps/model_info.h"
#include "apps/text_evaluation.h"
#include "base/file.h"
#include "convert/source/safetensors.h"

namespace weft::apps {
namespace json = boost::json;

namespace {

// Steps whose best two logits are closer than this may differ between correct engines.
constexpr float kMarginThatCounts = 1e-3f;
constexpr size_t kMaxDocumentTokens = 512;

struct EvalOptions : LocalOptions {
  std::string reference;
  std::string text;
  bool split_everywhere = false;
};

struct Reference {
  std::vector<int32_t> input_ids;
  std::vector<float> logits;
  std::vector<int32_t> greedy_ids;
  std::vector<float> greedy_margin;
};

// The values of one tensor; kInvalidData when it is missing or of another dtype.
template <typename T>
Result<std::vector<T>> ReadTensor(const convert::TensorMap& tensors, const std::string& name,
                                  std::string_view type, const std::string& file) {
  const auto found = tensors.find(name);
  if (found == tensors.end() || found->second.type_name != type) {
    return Error(ErrorCode::kInvalidData,
                 "'" + file + "' has no tensor '" + name + "' of type " + std::string(type) + ".");
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
  ASSIGN_OR_RETURN(const auto input_ids, ReadTensor<int64_t>(tensors, "input_ids", "I64", path));
  ASSIGN_OR_RETURN(const auto greedy_ids, ReadTensor<int64_t>(tensors, "greedy_ids", "I64", path));
  ASSIGN_OR_RETURN(reference.logits, ReadTensor<float>(tensors, "logits", "F32", path));
  ASSIGN_OR_RETURN(reference.greedy_margin,
                   ReadTensor<float>(tensors, "greedy_margin", "F32", path));
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

Status EvalReference(const package::Package& package, const EvalOptions& options) {
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

json::object Summary(const TextEvaluation& evaluation, size_t documents) {
  json::object mean, highest;
  for (size_t i = 0; i < TextEvaluation::kCandidateCounts.size(); ++i) {
    const std::string count = std::to_string(TextEvaluation::kCandidateCounts[i]);
    mean[count] = evaluation.MeanTail(i);
    highest[count] = evaluation.HighestTail(i);
  }
  return {{"documents", documents},
          {"tokens", evaluation.tokens()},
          {"perplexity", evaluation.Perplexity()},
          {"mean_tail_beyond_k", mean},
          {"highest_tail_beyond_k", highest}};
}

// Each document is a prompt of its own, cut after kMaxDocumentTokens.
Status EvalText(const package::Package& package, const EvalOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<std::string> documents, ReadDocuments(options.text));
  ASSIGN_OR_RETURN(const api::ModelText text, LoadModelText(package));
  LocalSwarm swarm(package, SwarmOptions(options, kMaxDocumentTokens + 2));
  TextEvaluation evaluation(package.manifest.vocabulary);
  for (const std::string& document : documents) {
    ASSIGN_OR_RETURN(std::vector<int32_t> ids, text.EncodeText(document));
    if (ids.size() > kMaxDocumentTokens) ids.resize(kMaxDocumentTokens);
    if (ids.size() < 2) continue;
    swarm::Request request;
    request.prompt_ids = ids;
    request.max_tokens = 1;
    request.sampling.temperature = 0;
    request.want_logits = true;
    ASSIGN_OR_RETURN(const LocalAnswer answer, swarm.Run(std::move(request)));
    const size_t predicted = (ids.size() - 1) * package.manifest.vocabulary;
    if (answer.prompt_logits.size() < predicted) {
      return Error(ErrorCode::kInvalidData, "The model gave too few logits.");
    }
    TRY(evaluation.Add(std::span(answer.prompt_logits).first(predicted),
                       std::span<const int32_t>(ids).subspan(1)));
  }
  if (evaluation.tokens() == 0) {
    return Error(ErrorCode::kInvalidData,
                 "'" + options.text + "' has no document of two tokens or more.");
  }
  std::cout << json::serialize(Summary(evaluation, documents.size())) << "\n";
  return OkStatus();
}

Status Eval(EvalOptions options) {
  ASSIGN_OR_RETURN(const package::Package package, package::Package::Open(options.package));
  if (options.split_everywhere)
    options.workers = static_cast<uint32_t>(package.manifest.layers.size());
  TRY(CheckWorkers(package, options.workers));
  return options.text.empty() ? EvalReference(package, options) : EvalText(package, options);
}

}  // namespace

void AddEvalCommand(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<EvalOptions>();
  CLI::App* command = app.add_subcommand("eval",
                                         "Compare a package with reference logits and greedy ids, "
                                         "or measure its perplexity on a text; "
                                         "prints JSON.");
  AddLocalOptions(*command, *options);
  CLI::Option_group* against = command->add_option_group("against", "What to compare with");
  against->add_option("--reference", options->reference,
                      "A safetensors file with input_ids, logits, greedy_ids, greedy_margin");
  against->add_option("--text", options->text,
                      "JSON lines, a document each: perplexity, and the probability beyond the k "
                      "best tokens");
  against->require_option(1);
  command->add_flag("--split-everywhere", options->split_everywhere, "One worker for each layer");
  command->callback([options, exit_code] { *exit_code = ReportStatus(Eval(*options)); });
}

}  // namespace weft::apps
