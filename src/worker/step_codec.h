// Translates between data frames and engine steps. Rows in f16, bf16 or f32, or token ids, become a
// StepInput; the engine's results become a result frame.
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "package/manifest.h"
#include "tensor/dtype.h"
#include "wire/data_frame.h"
#include "worker/sampling_table.h"

namespace weft::worker {

// What of a model the wire and the engine have to agree on.
struct ModelShape {
  struct Layer {
    uint64_t weight_bytes = 0;
    package::SharedBlobs shared = {};  // of these bytes
  };
  std::vector<Layer> layers;  // n + 2
  uint32_t vocabulary = 0;
  uint32_t hidden_columns = 0;
  DType boundary_dtype = DType::kF16;
  bool embeds = false;  // the last layer gives rows that become embeddings, not logits

  // Of what the last layer gives.
  uint32_t head_columns() const { return embeds ? hidden_columns : vocabulary; }
  uint32_t layer_count() const { return static_cast<uint32_t>(layers.size()); }
};

// A decoded step; the spans of `input` point into the other members, so it is filled in place and
// not moved.
struct DecodedStep {
  std::vector<engine::Run> runs;
  std::vector<int32_t> token_ids;
  std::vector<float> hidden;
  engine::StepInput input;
};

// Checks that the payload is what layers [first, end) of this model take (token ids within the
// vocabulary for the first stage, rows of the boundary dtype otherwise; selections only from the
// last, and only with the sampling that `sampling` was told) and fills `step`, which points into
// `sampling`.
Status DecodeStep(const wire::Frame& frame, const ModelShape& model, LayerRange layers,
                  const SamplingTable& sampling, DecodedStep* step);

struct StepTimes {
  uint32_t queue_us = 0;
  uint32_t compute_us = 0;
};

// Residual rows behind these layers as the wire has them. kInvalidData when a value does not fit
// the type (names the layer and how many are not finite).
Result<std::vector<uint8_t>> EncodeRows(std::span<const float> rows, DType dtype,
                                        LayerRange layers);

// The answer to `frame`: one WebSocket message in pieces. kInvalidData when a residual value does
// not fit the boundary dtype (names the layer and how many values are not finite).
Result<std::vector<Slice>> EncodeResult(const wire::Frame& frame, const ModelShape& model,
                                        LayerRange layers, const engine::StepOutput& output,
                                        const StepTimes& times);

}  // namespace weft::worker
