// Interprets one layer's program over a batch of rows. Owns the memory that programs compute in,
// which grows to what the largest batch needed and is then reused.
#pragma once

#include <span>
#include <vector>

#include "engine/engine.h"
#include "engine/loaded_layer.h"
#include "kernels/attention.h"
#include "kernels/kernel_set.h"

namespace weft::engine {

// The rows of one batch.
struct RowBatch {
  size_t count = 0;
  std::span<const int32_t> token_ids;              // [count], embedding only
  std::span<const uint32_t> positions;             // [count]
  std::span<const kernels::AttentionRow> kv_rows;  // [count], layers with attention only
  size_t first_row = 0;                            // of the step
  Exchanger* exchanger = nullptr;                  // layers with exchanges only
};

// Scratch memory in f32 values.
struct ScratchNeeds {
  size_t residual = 0;  // each of the two residual streams
  size_t logits = 0;    // the head's output
  size_t buffers = 0;   // the program's own buffers
  size_t matmul = 0;
  size_t experts = 0;
  size_t exchange = 0;  // rows given away and brought back, without gaps
  size_t per_thread = 0;

  void Include(const ScratchNeeds& other);
};

// What `rows` rows of `layer` need when their sessions end at most at position `end_position`.
ScratchNeeds NeedsOf(const LoadedLayer& layer, size_t rows, uint32_t end_position);

class LayerRunner {
 public:
  LayerRunner(const kernels::KernelSet& kernels, size_t thread_count)
      : kernels_(kernels), workspace_(thread_count) {}

  // Throws std::bad_alloc.
  void Reserve(const ScratchNeeds& needs);
  // Scratch bytes held once `needs` are reserved.
  uint64_t BytesAfter(const ScratchNeeds& needs) const;
  uint64_t bytes() const;

  // Two buffers for the residual stream; layers read one and write the other.
  float* residual(size_t index) { return residual_[index].Reserve(0); }
  float* logits() { return logits_.Reserve(0); }

  // Runs the program from `input` [rows, input_columns] (null for the embedding) to `output` [rows,
  // output_columns], both without gaps; returns where the result is: `input` when the program's
  // input and output are one buffer. Fails only with the exchanger. REQUIRES: Reserve for these
  // needs.
  Result<float*> Run(const LoadedLayer& layer, const RowBatch& rows, float* input, float* output);
  // Rounds `values` in place to what `dtype` holds (kernels/round.h).
  void Round(const kernels::Rows& values, DType dtype) {
    kernels_.round({values, dtype}, workspace_);
  }

 private:
  class OpRunner;

  const kernels::KernelSet& kernels_;
  kernels::Workspace workspace_;
  kernels::FloatBuffer residual_[2];
  kernels::FloatBuffer logits_;
  kernels::FloatBuffer slab_;
  kernels::FloatBuffer exchange_;  // rows of one exchange: those given away, then those received
  // Kept between runs so that decoding does not allocate.
  std::vector<float*> buffers_;                  // [buffer id] of the running program
  std::vector<const program::MatMul*> pending_;  // products waiting to run as one parallel region
  std::vector<kernels::MatMulArgs> matmuls_;
};

}  // namespace weft::engine
