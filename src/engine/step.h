// One step of an engine checks its request, and cuts the rows into passes that fit the scratch
// memory. It runs every layer over each pass and collects the results that the runs ask for. The
// cut does not change a row's bits. A step stops at each exchange that a pass reaches. All its
// state is its own, so another step can run meanwhile.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "engine/engine.h"
#include "engine/kv_cache.h"
#include "engine/layer_runner.h"

namespace weft::engine {

using LayerMap = std::map<uint32_t, LoadedLayer>;

// Checks everything about a step but the sessions: layers, runs, outputs, sizes of the inputs.
// Returns the row count.
Result<size_t> CheckStep(const LayerMap& layers, const StepInput& input);

// A step gives these values back all at once. Its caller keeps them, but while it runs they are the
// engine's and count against its limit.
struct ResultSize {
  size_t hidden = 0;     // of StepOutput::hidden
  size_t logits = 0;     // of StepOutput::logits
  size_t unchanged = 0;  // the raw logits of a row, kept while a draw from changed ones is made

  uint64_t bytes() const { return (hidden + logits + unchanged) * sizeof(float); }
};

// A row of a step.
struct StepRow {
  uint32_t run = 0;
  uint32_t position = 0;
  bool last_of_run = false;
};

// What a step keeps; used again by the next one, so that decoding does not allocate.
struct StepState {
  StepScratch scratch;
  std::vector<StepRow> rows;      // of the whole step
  std::vector<size_t> pass_rows;  // indices into rows
  std::vector<size_t> head_rows;
  std::vector<uint32_t> positions;  // of the rows that the running layer computes
  std::vector<kernels::AttentionRow> kv_rows;
  std::vector<kernels::StateRun> state_runs;
};

// A step under way.
struct StepFlight {
  StepInput input;
  KvCache::Append kv;
  StepOutput output;
  StepState* state = nullptr;
  size_t rows_per_pass = 0;
  // Where it is: the pass, its layer, which residual buffer holds the stream.
  size_t first_row = 0, row_count = 0;
  uint32_t layer = 0;
  size_t in = 0;
  bool in_pass = false;
  size_t head_done = 0;              // of the pass's rows that need the head
  std::optional<size_t> stopped_at;  // the operation of that layer
  SlotRequest request;               // what it wants there
};

class StepRunner {
 public:
  StepRunner(const kernels::KernelSet& kernels, LayerRunner& runner, DType residual_dtype)
      : kernels_(kernels), runner_(runner), residual_dtype_(residual_dtype) {}

  // A step's rows go through all layers in passes of the most of these for which there is memory:
  // each pass reads every weight again. The least is what plans reserve scratch memory for.
  static constexpr size_t kMostRowsPerPass = 512, kLeastRowsPerPass = 128;
  // Where layers stop for what others compute it is the least: the rows of a pass are one message,
  // and holders of experts know how long those get.
  static size_t MostRowsPerPass(const LayerMap& layers, LayerRange range);

  // REQUIRES: CheckStep succeeded.
  static ScratchNeeds NeedsOfStep(const LayerMap& layers, const StepInput& input, size_t row_count,
                                  size_t rows_per_pass);

  // REQUIRES: CheckStep succeeded.
  static ResultSize ResultOfStep(const LayerMap& layers, const StepInput& input);

  // Goes on to the end, whose output is filled then, or to the next exchange; says whether that
  // was the end. `slots` are what the step wanted where it stopped, nothing at its beginning.
  // kInvalidData when values stop being finite, naming the layer. Throws std::bad_alloc; not for
  // the output when it has room for ResultOfStep.
  // REQUIRES: CheckStep succeeded, the runner and the step's scratch have reserved its needs, its
  // `kv` has room for it.
  Result<bool> Continue(const LayerMap& layers, StepFlight& step, std::span<const float> slots);

 private:
  // `values` are what the layer gave in `dtype` for the step's rows[indices].
  Status CheckFinite(uint32_t layer, DType dtype, const StepFlight& step,
                     std::span<const size_t> indices, const kernels::ConstRows& values);
  static void ListRows(StepFlight& step);
  static void BeginPass(const LayerMap& layers, StepFlight& step);
  // Whether it came to the end of the pass.
  Result<bool> RunPass(const LayerMap& layers, StepFlight& step, std::span<const float> slots,
                       kernels::SharedThreads::Work& work);
  // Runs the head over the rows of the pass that need it, a few at a time. Whether it came to their
  // end.
  Result<bool> RunHead(const LoadedLayer& layer, StepFlight& step, std::span<const float> slots);
  void Select(StepFlight& step, const StepRow& row, std::span<float> logits) const;
  // Where the head stopped for ranges: asks for their best alone if the rows want no more, and
  // takes these for the rows' selections.
  static void AskForBest(const LoadedLayer& layer, StepFlight& step,
                         std::span<const size_t> indices);
  static Status TakeBest(const LoadedLayer& layer, StepFlight& step, size_t row_count,
                         std::span<const float> slots);
  // Fills the positions, kv_rows and state_runs of the step for its rows[indices].
  static void Place(const LoadedLayer& layer, StepFlight& step, std::span<const size_t> indices);

  const kernels::KernelSet& kernels_;
  LayerRunner& runner_;
  const DType residual_dtype_;  // what the residual stream is rounded to after each layer
};

}  // namespace weft::engine
