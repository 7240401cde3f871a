#include "engine/layer_runner.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "program/product_ranges.h"

namespace weft::engine {

using kernels::Rows;

void ScratchNeeds::Include(const ScratchNeeds& other) {
  residual = std::max(residual, other.residual);
  logits = std::max(logits, other.logits);
  buffers = std::max(buffers, other.buffers);
  matmul = std::max(matmul, other.matmul);
  experts = std::max(experts, other.experts);
  attention = std::max(attention, other.attention);
  given = std::max(given, other.given);
  per_thread = std::max(per_thread, other.per_thread);
}

ScratchNeeds NeedsOf(const LoadedLayer& layer, size_t rows, uint32_t end_position, size_t parts) {
  ScratchNeeds needs;
  needs.residual =
      rows * std::max(layer.input_columns(), layer.is_head() ? 0 : layer.output_columns());
  needs.logits = layer.is_head() ? rows * layer.output_columns() : 0;
  needs.buffers = rows * layer.private_columns();
  for (const program::Op& op : layer.program().ops) {
    if (const auto* matmul = std::get_if<program::MatMul>(&op)) {
      // The sum over all products bounds any way of running several as one region.
      needs.matmul += kernels::MatMulScratchFloats(rows, matmul->in.columns);
    } else if (const auto* attention = std::get_if<program::Attention>(&op)) {
      const kernels::KvShape kv = {attention->kv_heads, attention->head_columns, DType::kF16,
                                   attention->value_columns};
      needs.per_thread = std::max(needs.per_thread, kernels::AttentionThreadFloats(kv));
      needs.attention = std::max(needs.attention, kernels::AttentionSharedFloats(
                                                      kv, attention->heads, rows, end_position));
    } else if (const auto* rope = std::get_if<program::QkNormRope>(&op)) {
      needs.per_thread =
          std::max(needs.per_thread, kernels::QkNormRopeThreadFloats(rope->head_columns));
    } else if (const auto* experts = std::get_if<program::MoeExperts>(&op)) {
      const size_t columns = experts->in.columns;
      const size_t width = layer.weight(experts->down).matrices()[0].columns;
      const size_t top_k = std::max<size_t>(experts->top_k, parts);
      needs.experts = kernels::MoeExpertsScratchFloats(rows, top_k, columns, width);
      needs.matmul += kernels::MatMulScratchFloats(rows * (top_k + 1), std::max(columns, width));
      needs.buffers += rows * 2 * parts;
    } else if (const auto* route = std::get_if<program::MoeRoute>(&op)) {
      needs.per_thread = std::max(needs.per_thread, kernels::MoeRouteFloats(route->experts));
    } else if (const auto* exchange = std::get_if<program::SlotExchange>(&op)) {
      // One at a time: the rows of the last are done with when the next one gives its own.
      needs.given = std::max(needs.given, rows * (exchange->in.columns + exchange->route.columns));
    } else if (const auto* ranges = std::get_if<program::RangeExchange>(&op)) {
      needs.given = std::max(needs.given, rows * size_t{ranges->in.columns});
    }
  }
  return needs;
}

void StepScratch::Reserve(const ScratchNeeds& needs) {
  for (kernels::FloatBuffer& each : residual) each.Reserve(needs.residual);
  logits.Reserve(needs.logits);
  buffers.Reserve(needs.buffers);
  given.Reserve(needs.given);
}

uint64_t StepScratch::BytesAfter(const ScratchNeeds& needs) const {
  const uint64_t floats = 2 * std::max(needs.residual, residual[0].capacity()) +
                          std::max(needs.logits, logits.capacity()) +
                          std::max(needs.buffers, buffers.capacity()) +
                          std::max(needs.given, given.capacity());
  return floats * sizeof(float);
}

void LayerRunner::Reserve(const ScratchNeeds& needs) {
  workspace_.Shared(kernels::Workspace::kMatMulInput, needs.matmul);
  workspace_.Shared(kernels::Workspace::kExperts, needs.experts);
  workspace_.Shared(kernels::Workspace::kAttention, needs.attention);
  workspace_.ReservePrivate(needs.per_thread);
}

uint64_t LayerRunner::BytesAfter(const ScratchNeeds& needs) const {
  const uint64_t floats =
      std::max(needs.matmul, workspace_.SharedCapacity(kernels::Workspace::kMatMulInput)) +
      std::max(needs.experts, workspace_.SharedCapacity(kernels::Workspace::kExperts)) +
      std::max(needs.attention, workspace_.SharedCapacity(kernels::Workspace::kAttention)) +
      workspace_.thread_count() * std::max(needs.per_thread, workspace_.PrivateCapacity());
  return floats * sizeof(float);
}

namespace {

// A program's kinds are the kernels' kinds, which know nothing of programs.
constexpr kernels::ActivationKind KernelKind(program::Activation kind) {
  return static_cast<kernels::ActivationKind>(kind);
}
constexpr kernels::RouteKind KernelKind(program::RouteKind kind) {
  return static_cast<kernels::RouteKind>(kind);
}
static_assert(KernelKind(program::Activation::kSilu) == kernels::ActivationKind::kSilu &&
              KernelKind(program::Activation::kGeluTanh) == kernels::ActivationKind::kGeluTanh &&
              KernelKind(program::Activation::kGelu) == kernels::ActivationKind::kGelu &&
              KernelKind(program::Activation::kSwigluOai) == kernels::ActivationKind::kSwigluOai &&
              KernelKind(program::Activation::kRelu) == kernels::ActivationKind::kRelu &&
              KernelKind(program::RouteKind::kSoftmaxTopK) == kernels::RouteKind::kSoftmaxTopK &&
              KernelKind(program::RouteKind::kSoftmaxTopKNormalized) ==
                  kernels::RouteKind::kSoftmaxTopKNormalized &&
              KernelKind(program::RouteKind::kSigmoidTopK) == kernels::RouteKind::kSigmoidTopK &&
              KernelKind(program::RouteKind::kSigmoidTopKNormalized) ==
                  kernels::RouteKind::kSigmoidTopKNormalized &&
              kernels::kMostRouteGroups == program::kMaxRouteGroups &&
              KernelKind(program::RouteKind::kAll) == kernels::RouteKind::kAll &&
              static_cast<kernels::GateKind>(program::GateKind::kSigmoid) ==
                  kernels::GateKind::kSigmoid &&
              static_cast<kernels::GateKind>(program::GateKind::kSilu) ==
                  kernels::GateKind::kSilu &&
              kernels::kMostConvTaps == program::kMaxConvTaps &&
              kernels::kMostStateColumns == program::kMaxStateColumns);

// Whether `later` may run at the same time as `earlier`.
bool Independent(const program::MatMul& earlier, const program::MatMul& later) {
  return !program::Overlap(earlier.out, later.in) && !program::Overlap(earlier.out, later.out) &&
         !program::Overlap(earlier.in, later.out);
}

}  // namespace

// Turns operations into kernel calls. Products are held back and run together until something else
// must run.
class LayerRunner::OpRunner {
 public:
  OpRunner(LayerRunner& runner, const LoadedLayer& layer, const RowBatch& rows)
      : runner_(runner), kernels_(runner.kernels_), layer_(layer), rows_(rows) {}

