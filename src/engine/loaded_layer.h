// A layer that is ready to run: its program, its weights in memory, and what running it needs.
#pragma once

#include <optional>
#include <vector>

#include "engine/loaded_weight.h"
#include "kernels/kv_page.h"
#include "program/ir.h"
#include "program/state.h"

namespace weft::engine {

class LoadedLayer {
 public:
  // Validates the program and reads its weights; its KV will be kept in `kv_dtype`. kUnsupported
  // for Exchange, and for an output head with SlotExchange, whose rows are gathered.
  static Result<LoadedLayer> Load(const program::Program& program, DType kv_dtype,
                                  WeightSource& source, PanelStore& panels);

  const program::Program& program() const { return program_; }
  const LoadedWeight& weight(program::WeightId id) const { return weights_[id]; }
  std::span<const LoadedWeight> weights() const { return weights_; }

  bool is_embedding() const { return !program_.input.has_value(); }
  // Whether the output is logits. A layer that passes the residual stream on ends by adding to it.
  bool is_head() const { return is_head_; }
  bool exchanges() const { return exchanges_; }  // it stops for rows of experts or neuron groups
  uint32_t input_columns() const;                // 0 for the embedding
  uint32_t output_columns() const;               // hidden columns, or the vocabulary of the head
  // Of the keys and values that it keeps; none without attention, and where it attends to those of
  // another layer.
  std::optional<kernels::KvShape> kv_shape() const;
  // Of those that it attends to, and the layer that keeps them.
  std::optional<kernels::KvShape> attended_shape() const;
  std::optional<uint32_t> attended_layer() const;
  // Recurrent state of a session, in f32 values; 0 for most layers.
  uint64_t state_floats() const { return program::StateFloats(program_); }
  // Rows of the embedding's smallest table; 0 for other layers.
  uint64_t vocabulary() const;

  // f32 columns of all buffers that the program keeps for itself: all but input and output.
  uint64_t private_columns() const;

 private:
  program::Program program_;
  std::vector<LoadedWeight> weights_;
  DType kv_dtype_ = DType::kF16;
  bool is_head_ = false;
  bool exchanges_ = false;
};

}  // namespace weft::engine
