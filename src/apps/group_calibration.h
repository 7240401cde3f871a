// Calibration measures how large the outputs of a model's neuron groups are, where a hub gives its
// rows away. That decides their grids (program/neuron_groups.h) and which of them matter.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "api/model_text.h"
#include "base/result.h"
#include "engine/engine.h"
#include "package/group_norms.h"
#include "package/manifest.h"
#include "program/ir.h"

namespace weft::apps {

using Documents = std::vector<std::vector<int32_t>>;

// The first tokens of the first documents of a file of JSON lines. kInvalidData: there are none.
Result<Documents> ReadTokens(const std::string& path, const api::ModelText& text, size_t documents);

// The beginnings of the file's first documents as chats of the model's template: a user's message,
// an answer, and a question again. Models often have their largest numbers at control tokens, which
// plain text lacks. None for a model without a template, or with one that takes no such chat.
Result<Documents> ReadChats(const std::string& path, const api::ModelText& text);

// The layers' programs with MLPs in groups of at most `columns` columns, as many as divide each;
// `grids`: by layer, or empty, which rounds nothing. kUnsupported: the model has no MLP that can be
// cut, or is a mixture of experts.
Result<std::vector<program::Program>> InGroups(std::span<const program::Program> programs,
                                               uint32_t columns,
                                               std::span<const program::SumGrid> grids = {});

class GroupCalibration {
 public:
  // The rows of a document that a layer gives to its groups, layer by layer. With them come the
  // norms of each group's outputs, [row_count, top_k].
  using Observer = std::function<void(const engine::SlotRequest&, std::span<const float>)>;

  // `grouped`: InGroups, or those of a package in groups. Keeps a reference to the source.
  GroupCalibration(const package::Manifest& manifest, std::vector<program::Program> grouped,
                   engine::WeightSource& source, uint32_t thread_count);

  Status Load();
  void Observe(Observer observer) { observer_ = std::move(observer); }
  // Runs the documents. REQUIRES: Load was ok.
  Status Run(std::span<const std::vector<int32_t>> documents);
  // For each layer, with room for four times the largest outputs that were seen.
  std::vector<program::SumGrid> Grids() const;
  // For each layer and group, the mean over all rows of its output's length (L2 norm).
  package::GroupNorms Norms() const;

 private:
  Status Run(const std::vector<int32_t>& ids);
  Result<std::vector<float>> Slots(const engine::SlotRequest& request);

  const std::vector<program::Program> grouped_;
  engine::WeightSource& source_;
  std::unique_ptr<engine::StageEngine> hub_, holder_;
  Observer observer_;
  std::vector<float> largest_;                  // by layer
  std::vector<std::vector<double>> norm_sums_;  // by layer and group
  std::vector<uint64_t> rows_;                  // that these are of, by layer
  uint32_t session_ = 0, generation_ = 0;
};

}  // namespace weft::apps