  // What `op` gives away, copied into `given` without gaps.
  SlotRequest Request(const program::SlotExchange& op, float* given) const {
    const Rows in = At(op.in), route = At(op.route);
    float* routes = given + in.rows * in.columns;
    for (size_t row = 0; row < in.rows; ++row) {
      std::ranges::copy(in.Row(row), given + row * in.columns);
      std::ranges::copy(route.Row(row), routes + row * route.columns);
    }
    return {layer_.program().layer_index,
            in.rows,
            op.experts,
            0,
            op.top_k,
            op.in.columns,
            op.out.columns,
            {given, in.rows * in.columns},
            {routes, in.rows * route.columns},
            op.sums ? SlotKind::kSums : SlotKind::kExperts,
            op.sums ? op.grid.step * op.grid.limit : 0,
            op.sums ? op.grid.step : 0};
  }
  // Of all exchanges that are one with that at ops[at].
  SlotRequest RequestRanges(size_t at, float* given) const {
    const program::Program& program = layer_.program();
    const auto& op = std::get<program::RangeExchange>(program.ops[at]);
    const Rows in = At(op.in);
    for (size_t row = 0; row < in.rows; ++row)
      std::ranges::copy(in.Row(row), given + row * in.columns);
    SlotRequest request;
    request.layer = layer_.program().layer_index;
    request.row_count = in.rows;
    request.first = program::FirstPartAt(program, at);
    for (size_t i = at; i < at + program::ExchangedTogether(program, at); ++i)
      request.experts += std::get<program::RangeExchange>(program.ops[i]).ranges;
    request.top_k = request.experts;
    request.columns = op.in.columns;
    request.slot_columns = op.range_columns;
    request.in = {given, in.rows * in.columns};
    request.kind = layer_.is_head() ? SlotKind::kRanges : SlotKind::kProducts;
    return request;
  }

