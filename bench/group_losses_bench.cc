// What lost neuron groups cost in accuracy (`./dev bench group-losses PACKAGE TEXT [SEEDS]`,
// docs/tensor-groups.md), in the form of the tables II and V of halo-lossy-networks.
//
// PACKAGE is one of `weft groups`, TEXT one document a line. A device has a quarter of the groups
// of every layer and sends their sum in datagrams of 256 columns; of these a share is lost, each
// with what the quarter adds to its columns. Which quarter it is decides what that costs:
//   random     any, chosen anew for every row and layer
//   high, low  those whose outputs are the largest or smallest of this row, which nobody can know
//   static     those whose outputs are the smallest on the calibration text
//   predicted  those that the package's predictors (`weft profile`) say are the smallest of this
//              row, by the row of the layer before; left out, and said, where it has none
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/group_calibration.h"
#include "apps/model_info.h"
#include "apps/text_evaluation.h"
#include "base/random.h"
#include "engine/engine.h"
#include "package/group_predictor.h"
#include "package/package.h"
#include "program/product_ranges.h"
#include "program/shards.h"
#include "wire/group_sums.h"
#include "worker/layer_loader.h"
#include "worker/package_source.h"

namespace weft {
namespace {

constexpr size_t kMostTokens = 256, kMostDocuments = 40;
constexpr double kShare = 0.25;  // of the groups

enum class Which { kRandom, kHigh, kLow, kStatic, kPredicted };
const char* NameOf(Which which) {
  static constexpr const char* kNames[] = {"random", "high norm", "low norm", "static",
                                           "predicted"};
  return kNames[static_cast<size_t>(which)];
}

struct Outcome {
  double perplexity = 0, same_best = 0;  // as without loss
};

class Model {
 public:
  static Result<std::unique_ptr<Model>> Open(const std::string& folder, const std::string& text) {
    auto model = std::make_unique<Model>();
    ASSIGN_OR_RETURN(package::Package package, package::Package::Open(folder));
    ASSIGN_OR_RETURN(const api::ModelText words, apps::LoadModelText(package));
    ASSIGN_OR_RETURN(const std::vector<std::string> texts, apps::ReadDocuments(text));
    for (const std::string& document : texts) {
      if (model->documents_.size() == kMostDocuments) break;
      ASSIGN_OR_RETURN(std::vector<int32_t> ids, words.EncodeText(document));
      if (ids.size() > kMostTokens) ids.resize(kMostTokens);
      if (ids.size() >= 2) model->documents_.push_back(std::move(ids));
    }
    for (const swarm::ModelLayer& layer : apps::ModelInfoOf(package).layers)
      model->norms_.push_back(layer.group_norms);
    model->manifest_ = package.manifest;
    for (const package::LayerInfo& layer : package.manifest.layers) {
      auto& predictor = model->predictors_.emplace_back();
      if (layer.predictor == package::Digest()) continue;
      ASSIGN_OR_RETURN(
          const Slice blob,
          package.blobs->Get(layer.predictor, package.manifest.blobs.at(layer.predictor)));
      ASSIGN_OR_RETURN(predictor, package::DecodePredictor(blob.bytes()));
    }
    TRY(model->Load(std::move(package)));
    if (!model->documents_.empty()) return model;
    return Error(ErrorCode::kInvalidArgument, "'" + text + "' has no document.");
  }

  // The documents, with this share of the datagrams lost. The first call has to be without loss:
  // the others are compared with it.
  Result<Outcome> Run(Which which, double loss, uint64_t seed) {
    random_ = SeededRandom(seed);
    which_ = which;
    loss_ = loss;
    apps::TextEvaluation evaluation(manifest_.vocabulary);
    uint64_t same = 0, row_count = 0;
    const bool is_first = best_.empty();
    for (const std::vector<int32_t>& ids : documents_) {
      ASSIGN_OR_RETURN(const std::vector<float> logits, Logits(ids));
      const size_t vocabulary = manifest_.vocabulary;
      for (size_t row = 0; row < ids.size(); ++row) {
        const auto values = std::span(logits).subspan(row * vocabulary, vocabulary);
        const auto best = std::max_element(values.begin(), values.end()) - values.begin();
        if (is_first) best_.push_back(best);
        if (best_[row_count++] == best) ++same;
      }
      TRY(evaluation.Add(std::span(logits).first((ids.size() - 1) * vocabulary),
                         std::span(ids).subspan(1)));
    }
    return Outcome{evaluation.Perplexity(),
                   static_cast<double>(same) / static_cast<double>(row_count)};
  }

