#include "program/op_checker.h"

#include <algorithm>
#include <cmath>

namespace weft::program {
namespace {

constexpr uint32_t kMaxExperts = 1 << 16;

std::string Str(uint64_t value) {
  return std::to_string(value);
}

std::string Quoted(std::string_view role) {
  return "'" + std::string(role) + "'";
}

// "value_heads" as messages say it.
std::string Spoken(std::string_view role) {
  std::string text(role);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

std::string NameOf(const Buffer& buffer) {
  return "'" + buffer.name.substr(0, 200) + "'";
}

Error WrongShape(std::string_view role, const Weight& weight, const std::string& expected) {
  return Invalid(Quoted(role) + " is '" + weight.name.substr(0, 200) + "' of shape " +
                 ShapeText(weight.shape) + "; expected " + expected + ".");
}

std::string TextOf(std::initializer_list<Dim> dims) {
  std::string text = "[";
  for (const Dim& dim : dims) {
    if (text.size() > 1) text += ", ";
    text += dim.name != nullptr ? dim.name : Str(dim.length);
  }
  return text + "]";
}

}  // namespace

void WrittenColumns::Add(uint32_t first, uint32_t end) {
  std::vector<std::pair<uint32_t, uint32_t>> merged;
  for (const auto& [a, b] : intervals_) {
    if (b < first || a > end) {
      merged.emplace_back(a, b);
    } else {
      first = std::min(first, a);
      end = std::max(end, b);
    }
  }
  merged.emplace_back(first, end);
  std::sort(merged.begin(), merged.end());
  intervals_ = std::move(merged);
}

bool WrittenColumns::Holds(uint32_t first, uint32_t end) const {
  return std::any_of(intervals_.begin(), intervals_.end(),
                     [&](const auto& i) { return i.first <= first && end <= i.second; });
}

OpChecker::OpChecker(const Program& program) : program_(program), written_(program.buffers.size()) {
  if (program.input) MarkWritten({*program.input, 0, program.buffers[*program.input].columns});
}

bool OpChecker::WholeBufferWritten(BufferId id) const {
  return written_[id].Holds(0, program_.buffers[id].columns);
}

// ---- views

Status OpChecker::CheckView(std::string_view role, const View& view) const {
  if (view.buffer >= program_.buffers.size()) {
    return Invalid(Quoted(role) + " names buffer " + Str(view.buffer) + "; the program has " +
                   Str(program_.buffers.size()) + ".");
  }
  const Buffer& buffer = program_.buffers[view.buffer];
  if (view.columns == 0 || view.columns > buffer.columns ||
      view.first_column > buffer.columns - view.columns) {
    return Invalid(Quoted(role) + " is columns " + Str(view.first_column) + " to " +
                   Str(uint64_t{view.first_column} + view.columns) + " of buffer " +
                   NameOf(buffer) + ", which has " + Str(buffer.columns) + ".");
  }
  return OkStatus();
}

void OpChecker::MarkWritten(const View& view) {
  written_[view.buffer].Add(view.first_column, view.first_column + view.columns);
}

Status OpChecker::Read(std::string_view role, const View& view) const {
  TRY(CheckView(role, view));
  if (!written_[view.buffer].Holds(view.first_column, view.first_column + view.columns)) {
    return Invalid(Quoted(role) + " reads columns of buffer " +
                   NameOf(program_.buffers[view.buffer]) + " that nothing wrote before.");
  }
  return OkStatus();
}

Status OpChecker::Write(std::string_view role, const View& view) {
  TRY(CheckView(role, view));
  MarkWritten(view);
  return OkStatus();
}

Status OpChecker::Elementwise(NamedViews inputs, const View& out) {
  TRY(CheckView("out", out));
  for (const auto& [role, in] : inputs) {
    TRY(Read(role, in));
    TRY(Columns(role, in, out.columns));
    if (Overlap(in, out) && !Same(in, out)) {
      return Invalid("'out' overlaps " + Quoted(role) + " without being the same view.");
    }
  }
  return Write("out", out);
}

Status OpChecker::Apart(NamedViews inputs, const View& out) {
  for (const auto& [role, in] : inputs) TRY(Read(role, in));
  TRY(CheckView("out", out));
  for (const auto& [role, in] : inputs) {
    if (Overlap(in, out)) return Invalid("'out' overlaps an input.");
  }
  return Write("out", out);
}

Status OpChecker::Columns(std::string_view role, const View& view, uint64_t expected) {
  if (view.columns == expected) return OkStatus();
  return Invalid(Quoted(role) + " has " + Str(view.columns) + " columns; expected " +
                 Str(expected) + ".");
}

Status OpChecker::Heads(std::string_view role, const View& view, std::string_view heads_role,
                        uint32_t heads, std::string_view columns_role, uint32_t head_columns) {
  if (heads == 0 || head_columns == 0) {
    return Invalid("it has " + Str(heads) + " " + std::string(heads_role) + " of " +
                   Str(head_columns) + " " + std::string(columns_role) + ".");
  }
  return Columns(role, view, uint64_t{heads} * head_columns);
}

// ---- weights

Result<const Weight*> OpChecker::WeightAt(std::string_view role, WeightId id) const {
  if (id < program_.weights.size()) return &program_.weights[id];
  return Invalid(Quoted(role) + " names weight " + Str(id) + "; the program has " +
                 Str(program_.weights.size()) + ".");
}

Status OpChecker::Shape(std::string_view role, WeightId id,
                        std::initializer_list<Dim> expected) const {
  ASSIGN_OR_RETURN(const Weight* weight, WeightAt(role, id));
  const bool fits = std::ranges::equal(expected, weight->shape,
                                       [](const Dim& dim, uint64_t d) { return dim.Fits(d); });
  return fits ? OkStatus() : WrongShape(role, *weight, TextOf(expected));
}

Status OpChecker::Rows(std::string_view role, const WeightView& view, uint32_t in_columns,
                       uint32_t out_columns) const {
  TRY(Shape(role, view.weight, {Dim("rows"), Dim(in_columns)}));
  const Weight& weight = program_.weights[view.weight];
  if (view.rows == out_columns && view.rows <= weight.shape[0] &&
      view.first_row <= weight.shape[0] - view.rows) {
    return OkStatus();
  }
  return Invalid(Quoted(role) + " takes rows " + Str(view.first_row) + " to " +
                 Str(uint64_t{view.first_row} + view.rows) + " of '" + weight.name + "' " +
                 ShapeText(weight.shape) + " for an output of " + Str(out_columns) + " columns.");
}

Status OpChecker::Rope(std::string_view role, const program::Rope& rope,
                       uint32_t head_columns) const {
  const std::string of = std::string(role) + ".";
  TRY(Positive(of + "scale", rope.scale));
  ASSIGN_OR_RETURN(const Weight* table, WeightAt(of + "inv_freq", rope.inv_freq));
  if (table->dtype == DType::kF32 && table->shape.size() == 1 &&
      2 * table->shape[0] <= head_columns) {
    return OkStatus();
  }
  return WrongShape(of + "inv_freq", *table, "at most [" + Str(head_columns / 2) + "] in f32");
}

// ---- numbers

Status OpChecker::KindIn(std::string_view called, uint32_t kind, uint32_t last) {
  if (kind <= last) return OkStatus();
  return Invalid("its " + std::string(called) + " is " + Str(kind) + ", which is none.");
}

Status OpChecker::Positive(std::string_view role, float value) {
  if (std::isfinite(value) && value > 0) return OkStatus();
  return Invalid(Quoted(role) + " is " + std::to_string(value) + "; expected a positive number.");
}

Status OpChecker::PositiveOrZero(std::string_view role, float value) {
  return value == 0 ? OkStatus() : Positive(role, value);
}

Status OpChecker::Finite(std::string_view role, float value) {
  if (std::isfinite(value)) return OkStatus();
  return Invalid(Quoted(role) + " is not finite.");
}

Status OpChecker::Epsilon(std::string_view role, float value) {
  if (std::isfinite(value) && value >= 0 && value < 1) return OkStatus();
  return Invalid(Quoted(role) + " is " + std::to_string(value) +
                 "; expected 0 or more and below 1.");
}

Status OpChecker::Experts(uint32_t experts, uint32_t top_k) {
  if (experts >= 1 && experts <= kMaxExperts && top_k >= 1 && top_k <= experts) return OkStatus();
  return Invalid("it chooses " + Str(top_k) + " of " + Str(experts) + " experts.");
}

Status OpChecker::Shared(std::string_view heads_role, uint32_t heads, std::string_view groups_role,
                         uint32_t groups, uint32_t columns) {
  if (groups > 0 && heads % groups == 0 && columns <= kMaxStateColumns) return OkStatus();
  return Invalid(Str(heads) + " " + Spoken(heads_role) + " cannot share " + Str(groups) + " " +
                 Spoken(groups_role) + " of " + Str(columns) +
                 " columns; expected a multiple, and at most " + Str(kMaxStateColumns) +
                 " columns.");
}

Status OpChecker::Grid(std::string_view role, const SumGrid& grid) {
  if (grid.step == 0 && grid.limit == 0) return OkStatus();
  int exponent = 0;
  const bool is_power =
      grid.step >= 0x1p-100f && grid.step <= 0x1p100f && std::frexp(grid.step, &exponent) == 0.5f;
  if (is_power && grid.limit >= 1 && grid.limit <= 0x1p22f &&
      grid.limit == std::floor(grid.limit)) {
    return OkStatus();
  }
  return Invalid("its " + std::string(role) + " has steps of " + std::to_string(grid.step) +
                 ", at most " + std::to_string(grid.limit) +
                 ", not a power of two and a whole number up to 2^22.");
}

// ---- what only one operation has

Status OpChecker::Own(const Embed&) const {
  if (!program_.input) return OkStatus();
  return Invalid("it reads token ids, but the program also has an input buffer.");
}

// One row a group of columns. Rows of blocks are of matrices.
Status OpChecker::Own(const RmsNorm& op) const {
  ASSIGN_OR_RETURN(const Weight* weight, WeightAt("weight", op.weight));
  if (weight->shape.size() != 2) return Shape("weight", op.weight, {Dim(op.in.columns)});
  const bool fits = !IsBlockFormat(weight->dtype) && weight->shape[0] > 0 && weight->shape[1] > 0 &&
                    op.in.columns % weight->shape[0] == 0 &&
                    weight->shape[1] == op.in.columns / weight->shape[0];
  if (fits) return OkStatus();
  return WrongShape("weight", *weight,
                    "[" + Str(op.in.columns) + "] or [groups, " + Str(op.in.columns) +
                        " / groups] in f32, f16 or bf16");
}

Status OpChecker::Own(const QkNormRope& op) const {
  if (!op.norm_weight && !op.rope) return Invalid("it has neither a norm nor a rotation.");
  return op.norm_weight ? Epsilon("epsilon", op.epsilon) : OkStatus();
}

Status OpChecker::Own(const Attention& op) {
  if (++attention_count_ > 1) return Invalid("a program has at most one Attention.");
  TRY(Read("q", op.q));
  TRY(Heads("q", op.q, "heads", op.heads, "head_columns", op.head_columns));
  if (op.value_columns > op.head_columns) {
    return Invalid("its values are " + Str(op.value_columns) + " of the " + Str(op.head_columns) +
                   " columns of a key.");
  }
  TRY(KeysOf(op));
  const bool has_own_values = op.value_columns == 0;
  TRY(Heads("out", op.out, "heads", op.heads, has_own_values ? "head_columns" : "value_columns",
            has_own_values ? op.head_columns : op.value_columns));
  if (op.heads % op.kv_heads == 0) return OkStatus();
  return Invalid(Str(op.heads) + " heads cannot share " + Str(op.kv_heads) +
                 " key and value heads evenly.");
}

// The keys and values of an Attention, or where it has them from; and that the output is apart.
Status OpChecker::KeysOf(const Attention& op) {
  if (op.kv_layer) {
    if (*op.kv_layer >= program_.layer_index) {
      return Invalid("it attends to the keys and values of layer " + Str(*op.kv_layer) +
                     "; expected a layer before its own.");
    }
    if (op.k.columns > 0 || op.v.columns > 0) {
      return Invalid("it attends to another layer's keys and values, but has its own, too.");
    }
    if (op.kv_heads == 0) return Invalid("it has 0 kv_heads.");
    return Apart({{"q", op.q}}, op.out);
  }
  TRY(Apart({{"q", op.q}, {"k", op.k}, {"v", op.v}}, op.out));
  TRY(Heads("k", op.k, "kv_heads", op.kv_heads, "head_columns", op.head_columns));
  TRY(Heads("v", op.v, "kv_heads", op.kv_heads, "head_columns", op.head_columns));
  if (op.value_columns > 0 &&
      (op.v.buffer != op.k.buffer || op.v.first_column != op.k.first_column)) {
    return Invalid("its values lie in its keys, but 'v' is not 'k'.");
  }
  return OkStatus();
}

Status OpChecker::Own(const MoeRoute& op) const {
  if (op.parts == 0 || op.parts > kMaxExperts / op.experts ||
      (op.kind == RouteKind::kAll && op.parts > 1)) {
    return Invalid("its " + Str(op.experts) + " experts are in " + Str(op.parts) +
                   " parts each, expected at most " + Str(kMaxExperts) +
                   " parts in all, and no parts where all experts are taken.");
  }
  TRY(Columns("out", op.out, 2 * op.top_k * op.parts));
  if (op.kind == RouteKind::kAll && op.top_k != op.experts) {
    return Invalid("it takes all of its " + Str(op.experts) + " experts, but top_k is " +
                   Str(op.top_k) + ".");
  }
  if (op.groups == 1) return OkStatus();
  const bool fits = op.groups > 0 && op.groups <= kMaxRouteGroups && op.top_groups > 0 &&
                    op.top_groups <= op.groups && op.group_best > 0 &&
                    op.group_best <= kMaxGroupBest && op.experts % op.groups == 0 &&
                    op.group_best <= op.experts / op.groups &&
                    op.top_k <= op.top_groups * (op.experts / op.groups);
  if (fits) return OkStatus();
  return Invalid("it chooses " + Str(op.top_k) + " of " + Str(op.experts) + " experts in " +
                 Str(op.top_groups) + " of " + Str(op.groups) + " groups by the best " +
                 Str(op.group_best) + " of each, which cannot be.");
}

// `down` says the width, from which follows whether gate_up has gates.
Status OpChecker::Own(const MoeExperts& op) const {
  TRY(Shape("down", op.down, {Dim(op.experts), Dim(op.in.columns), Dim("width")}));
  const uint64_t width = program_.weights[op.down].shape[2];
  ASSIGN_OR_RETURN(const Weight* gate_up, WeightAt("gate_up", op.gate_up));
  const bool has_gate = gate_up->shape.size() != 3 || gate_up->shape[1] != width;
  const uint64_t rows = has_gate ? 2 * width : width;
  TRY(Shape("gate_up", op.gate_up, {Dim(op.experts), Dim(rows), Dim(op.in.columns)}));
  if (op.gate_up_bias) {
    TRY(Shape("gate_up_bias", *op.gate_up_bias, {Dim(op.experts), Dim(rows)}));
  }
  if (!op.down_bias) return OkStatus();
  return Shape("down_bias", *op.down_bias, {Dim(op.experts), Dim(op.in.columns)});
}

Status OpChecker::Own(const Exchange& op) {
  if (exchange_ids_.insert(op.id).second) return OkStatus();
  return Invalid("another Exchange has the id " + Str(op.id) + " too.");
}

Status OpChecker::Own(const Gate& op) {
  if (op.gate.columns == op.in.columns) {
    return Elementwise({{"in", op.in}, {"gate", op.gate}}, op.out);
  }
  TRY(Read("gate", op.gate));
  TRY(Columns("gate", op.gate, 1));
  if (Overlap(op.gate, op.out)) return Invalid("'out' overlaps 'gate'.");
  return Elementwise({{"in", op.in}}, op.out);
}

Status OpChecker::Own(const CausalConv& op) const {
  ASSIGN_OR_RETURN(const Weight* weight, WeightAt("weight", op.weight));
  if (weight->dtype == DType::kF32 && weight->shape.size() == 2 &&
      weight->shape[0] == op.in.columns && weight->shape[1] >= 2 &&
      weight->shape[1] <= kMaxConvTaps) {
    return OkStatus();
  }
  return WrongShape("weight", *weight,
                    "[" + Str(op.in.columns) + ", 2 to " + Str(kMaxConvTaps) + "] in f32");
}

Status OpChecker::Own(const SsmScan& op) const {
  TRY(Finite("dt_min", op.dt_min));
  TRY(Finite("dt_max", op.dt_max));
  if (op.dt_min >= 0 && op.dt_max >= 0 && (op.dt_max == 0 || op.dt_max >= op.dt_min)) {
    return OkStatus();
  }
  return Invalid("its time steps lie between " + std::to_string(op.dt_min) + " and " +
                 std::to_string(op.dt_max) + ".");
}

}  // namespace weft::program