  Status TakeSlots(const program::SlotExchange& op, std::span<const float> slots) {
    const Rows out = At(op.out);
    const size_t slot_count = rows_.count * (op.sums ? 1 : op.top_k);
    TRY(CheckSlots("experts", slot_count, out.columns, slots));
    if (op.sums) {
      for (size_t row = 0; row < out.rows; ++row)
        std::ranges::copy(slots.subspan(row * out.columns, out.columns), out.Row(row).begin());
      return OkStatus();
    }
    kernels_.sum_slots(
        {At(op.route), op.top_k, {slots.data(), slot_count, out.columns, out.columns}, out},
        runner_.workspace_);
    return OkStatus();
  }

  // Ranges that overlap have the same bits where they do.
  Status TakeRanges(size_t at, std::span<const float> slots) {
    const std::span<const program::Op> ops(layer_.program().ops);
    const auto together = ops.subspan(at, program::ExchangedTogether(layer_.program(), at));
    size_t slot_count = 0;
    for (const program::Op& op : together)
      slot_count += rows_.count * std::get<program::RangeExchange>(op).ranges;
    const uint32_t columns = std::get<program::RangeExchange>(ops[at]).range_columns;
    TRY(CheckSlots("ranges", slot_count, columns, slots));
    for (size_t row = 0; row < rows_.count; ++row)
      for (const program::Op& each : together) {
        const auto& op = std::get<program::RangeExchange>(each);
        const program::ProductRanges ranges{0, 0, 0, op.ranges, columns, op.out.columns};
        const Rows out = At(op.out);
        for (uint32_t range = 0; range < op.ranges; ++range) {
          std::ranges::copy(slots.first(columns), out.Row(row).begin() + ranges.First(range));
          slots = slots.subspan(columns);
        }
      }
    return OkStatus();
  }

  Status CheckSlots(const std::string& whose, size_t slot_count, size_t columns,
                    std::span<const float> slots) const {
    const std::string layer = "Layer " + std::to_string(layer_.program().layer_index);
    if (slots.size() != slot_count * columns)
      return Error(ErrorCode::kInvalidArgument,
                   layer + " wants " + std::to_string(slot_count) + " rows of its " + whose +
                       ", of " + std::to_string(columns) + " values each; it was given " +
                       std::to_string(slots.size()) + " values.");
    const auto bad = std::ranges::count_if(slots, [](float x) { return !std::isfinite(x); });
    if (bad == 0) return OkStatus();
    return Error(ErrorCode::kInvalidData, layer + " was given " + std::to_string(bad) +
                                              " values of its " + whose + " that are not finite.");
  }