  bool has_predictors() const {
    return std::any_of(predictors_.begin(), predictors_.end(),
                       [](const auto& predictor) { return predictor.has_value(); });
  }

 private:
  Status Load(package::Package package) {
    loader_ = std::make_unique<worker::LayerLoader>(manifest_,
                                                    worker::MakeLocalSource(std::move(package)));
    const auto layers = static_cast<uint32_t>(manifest_.layers.size());
    ASSIGN_OR_RETURN(const auto programs, loader_->Programs(0, layers));
    std::vector<program::Program> hubs, shards;
    for (const program::Program& layer : programs) {
      const bool is_hub = program::HasGroups(layer);  // the head stays whole
      hubs.push_back(is_hub ? program::HubProgram(program::WithWholeProducts(layer)) : layer);
      if (!is_hub) continue;
      std::vector<uint32_t> all(program::FindExperts(layer)->experts);
      std::iota(all.begin(), all.end(), 0u);
      ASSIGN_OR_RETURN(shards.emplace_back(), program::ExpertProgram(layer, all));
    }
    if (shards.empty())
      return Error(ErrorCode::kInvalidArgument, "The package is not one of `weft groups`.");
    TRY(hub_->Load(hubs, *loader_));
    return holder_->Load(shards, *loader_);
  }

  Result<std::vector<float>> Logits(const std::vector<int32_t>& ids) {
    const engine::Run run = {
        ++session_, 0, 0, static_cast<uint32_t>(ids.size()), {engine::OutputKind::kLogits}};
    const auto layers = static_cast<uint32_t>(manifest_.layers.size());
    ASSIGN_OR_RETURN(engine::StepProgress progress, hub_->Begin({{0, layers}, {&run, 1}, ids, {}}));
    while (auto* pending = std::get_if<std::unique_ptr<engine::PendingStep>>(&progress)) {
      ASSIGN_OR_RETURN(const std::vector<float> sums, Sums((*pending)->request()));
      ASSIGN_OR_RETURN(progress, hub_->Resume(std::move(*pending), sums));
    }
    hub_->Release(session_);
    return std::move(std::get<engine::StepOutput>(progress).logits);
  }

  Result<std::vector<float>> Sums(const engine::SlotRequest& request) {
    const size_t columns = request.columns, groups = request.top_k;
    std::vector<float> rows;
    for (size_t slot = 0; slot < request.row_count * groups; ++slot) {
      const auto in = request.in.subspan(slot / groups * columns, columns);
      rows.insert(rows.end(), in.begin(), in.end());
      rows.push_back(static_cast<float>(slot % groups));
      rows.push_back(1);
    }
    const engine::Run run = {1,
                             ++generation_,
                             0,
                             static_cast<uint32_t>(request.row_count * groups),
                             {engine::OutputKind::kHidden}};
    ASSIGN_OR_RETURN(const engine::StepOutput output,
                     holder_->Step({{request.layer, request.layer + 1}, {&run, 1}, {}, rows}));
    std::vector<float> sums(request.row_count * columns);
    rows_of_[request.layer].assign(request.in.begin(), request.in.end());
    for (size_t row = 0; row < request.row_count; ++row) {
      const auto outputs =
          std::span(output.hidden).subspan(row * groups * columns, groups * columns);
      const std::vector<bool> quarter = Quarter(request.layer, row, outputs, groups);
      for (size_t first = 0; first < columns; first += wire::kFragmentColumns) {
        const bool is_lost = random_.Uniform() < loss_;
        for (size_t group = 0; group < groups; ++group) {
          if (is_lost && quarter[group]) continue;
          for (size_t i = first; i < std::min<size_t>(columns, first + wire::kFragmentColumns); ++i)
            sums[row * columns + i] += outputs[group * columns + i];
        }
      }
    }
    return sums;
  }

