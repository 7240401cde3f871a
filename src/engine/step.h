// One step of an engine: checks what is asked, cuts the rows into passes that fit the scratch
// memory, runs every layer over each pass and collects what the runs ask for. The cut does not
// change a row's bits.
#pragma once

#include <map>
#include <vector>

#include "engine/engine.h"
#include "engine/kv_cache.h"
#include "engine/layer_runner.h"

namespace weft::engine {

using LayerMap = std::map<uint32_t, LoadedLayer>;

// Checks everything about a step but the sessions: layers, runs, outputs, sizes of the inputs.
// Returns the row count.
Result<size_t> CheckStep(const LayerMap& layers, const StepInput& input);

// Values that a step gives back, all at once: its caller keeps them, but while it runs they are the
// engine's and count against its limit.
struct ResultSize {
  size_t hidden = 0;     // of StepOutput::hidden
  size_t logits = 0;     // of StepOutput::logits
  size_t unchanged = 0;  // the raw logits of a row, kept while a draw from changed ones is made

  uint64_t bytes() const { return (hidden + logits + unchanged) * sizeof(float); }
};

class StepRunner {
 public:
  StepRunner(const kernels::KernelSet& kernels, LayerRunner& runner, DType residual_dtype)
      : kernels_(kernels), runner_(runner), residual_dtype_(residual_dtype) {}

  // REQUIRES: CheckStep succeeded.
  static ScratchNeeds NeedsOfStep(const LayerMap& layers, const StepInput& input, size_t row_count);

  // REQUIRES: CheckStep succeeded.
  static ResultSize ResultOfStep(const LayerMap& layers, const StepInput& input);

  // Fills `output`, which is empty. kInvalidData when values stop being finite, naming the layer.
  // Throws std::bad_alloc; not for `output` when it has room for ResultOfStep.
  // REQUIRES: CheckStep succeeded, the runner has reserved the step's needs, `kv` has room for it.
  Status Execute(const LayerMap& layers, const StepInput& input, const KvCache::Append& kv,
                 StepOutput& output);

 private:
  struct Row {
    uint32_t run = 0;
    uint32_t position = 0;
    bool last_of_run = false;
  };

  void ListRows(const StepInput& input);
  Status RunPass(const LayerMap& layers, const StepInput& input, const KvCache::Append& kv,
                 size_t first_row, size_t row_count, StepOutput& output);
  // Runs the head over the rows of the pass that need it, a few at a time.
  Status RunHead(const LoadedLayer& layer, const StepInput& input, const KvCache::Append& kv,
                 size_t first_row, size_t row_count, size_t in, StepOutput& output);
  void Select(const StepInput& input, const Row& row, std::span<float> logits,
              StepOutput& output) const;
  // Fills positions_ and kv_rows_ for rows_[indices].
  void Place(const LoadedLayer& layer, const KvCache::Append& kv, std::span<const size_t> indices);
  // `values` are what the layer gave in `dtype` for rows_[indices].
  Status CheckFinite(uint32_t layer, DType dtype, const StepInput& input,
                     std::span<const size_t> indices, std::span<const float> values) const;

  const kernels::KernelSet& kernels_;
  LayerRunner& runner_;
  const DType residual_dtype_;  // what the residual stream is rounded to after each layer
  // Reused from step to step.
  std::vector<Row> rows_;          // of the whole step
  std::vector<size_t> pass_rows_;  // indices into rows_
  std::vector<size_t> head_rows_;
  std::vector<uint32_t> positions_;
  std::vector<kernels::AttentionRow> kv_rows_;
};

}  // namespace weft::engine
