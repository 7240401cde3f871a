// Interprets one layer's program over a batch of rows, from its beginning or from behind the
// SlotExchange at which it stopped.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "engine/loaded_layer.h"
#include "kernels/attention.h"
#include "kernels/finite.h"
#include "kernels/kernel_set.h"

namespace weft::engine {

// The rows of one batch.
struct RowBatch {
  size_t count = 0;
  std::span<const int32_t> token_ids;              // [count], embedding only
  std::span<const uint32_t> positions;             // [count]
  std::span<const kernels::AttentionRow> kv_rows;  // [count], layers with attention only
  std::span<const kernels::StateRun> state_runs;   // layers with recurrent state only
  std::span<const uint32_t> parts = {};            // StepInput's
};

// Scratch memory in f32 values.
struct ScratchNeeds {
  size_t residual = 0;  // each of the two residual streams
  size_t logits = 0;    // the head's output
  size_t buffers = 0;   // the program's own buffers
  size_t matmul = 0;
  size_t experts = 0;
  size_t attention = 0;
  size_t given = 0;  // rows and routes that are given away at an exchange, without gaps
  size_t per_thread = 0;

  void Include(const ScratchNeeds& other);
};

// What `rows` rows of `layer` need when their sessions end at most at position `end_position`.
// `parts`: how many StepInput's are.
ScratchNeeds NeedsOf(const LoadedLayer& layer, size_t rows, uint32_t end_position,
                     size_t parts = 0);

// What a step computes in and keeps while it waits. Grows to what the largest step needed and is
// then used again.
struct StepScratch {
  kernels::FloatBuffer residual[2];  // layers read one and write the other
  kernels::FloatBuffer logits;
  kernels::FloatBuffer buffers;  // of the running program
  kernels::FloatBuffer given;

  // Throws std::bad_alloc.
  void Reserve(const ScratchNeeds& needs);
  // Bytes held once `needs` are reserved.
  uint64_t BytesAfter(const ScratchNeeds& needs) const;
};

// Where a program ended or stopped.
struct LayerEnd {
  float* result = nullptr;   // of a program that ended
  size_t stopped_at = 0;     // else the exchange, an index of ops,
  SlotRequest request = {};  // and what it wants
};

// How a program goes on: the exchange at which it stopped, and the rows of its slots.
struct LayerResume {
  size_t stopped_at = 0;
  std::span<const float> slots;
};

class LayerRunner {
 public:
  LayerRunner(const kernels::KernelSet& kernels, std::shared_ptr<kernels::SharedThreads> threads)
      : kernels_(kernels), threads_(std::move(threads)), workspace_(*threads_) {}

  // While it lives this engine is at work, and others have fewer threads.
  kernels::SharedThreads::Work BeginWork() { return kernels::SharedThreads::Work(*threads_); }
  // Takes the threads with which Run and Round compute from now on, until the work ends.
  void TakeThreads(kernels::SharedThreads::Work& work) { workspace_.UseThreads(work.Threads()); }

  // What only one program at a time computes in. Throws std::bad_alloc.
  void Reserve(const ScratchNeeds& needs);
  // Bytes held once `needs` are reserved.
  uint64_t BytesAfter(const ScratchNeeds& needs) const;
  // Frees what threads share. Reserve takes it again.
  void GiveBack() { workspace_.FreeShared(); }

  // Runs the program from `input` [rows, input_columns] (null for the embedding) to `output` [rows,
  // output_columns], both without gaps; the result is in `input` when the program's input and
  // output are one buffer. `resume`: null at the beginning. kInvalidData for slots that are not
  // finite, or rows with an expert that a shard lacks. kInvalidArgument for other than the wanted
  // slots. REQUIRES: TakeThreads; Reserve for these needs, here and of `scratch`; a program that
  // goes on finds rows, buffers and scratch as it left them.
  Result<LayerEnd> Run(const LoadedLayer& layer, const RowBatch& rows, StepScratch& scratch,
                       float* input, float* output, const LayerResume* resume = nullptr);
  // Rounds `values` in place to what `dtype` holds (kernels/round.h).
  void Round(const kernels::Rows& values, DType dtype) {
    kernels_.round({values, dtype}, workspace_);
  }
  size_t CountNonFinite(const kernels::ConstRows& values) {
    return kernels::CountNonFinite(values, workspace_);
  }

 private:
  class OpRunner;

  const kernels::KernelSet& kernels_;
  const std::shared_ptr<kernels::SharedThreads> threads_;
  kernels::Workspace workspace_;
  // Kept between runs so that decoding does not allocate.
  std::vector<float*> buffers_;                  // [buffer id] of the running program
  float* free_ = nullptr;                        // behind these
  std::vector<const program::MatMul*> pending_;  // products waiting to run as one parallel region
  std::vector<kernels::MatMulArgs> matmuls_;
  std::vector<kernels::StateRun> state_runs_;  // those of the batch, at one operation's state
};

}  // namespace weft::engine
