#include "engine/loaded_layer.h"

#include <algorithm>

#include "program/codec.h"

namespace weft::engine {
namespace {

// Collects what operations do with weights that they do not multiply by.
struct WeightUses {
  std::vector<WeightUse> uses;

  void Mark(program::WeightId id) { uses[id] = WeightUse::kValues; }
  void Mark(std::optional<program::WeightId> id) {
    if (id) Mark(*id);
  }
  void operator()(const program::Embed& op) { uses[op.weight] = WeightUse::kLookedUp; }
  void operator()(const program::RmsNorm& op) { Mark(op.weight); }
  void operator()(const program::LayerNorm& op) {
    Mark(op.weight);
    Mark(op.bias);
  }
  void operator()(const program::MatMul& op) { Mark(op.bias); }
  void operator()(const program::QkNormRope& op) {
    Mark(op.norm_weight);
    if (op.rope) Mark(op.rope->inv_freq);
  }
  void operator()(const program::Attention& op) { Mark(op.sinks); }
  void operator()(const program::CausalConv& op) {
    Mark(op.weight);
    Mark(op.bias);
  }
  void operator()(const program::DeltaRule& op) {
    Mark(op.decay);
    Mark(op.dt_bias);
  }
  void operator()(const program::SsmScan& op) {
    Mark(op.decay);
    Mark(op.dt_bias);
    Mark(op.skip);
  }
  void operator()(const program::MoeRoute& op) { Mark(op.bias); }
  void operator()(const program::MoeExperts& op) {
    Mark(op.gate_up_bias);
    Mark(op.down_bias);
  }
  template <typename Other>
  void operator()(const Other&) {}
};

// True unless the output is a sum, a sum times a number, or the work of experts alone: a layer adds
// to the residual stream last (Gemma 4's then scale it), a shard gives rows of its experts, and the
// head ends with a product (and perhaps a scale or softcap).
bool EndsInLogits(const program::Program& program) {
  if (!program.input) return false;
  enum class Held { kNothing, kSum, kRows, kOther };
  std::vector<Held> held(program.buffers.size(), Held::kNothing);  // what operations left there
  for (const program::Op& op : program.ops) {
    std::visit(
        [&](const auto& known) {
          using T = std::decay_t<decltype(known)>;
          if constexpr (std::is_same_v<T, program::Exchange>) {
            held[known.in.buffer] = Held::kRows;
          } else if constexpr (std::is_same_v<T, program::Scale>) {
            const bool of_sum = held[known.in.buffer] == Held::kSum;
            held[known.out.buffer] = of_sum ? Held::kSum : Held::kOther;
          } else if constexpr (std::is_same_v<T, program::Add>) {
            held[known.out.buffer] = Held::kSum;
          } else {
            held[known.out.buffer] =
                std::is_same_v<T, program::MoeExperts> || std::is_same_v<T, program::SlotExchange>
                    ? Held::kRows
                    : Held::kOther;
          }
        },
        op);
  }
  return held[program.output] == Held::kOther;
}

// Expert indices are read from a buffer, so they must be what a MoeRoute wrote there, or what came
// in: nothing else may have touched them.
Status CheckRoutes(const program::Program& program) {
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const auto* experts = std::get_if<program::MoeExperts>(&program.ops[i]);
    if (experts == nullptr) continue;
    // A shard's route comes with its rows, and is checked with them.
    bool routed = experts->route.buffer == program.input;
    for (size_t earlier = 0; earlier < i; ++earlier) {
      std::visit(
          [&](const auto& op) {
            using Op = std::decay_t<decltype(op)>;
            if constexpr (std::is_same_v<Op, program::MoeRoute>) {
              if (program::Overlap(op.out, experts->route)) {
                routed = op.out.first_column == experts->route.first_column &&
                         op.out.columns == experts->route.columns &&
                         op.top_k * op.parts == experts->top_k &&
                         op.experts * op.parts == experts->experts;
              }
            } else {
              if (program::Overlap(op.out, experts->route)) routed = false;
            }
          },
          program.ops[earlier]);
    }
    if (routed) continue;
    return Error(ErrorCode::kInvalidData,
                 "Operation " + std::to_string(i) + " (MoeExperts) of layer " +
                     std::to_string(program.layer_index) +
                     " takes its route from columns that no MoeRoute over the same experts wrote.");
  }
  return OkStatus();
}

// Ranges cover the product's columns, each from where the one before ends or earlier
// (product_ranges.h).
Status CheckRanges(const program::Program& program) {
  for (const program::Op& op : program.ops) {
    const auto* ranges = std::get_if<program::RangeExchange>(&op);
    if (ranges == nullptr) continue;
    const uint64_t total = ranges->out.columns, columns = ranges->range_columns;
    const bool covers = ranges->ranges >= 2 && columns >= 1 && columns <= total &&
                        columns <= UINT16_MAX && (ranges->ranges - 1) * columns < total &&
                        total <= ranges->ranges * columns;
    if (covers) continue;
    return Error(ErrorCode::kInvalidData,
                 "The program of layer " + std::to_string(program.layer_index) + " exchanges " +
                     std::to_string(ranges->ranges) + " ranges of " + std::to_string(columns) +
                     " columns, which are not those of a product of " + std::to_string(total) +
                     " columns.");
  }
  return OkStatus();
}

}  // namespace