  void operator()(const program::MatMul& op) {
    if (!std::ranges::all_of(runner_.pending_,
                             [&](const auto* earlier) { return Independent(*earlier, op); })) {
      FlushMatMuls();
    }
    runner_.pending_.push_back(&op);
  }
  template <typename Op>
  void operator()(const Op& op) {
    FlushMatMuls();
    RunOp(op);
  }

  const Status& status() const { return status_; }

  // `op` ran before the step stopped.
  void SkipState(const program::Op& op) {
    state_offset_ += program::StateFloats(layer_.program(), op);
  }

  void FlushMatMuls() {
    if (runner_.pending_.empty()) return;
    runner_.matmuls_.clear();
    for (const program::MatMul* op : runner_.pending_) {
      const kernels::Matrix& weight = layer_.weight(op->weight.weight).matrices()[0];
      runner_.matmuls_.push_back({At(op->in), weight.Sub(op->weight.first_row, op->weight.rows),
                                  Values(op->bias), At(op->out)});
    }
    runner_.pending_.clear();
    kernels_.matmuls(runner_.matmuls_, runner_.workspace_);
  }

 private:
  void RunOp(const program::Embed& op) {
    kernels_.embed({layer_.weight(op.weight).matrices()[0], rows_.token_ids, op.scale, At(op.out)},
                   runner_.workspace_);
  }
  void RunOp(const program::RmsNorm& op) {
    const std::vector<uint64_t>& shape = layer_.program().weights[op.weight].shape;
    const size_t groups = shape.size() == 2 ? shape[0] : 1;
    kernels_.rms_norm({At(op.in), Values(op.weight), op.epsilon, At(op.out), groups},
                      runner_.workspace_);
  }
  void RunOp(const program::LayerNorm& op) {
    kernels_.layer_norm({At(op.in), Values(op.weight), Values(op.bias), op.epsilon, At(op.out)},
                        runner_.workspace_);
  }
  void RunOp(const program::Add& op) {
    kernels_.add({At(op.a), At(op.b), At(op.out)}, runner_.workspace_);
  }
  void RunOp(const program::Scale& op) {
    kernels_.scale({At(op.in), op.factor, At(op.out)}, runner_.workspace_);
  }
  void RunOp(const program::Softcap& op) {
    kernels_.softcap({At(op.in), op.cap, At(op.out)}, runner_.workspace_);
  }
  void RunOp(const program::QkNormRope& op) {
    kernels::QkNormRopeArgs args;
    args.in = At(op.in);
    args.heads = op.heads;
    args.head_columns = op.head_columns;
    args.norm_weight = Values(op.norm_weight);
    args.epsilon = op.epsilon;
    if (op.rope) {
      args.inv_freq = Values(op.rope->inv_freq);
      args.rope_scale = op.rope->scale;
      args.interleaved = op.rope->interleaved;
    }
    args.positions = rows_.positions;
    args.out = At(op.out);
    kernels_.qk_norm_rope(args, runner_.workspace_);
  }
  void RunOp(const program::Attention& op) {
    kernels::AttentionArgs args;
    args.q = At(op.q);
    if (!op.kv_layer) {
      args.k = At(op.k);
      args.v = At(op.v);
    }
    args.heads = op.heads;
    args.kv = *layer_.attended_shape();
    args.scale = op.scale;
    args.window = op.window;
    args.softcap = op.softcap;
    args.sinks = Values(op.sinks);
    args.kv_rows = rows_.kv_rows;
    args.out = At(op.out);
    kernels_.attention(args, runner_.workspace_);
  }
  void RunOp(const program::GatedActivation& op) {
    kernels_.gated_activation({At(op.gate), At(op.up), KernelKind(op.kind), At(op.out)},
                              runner_.workspace_);
  }
  void RunOp(const program::MoeRoute& op) {
    kernels_.moe_route({At(op.logits), op.top_k, KernelKind(op.kind), At(op.out), Values(op.bias),
                        op.groups, op.top_groups, op.group_best, op.scale, op.parts},
                       runner_.workspace_);
  }
  void RunOp(const program::MoeExperts& op) {
    kernels::MoeExpertsArgs args;
    if (!rows_.parts.empty()) {
      args.route = RouteToParts();
      args.top_k = rows_.parts.size();
    } else {
      if (op.route.buffer == layer_.program().input) status_ = CheckGivenRoutes(op);
      if (!status_.ok()) return;
      args.route = At(op.route);
      args.top_k = op.top_k;
    }
    args.in = At(op.in);
    args.kind = KernelKind(op.kind);
    args.gate_up = layer_.weight(op.gate_up).matrices();
    args.down = layer_.weight(op.down).matrices();
    args.gate_up_bias = Values(op.gate_up_bias);
    args.down_bias = Values(op.down_bias);
    args.grid = {op.grid.step, op.grid.limit};
    args.out = At(op.out);
    kernels_.moe_experts(args, runner_.workspace_);
  }
  // Layers with Exchange are not loaded, and other exchanges are not run but stopped at.
  void RunOp(const program::Exchange&) { CHECK(false); }
  void RunOp(const program::SlotExchange&) { CHECK(false); }
  void RunOp(const program::RangeExchange&) { CHECK(false); }
  void RunOp(const program::Gate& op) {
    kernels_.gate({At(op.in), At(op.gate), static_cast<kernels::GateKind>(op.kind), At(op.out)},
                  runner_.workspace_);
  }
  void RunOp(const program::CausalConv& op) {
    kernels_.causal_conv(
        {At(op.in), Values(op.weight), Values(op.bias), op.silu, NextState(op), At(op.out)},
        runner_.workspace_);
  }
  void RunOp(const program::DeltaRule& op) {
    kernels::DeltaRuleArgs args;
    args.q = At(op.q);
    args.k = At(op.k);
    args.v = At(op.v);
    args.a = At(op.a);
    args.b = At(op.b);
    args.key_heads = op.key_heads;
    args.value_heads = op.value_heads;
    args.decay = Values(op.decay);
    args.dt_bias = Values(op.dt_bias);
    args.tiled = op.groups == program::KeyGroups::kTiled;
    args.runs = NextState(op);
    args.out = At(op.out);
    kernels_.delta_rule(args, runner_.workspace_);
  }
  void RunOp(const program::SsmScan& op) {
    kernels::SsmScanArgs args;
    args.x = At(op.x);
    args.b = At(op.b);
    args.c = At(op.c);
    args.dt = At(op.dt);
    args.heads = op.heads;
    args.groups = op.groups;
    args.decay = Values(op.decay);
    args.dt_bias = Values(op.dt_bias);
    args.skip = Values(op.skip);
    args.dt_min = op.dt_min;
    args.dt_max = op.dt_max;
    args.runs = NextState(op);
    args.out = At(op.out);
    kernels_.ssm_scan(args, runner_.workspace_);
  }

