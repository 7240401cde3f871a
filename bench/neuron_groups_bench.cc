// What rounding the outputs of neuron groups to a grid costs in accuracy
// (`./dev bench neuron-groups PACKAGE TEXT COLUMNS...`, docs/tensor-groups.md).
//
// TEXT is one document a line, as `weft eval --text` takes it. A tenth of the documents shows how
// large the groups' outputs are in each layer, which makes the grids; the rest is predicted by the
// dense model, by its groups as they are, and by its groups on the grids.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "apps/group_calibration.h"
#include "apps/model_info.h"
#include "apps/text_evaluation.h"
#include "engine/engine.h"
#include "package/package.h"
#include "program/shards.h"
#include "worker/layer_loader.h"
#include "worker/package_source.h"

namespace weft {
namespace {

constexpr size_t kMostTokens = 512;
using Programs = std::vector<program::Program>;

struct Model {
  package::Manifest manifest;
  std::unique_ptr<worker::LayerLoader> loader;
  Programs programs;
  apps::Documents documents;
  size_t calibration = 0;  // documents
};

Result<Model> Open(const std::string& folder, const std::string& text_path) {
  ASSIGN_OR_RETURN(package::Package package, package::Package::Open(folder));
  ASSIGN_OR_RETURN(const api::ModelText text, apps::LoadModelText(package));
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, apps::ReadDocuments(text_path));
  Model model;
  model.manifest = package.manifest;
  model.loader = std::make_unique<worker::LayerLoader>(model.manifest,
                                                       worker::MakeLocalSource(std::move(package)));
  const auto layers = static_cast<uint32_t>(model.manifest.layers.size());
  ASSIGN_OR_RETURN(model.programs, model.loader->Programs(0, layers));
  for (const std::string& document : texts) {
    ASSIGN_OR_RETURN(std::vector<int32_t> ids, text.EncodeText(document));
    if (ids.size() > kMostTokens) ids.resize(kMostTokens);
    if (ids.size() >= 2) model.documents.push_back(std::move(ids));
  }
  model.calibration = (model.documents.size() + 9) / 10;
  if (model.documents.size() > model.calibration) return model;
  return Error(ErrorCode::kInvalidArgument, "'" + text_path + "' has less than two documents.");
}

std::unique_ptr<engine::StageEngine> MakeEngine(const Model& model) {
  return engine::MakeNativeEngine(
      {.thread_count = 2, .residual_dtype = model.manifest.boundary_dtype});
}

// One document through all layers, its logits on every position.
Result<std::vector<float>> Logits(engine::StageEngine& engine, const Model& model,
                                  const std::vector<int32_t>& ids, uint32_t session) {
  const engine::Run run = {
      session, 0, 0, static_cast<uint32_t>(ids.size()), {engine::OutputKind::kLogits}};
  const auto layers = static_cast<uint32_t>(model.programs.size());
  ASSIGN_OR_RETURN(engine::StepOutput output, engine.Step({{0, layers}, {&run, 1}, ids, {}}));
  engine.Release(session);
  return std::move(output.logits);
}

struct Outcome {
  double perplexity = 0;
  double largest_difference = 0;  // of a logit, from the dense model
  double same_best = 0;           // share of positions with the dense model's best token
};

Result<Outcome> Evaluate(const Model& model, const Programs& programs) {
  const auto dense = MakeEngine(model), other = MakeEngine(model);
  TRY(dense->Load(model.programs, *model.loader));
  TRY(other->Load(programs, *model.loader));
  apps::TextEvaluation evaluation(model.manifest.vocabulary);
  Outcome outcome;
  uint64_t rows = 0, same = 0;
  for (size_t i = model.calibration; i < model.documents.size(); ++i) {
    const std::vector<int32_t>& ids = model.documents[i];
    const auto session = static_cast<uint32_t>(i + 1);
    ASSIGN_OR_RETURN(const std::vector<float> expected, Logits(*dense, model, ids, session));
    ASSIGN_OR_RETURN(const std::vector<float> got, Logits(*other, model, ids, session));
    const size_t vocabulary = model.manifest.vocabulary;
    for (size_t row = 0; row < ids.size(); ++row) {
      const auto at = static_cast<ptrdiff_t>(row * vocabulary);
      const auto best = [&](const std::vector<float>& logits) {
        return std::max_element(logits.begin() + at,
                                logits.begin() + at + static_cast<ptrdiff_t>(vocabulary)) -
               logits.begin();
      };
      ++rows;
      if (best(expected) == best(got)) ++same;
    }
    for (size_t j = 0; j < got.size(); ++j)
      outcome.largest_difference = std::max(outcome.largest_difference,
                                            std::fabs(static_cast<double>(expected[j]) - got[j]));
    TRY(evaluation.Add(std::span(got).first((ids.size() - 1) * vocabulary),
                       std::span(ids).subspan(1)));
  }
  outcome.perplexity = evaluation.Perplexity();
  outcome.same_best = static_cast<double>(same) / static_cast<double>(rows);
  return outcome;
}

void Print(const std::string& what, const Outcome& outcome) {
  std::printf("| %s | %.6f | %.2g | %.4f%% |\n", what.c_str(), outcome.perplexity,
              outcome.largest_difference, 100 * outcome.same_best);
  std::fflush(stdout);
}

Status RunWidth(const Model& model, uint32_t columns) {
  ASSIGN_OR_RETURN(const Programs plain, apps::InGroups(model.programs, columns));
  uint32_t groups = 0;
  for (const program::Program& layer : plain)
    if (const auto* experts = program::FindExperts(layer)) groups = experts->experts;
  apps::GroupCalibration calibration(model.manifest, plain, *model.loader, 2);
  TRY(calibration.Load());
  TRY(calibration.Run(std::span(model.documents).first(model.calibration)));
  const std::string name = std::to_string(groups) + " groups a layer";
  ASSIGN_OR_RETURN(const Outcome as_they_are, Evaluate(model, plain));
  Print(name, as_they_are);
  ASSIGN_OR_RETURN(const Programs rounded,
                   apps::InGroups(model.programs, columns, calibration.Grids()));
  ASSIGN_OR_RETURN(const Outcome on_grids, Evaluate(model, rounded));
  Print(name + ", on grids", on_grids);
  return OkStatus();
}

Status Run(int argc, char** argv) {
  if (argc < 4)
    return Error(ErrorCode::kInvalidArgument, "Expected PACKAGE TEXT COLUMNS..., got less.");
  ASSIGN_OR_RETURN(const Model model, Open(argv[1], argv[2]));
  std::printf(
      "| MLP | perplexity | largest difference of a logit | same best token |\n"
      "|---|---:|---:|---:|\n");
  ASSIGN_OR_RETURN(const Outcome dense, Evaluate(model, model.programs));
  Print("dense", dense);
  for (int i = 3; i < argc; ++i) {
    uint32_t columns = 0;
    const std::string_view text = argv[i];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), columns);
    if (error != std::errc() || end != text.data() + text.size() || columns == 0)
      return Error(ErrorCode::kInvalidArgument,
                   "Expected a number of columns, got '" + std::string(text) + "'.");
    TRY(RunWidth(model, columns));
  }
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