Result<LoadedLayer> LoadedLayer::Load(const program::Program& program, DType kv_dtype,
                                      WeightSource& source, PanelStore& panels) {
  TRY(program::Validate(program));
  const std::string while_loading = "While loading layer " + std::to_string(program.layer_index);
  WeightUses found;
  found.uses.resize(program.weights.size());
  LoadedLayer layer;
  bool slots = false, ranges = false;
  for (const program::Op& op : program.ops) {
    if (std::holds_alternative<program::Exchange>(op))
      return Error(ErrorCode::kUnsupported,
                   "The program of layer " + std::to_string(program.layer_index) +
                       " has an Exchange, which this engine does not run.");
    slots |= std::holds_alternative<program::SlotExchange>(op);
    ranges |= std::holds_alternative<program::RangeExchange>(op);
    std::visit(found, op);
  }
  TRY(CheckRoutes(program));
  layer.program_ = program;
  layer.kv_dtype_ = kv_dtype;
  layer.is_head_ = EndsInLogits(program);
  layer.exchanges_ = slots || (ranges && !layer.is_head_);
  TRY(CheckRanges(program));
  if (layer.is_head_ && slots) {
    return Error(ErrorCode::kUnsupported,
                 "The program of layer " + std::to_string(program.layer_index) +
                     " has an exchange in the output head, whose rows are not those of the step.");
  }
  if (layer.is_head_ && layer.state_floats() > 0) {
    return Error(ErrorCode::kUnsupported,
                 "The program of layer " + std::to_string(program.layer_index) +
                     " has recurrent operations in the output head, which runs over some rows "
                     "only.");
  }
  for (size_t id = 0; id < program.weights.size(); ++id) {
    auto weight = LoadedWeight::Load(program.weights[id], found.uses[id], source, panels);
    if (!weight.ok()) return std::move(weight).error().Context(while_loading);
    layer.weights_.push_back(std::move(weight).value());
  }
  return layer;
}

uint32_t LoadedLayer::input_columns() const {
  return program_.input ? program_.buffers[*program_.input].columns : 0;
}

uint32_t LoadedLayer::output_columns() const {
  return program_.buffers[program_.output].columns;
}

std::optional<kernels::KvShape> LoadedLayer::kv_shape() const {
  return attended_layer() == program_.layer_index ? attended_shape() : std::nullopt;
}

std::optional<uint32_t> LoadedLayer::attended_layer() const {
  const program::Attention* attention = program::FindAttention(program_);
  if (attention == nullptr) return std::nullopt;
  return attention->kv_layer.value_or(program_.layer_index);
}

std::optional<kernels::KvShape> LoadedLayer::attended_shape() const {
  const program::Attention* attention = program::FindAttention(program_);
  if (attention == nullptr) return std::nullopt;
  return kernels::KvShape{attention->kv_heads, attention->head_columns, kv_dtype_,
                          attention->value_columns};
}

uint64_t LoadedLayer::vocabulary() const {
  uint64_t rows = 0;
  for (const program::Op& op : program_.ops) {
    const auto* embed = std::get_if<program::Embed>(&op);
    if (embed == nullptr) continue;
    const uint64_t own = program_.weights[embed->weight].shape[0];
    rows = rows == 0 ? own : std::min(rows, own);
  }
  return rows;
}

uint64_t LoadedLayer::private_columns() const {
  uint64_t columns = 0;
  for (program::BufferId id = 0; id < program_.buffers.size(); ++id) {
    if (id != program_.input && id != program_.output) columns += program_.buffers[id].columns;
  }
  return columns;
}

}  // namespace weft::engine