  // The batch's runs with the state of `op`, which lies behind that of the operations before it.
  std::span<const kernels::StateRun> NextState(const program::Op& op) {
    runner_.state_runs_.assign(rows_.state_runs.begin(), rows_.state_runs.end());
    for (kernels::StateRun& run : runner_.state_runs_) {
      if (run.before != nullptr) run.before += state_offset_;
      run.after += state_offset_;
    }
    SkipState(op);
    return runner_.state_runs_;
  }

  // One route for all rows: to each wanted part with the weight 1.
  kernels::ConstRows RouteToParts() {
    const size_t count = rows_.parts.size();
    float* route = runner_.free_;
    for (size_t row = 0; row < rows_.count; ++row)
      for (size_t i = 0; i < count; ++i) {
        route[row * 2 * count + i] = static_cast<float>(rows_.parts[i]);
        route[row * 2 * count + count + i] = 1;
      }
    return {route, rows_.count, 2 * count, 2 * count};
  }

  // Routes that came with the rows instead of from a MoeRoute.
  Status CheckGivenRoutes(const program::MoeExperts& op) const {
    const Rows route = At(op.route);
    for (size_t row = 0; row < route.rows; ++row)
      for (const float expert : route.Row(row).first(op.top_k))
        if (!(expert >= 0 && expert < static_cast<float>(op.experts)))
          return Error(ErrorCode::kInvalidData, "Row " + std::to_string(row) + " of layer " +
                                                    std::to_string(layer_.program().layer_index) +
                                                    " asks for expert " + std::to_string(expert) +
                                                    " of " + std::to_string(op.experts) + ".");
    return OkStatus();
  }