  // Whose groups the device with the lossy line has.
  std::vector<bool> Quarter(uint32_t layer, size_t row, std::span<const float> outputs,
                            size_t groups) {
    std::vector<double> order(groups);
    std::vector<float> predicted(groups);
    if (which_ == Which::kPredicted && predictors_[layer]) {
      const std::vector<float>& rows = rows_of_[predictors_[layer]->reads];
      const size_t columns = manifest_.hidden_columns;
      predicted = predictors_[layer]->Predict(std::span(rows).subspan(row * columns, columns));
    }
    for (size_t group = 0; group < groups; ++group) {
      double squares = 0;
      for (const float value :
           outputs.subspan(group * outputs.size() / groups, outputs.size() / groups))
        squares += double{value} * value;
      if (which_ == Which::kRandom) order[group] = random_.Uniform();
      if (which_ == Which::kHigh) order[group] = -squares;
      if (which_ == Which::kLow) order[group] = squares;
      if (which_ == Which::kStatic) order[group] = norms_[layer].empty() ? 0 : norms_[layer][group];
      if (which_ == Which::kPredicted) order[group] = predicted[group];
    }
    std::vector<size_t> places(groups);
    std::iota(places.begin(), places.end(), size_t{0});
    std::stable_sort(places.begin(), places.end(),
                     [&](size_t a, size_t b) { return order[a] < order[b]; });
    std::vector<bool> quarter(groups, false);
    const auto count =
        std::max<size_t>(1, static_cast<size_t>(kShare * static_cast<double>(groups)));
    for (size_t i = 0; i < count; ++i) quarter[places[i]] = true;
    return quarter;
  }

  package::Manifest manifest_;
  std::unique_ptr<worker::LayerLoader> loader_;
  std::unique_ptr<engine::StageEngine> hub_ =
      engine::MakeNativeEngine({.thread_count = 2, .residual_dtype = DType::kF16});
  std::unique_ptr<engine::StageEngine> holder_ = engine::MakeNativeEngine({.thread_count = 2});
  apps::Documents documents_;
  std::vector<std::vector<float>> norms_;
  std::vector<std::optional<package::GroupPredictor>> predictors_;  // by layer
  std::map<uint32_t, std::vector<float>> rows_of_;  // that each layer gave to its groups last
  std::vector<ptrdiff_t> best_;                     // of each row, without loss
  SeededRandom random_{1};
  Which which_ = Which::kRandom;
  double loss_ = 0;
  uint32_t session_ = 0, generation_ = 0;
};

Status Run(int argc, char** argv) {
  if (argc < 3) return Error(ErrorCode::kInvalidArgument, "Expected PACKAGE TEXT [SEEDS].");
  uint64_t seeds = 4;
  if (argc > 3) {
    const std::string_view text = argv[3];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seeds);
    if (error != std::errc() || end != text.data() + text.size() || seeds == 0)
      return Error(ErrorCode::kInvalidArgument,
                   "Expected a number of seeds, got '" + std::string(text) + "'.");
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, Model::Open(argv[1], argv[2]));
  ASSIGN_OR_RETURN(const Outcome none, model->Run(Which::kRandom, 0, 0));
  std::printf(
      "| lost | whose groups | perplexity | worse by | same best token |\n"
      "|---:|---|---:|---:|---:|\n| 0 | | %.4f | | 100%% |\n",
      none.perplexity);
  const auto row = [&](double loss, Which which) -> Status {
    Outcome mean;
    for (uint64_t seed = 1; seed <= seeds; ++seed) {
      ASSIGN_OR_RETURN(const Outcome outcome, model->Run(which, loss, seed));
      mean.perplexity += outcome.perplexity / static_cast<double>(seeds);
      mean.same_best += outcome.same_best / static_cast<double>(seeds);
    }
    std::printf("| %g%% | %s | %.4f | %.2f%% | %.2f%% |\n", 100 * loss, NameOf(which),
                mean.perplexity, 100 * (mean.perplexity / none.perplexity - 1),
                100 * mean.same_best);
    std::fflush(stdout);
    return OkStatus();
  };
  std::vector<Which> lossy = {Which::kRandom, Which::kStatic};
  if (model->has_predictors())
    lossy.push_back(Which::kPredicted);
  else
    std::fprintf(stderr, "SKIPPED: predicted, as the package has no predictors (weft profile)\n");
  for (const Which which : {Which::kHigh, Which::kLow}) TRY(row(0.1, which));
  for (const double loss : {0.1, 0.01, 0.02, 0.05})
    for (const Which which : lossy) TRY(row(loss, which));
  return OkStatus();
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  const weft::Status status = weft::Run(argc, argv);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.error().ToString().c_str());
  return 1;
}
