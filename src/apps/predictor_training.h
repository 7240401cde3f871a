// Trains the predictors of a model's neuron groups (package/group_predictor.h) on rows that
// GroupCalibration saw. It tells how good they are on rows held out from the training.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "package/group_predictor.h"

namespace weft::apps {

// What one layer's predictor learns from.
struct PredictorRows {
  uint32_t layer = 0, reads = 0, columns = 0, groups = 0;
  std::vector<uint16_t> inputs;  // [count, columns] f16, of the layer `reads`
  std::vector<float> norms;      // [count, groups]
  size_t count() const { return groups == 0 ? 0 : norms.size() / groups; }
};

// Pairs the rows that one layer gives to its groups with the norms of the groups one layer ahead.
// The first layer with groups has none before it: it is paired with its own rows.
class PredictorCollector {
 public:
  // Keeps at most so many rows of a layer.
  explicit PredictorCollector(size_t most_rows) : most_rows_(most_rows) {}

  // Of one document, layer by layer; norms [row_count, top_k]. Rows of a layer that are not those
  // of the layer before it are left out.
  void Add(const engine::SlotRequest& request, std::span<const float> norms);
  void BeginDocument() { before_.clear(); }
  bool IsFull() const;
  const std::vector<PredictorRows>& layers() const { return layers_; }

 private:
  const size_t most_rows_;
  std::vector<PredictorRows> layers_;  // by layer, rising
  std::vector<uint16_t> before_;       // the rows of the layer before, f16
  uint32_t before_layer_ = 0;
};

struct TrainingOptions {
  uint32_t hidden = 256, epochs = 30, threads = 1;
  uint64_t seed = 1;
};

// How predicted norms, or the mean norms of the training rows, compare with those that came.
struct PredictorQuality {
  double loss = 0;    // sum of squared errors by sum of squared norms
  double ranks = 0;   // Spearman's rank correlation of a row's groups, mean over rows
  double recall = 0;  // of the quarter of a row's groups with the largest norms, mean over rows
};

struct TrainedPredictor {
  uint32_t layer = 0;
  std::vector<uint8_t> blob;
  PredictorQuality predicted, constant;  // of the blob, as it is rounded; of the mean norms
};

// Adam on mini-batches, one layer a thread: the blobs are the same for any number of threads.
// `on_epoch` is called on these threads, one at a time, with the epochs of all layers that are
// done. `training` and `held_out` name the same layers. kInvalidData: no rows, or none held out.
Result<std::vector<TrainedPredictor>> TrainPredictors(
    std::span<const PredictorRows> training, std::span<const PredictorRows> held_out,
    const TrainingOptions& options, const std::function<void(uint64_t, uint64_t)>& on_epoch);

// Of norms [rows, groups] that were predicted and that came. REQUIRES: equal sizes, some rows.
PredictorQuality QualityOf(std::span<const float> predicted, std::span<const float> actual,
                           uint32_t groups);

}  // namespace weft::apps