  Rows At(const program::View& view) const {
    const size_t stride = layer_.program().buffers[view.buffer].columns;
    return {runner_.buffers_[view.buffer] + view.first_column, rows_.count, view.columns, stride};
  }
  std::span<const float> Values(program::WeightId id) const { return layer_.weight(id).values(); }
  std::span<const float> Values(std::optional<program::WeightId> id) const {
    return id ? Values(*id) : std::span<const float>();
  }

  LayerRunner& runner_;
  const kernels::KernelSet& kernels_;
  const LoadedLayer& layer_;
  const RowBatch& rows_;
  uint64_t state_offset_ = 0;  // f32 values, of the next recurrent operation
  Status status_ = OkStatus();
};

Result<LayerEnd> LayerRunner::Run(const LoadedLayer& layer, const RowBatch& rows,
                                  StepScratch& scratch, float* input, float* output,
                                  const LayerResume* resume) {
  const program::Program& program = layer.program();
  buffers_.assign(program.buffers.size(), nullptr);
  float* free = scratch.buffers.Reserve(0);
  for (program::BufferId id = 0; id < program.buffers.size(); ++id) {
    if (id == program.input) {
      buffers_[id] = input;
    } else if (id == program.output) {
      buffers_[id] = output;
    } else {
      buffers_[id] = free;
      free += rows.count * program.buffers[id].columns;
    }
  }
  free_ = free;
  OpRunner runner(*this, layer, rows);
  size_t first = 0;
  if (resume != nullptr) {
    const size_t at = resume->stopped_at;
    const auto* experts = std::get_if<program::SlotExchange>(&program.ops[at]);
    first = at + (experts ? 1 : program::ExchangedTogether(program, at));
    for (size_t index = 0; index < first; ++index) runner.SkipState(program.ops[index]);
    TRY(experts ? runner.TakeSlots(*experts, resume->slots) : runner.TakeRanges(at, resume->slots));
  }
  const bool some_ranges = !rows.parts.empty() && layer.is_head();
  if (some_ranges) std::fill_n(output, rows.count * program.buffers[program.output].columns, 0.0F);
  for (size_t index = first; index < program.ops.size(); ++index) {
    if (some_ranges && std::ranges::find(rows.parts, index) == rows.parts.end()) continue;
    const program::Op& op = program.ops[index];
    if (const auto* exchange = std::get_if<program::SlotExchange>(&op)) {
      runner.FlushMatMuls();
      return LayerEnd{nullptr, index, runner.Request(*exchange, scratch.given.Reserve(0))};
    }
    if (std::holds_alternative<program::RangeExchange>(op)) {
      runner.FlushMatMuls();
      return LayerEnd{nullptr, index, runner.RequestRanges(index, scratch.given.Reserve(0))};
    }
    std::visit(runner, op);
    TRY(runner.status());
  }
  runner.FlushMatMuls();
  return LayerEnd{buffers_[program.output]};
}

}  // namespace weft::engine
