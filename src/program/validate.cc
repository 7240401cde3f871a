// What a program must satisfy before an engine may run it without further checks.
#include <algorithm>
#include <cmath>
#include <set>

#include "program/codec.h"

namespace weft::program {
namespace {

constexpr uint32_t kMaxColumns = 1 << 24;
constexpr uint64_t kMaxDimension = uint64_t{1} << 31;
constexpr uint64_t kMaxOffset = uint64_t{1} << 50;
constexpr size_t kMaxItems = 1 << 16;

std::string Str(uint64_t value) {
  return std::to_string(value);
}

std::string ShapeText(const std::vector<uint64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + Str(shape[i]);
  return text + "]";
}

Error Invalid(std::string message) {
  return Error(ErrorCode::kInvalidData, std::move(message));
}

// ---- weights

struct ArrayBytes {
  uint64_t data = 0;
  uint64_t scale = 0;
  uint64_t zero = 0;
};

// Gives nullopt on overflow. REQUIRES: a shape without zeros.
std::optional<ArrayBytes> BytesOf(const Weight& weight) {
  std::optional<uint64_t> rows = 1;
  for (size_t i = 0; i + 1 < weight.shape.size() && rows; ++i) {
    rows = CheckedMul(*rows, weight.shape[i]);
  }
  if (!rows) return std::nullopt;
  const uint64_t columns = weight.shape.back();
  ArrayBytes bytes;
  if (!IsBlockFormat(weight.dtype)) {
    const auto values = CheckedMul(*rows, columns);
    const auto data =
        values ? CheckedMul(*values, static_cast<uint64_t>(ElementBytes(weight.dtype))) : values;
    if (!data) return std::nullopt;
    bytes.data = *data;
    return bytes;
  }
  const auto blocks_in_row = static_cast<uint64_t>(BlockCount(static_cast<int64_t>(columns)));
  const auto blocks = CheckedMul(*rows, blocks_in_row);
  const auto data =
      blocks ? CheckedMul(*blocks, static_cast<uint64_t>(BlockDataBytes(weight.dtype))) : blocks;
  if (!data) return std::nullopt;
  bytes.data = *data;
  const auto words = static_cast<uint64_t>(ScaleWords(weight.dtype, static_cast<int64_t>(columns)));
  bytes.scale = *rows * words * 2;  // at most half as many as of data
  bytes.zero = *rows * ((blocks_in_row + 1) / 2);
  return bytes;
}

Status CheckParts(const std::string& what, const std::vector<Part>& parts, uint64_t expected) {
  uint64_t total = 0;
  for (const Part& part : parts) {
    if (part.byte_count == 0 || part.byte_count > kMaxOffset || part.offset > kMaxOffset) {
      return Invalid("A part of " + what + " has offset " + Str(part.offset) + " and " +
                     Str(part.byte_count) + " bytes; expected 1 to " + Str(kMaxOffset) + ".");
    }
    total += part.byte_count;  // at most 2^16 parts of 2^50 bytes: no overflow
    if (total > expected) break;
  }
  if (total == expected) return OkStatus();
  return Invalid("The parts of " + what + " hold " + (total > expected ? "at least " : "") +
                 Str(total) + " bytes; its shape and dtype need " + Str(expected) + ".");
}

Status CheckWeight(const Weight& weight) {
  const std::string what = "weight '" + weight.name.substr(0, 200) + "'";
  switch (weight.dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kQ8:
    case DType::kQ4:
    case DType::kQ4S:
    case DType::kQ4K:
    case DType::kQ5K:
    case DType::kQ6K:
      break;
    default:
      return Invalid("The dtype of " + what + " is " + Str(static_cast<uint64_t>(weight.dtype)) +
                     "; expected f32, f16, bf16, q8, q4, q4s, q4k, q5k or q6k.");
  }
  const bool block = IsBlockFormat(weight.dtype);
  const bool fits = weight.shape.size() >= (block ? 2 : 1) && weight.shape.size() <= 3 &&
                    std::all_of(weight.shape.begin(), weight.shape.end(),
                                [](uint64_t d) { return d >= 1 && d <= kMaxDimension; });
  if (!fits) {
    return Invalid("The shape of " + what + " is " + ShapeText(weight.shape) + "; expected " +
                   (block ? "2 or 3" : "1 to 3") + " dimensions from 1 to " + Str(kMaxDimension) +
                   ".");
  }
  if (IsKQuant(weight.dtype) && weight.shape.back() % kSuperblockValues != 0) {
    return Invalid("The rows of " + what + ShapeText(weight.shape) + " are no whole superblocks; " +
                   std::string(DTypeName(weight.dtype)) + " has columns in multiples of " +
                   Str(kSuperblockValues) + ".");
  }
  for (const auto* parts : {&weight.data, &weight.scale, &weight.zero}) {
    if (parts->size() > kMaxItems) {
      return Invalid(what + " has " + Str(parts->size()) + " parts; at most " + Str(kMaxItems) +
                     " are read.");
    }
  }
  const std::optional<ArrayBytes> bytes = BytesOf(weight);
  if (!bytes) return Invalid("The bytes of " + what + ShapeText(weight.shape) + " overflow.");
  TRY(CheckParts("the data of " + what, weight.data, bytes->data));
  TRY(CheckParts("the scales of " + what, weight.scale, bytes->scale));
  if (weight.zero.empty()) return OkStatus();
  return CheckParts("the zero points of " + what, weight.zero,
                    weight.dtype == DType::kQ4 ? bytes->zero : 0);
}

// ---- operations

// Which columns of one buffer were written, as disjoint ascending intervals.
class WrittenColumns {
 public:
  void Add(uint32_t first, uint32_t end) {
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
  bool Holds(uint32_t first, uint32_t end) const {
    return std::any_of(intervals_.begin(), intervals_.end(),
                       [&](const auto& i) { return i.first <= first && end <= i.second; });
  }

 private:
  std::vector<std::pair<uint32_t, uint32_t>> intervals_;
};

bool Overlap(const View& a, const View& b) {
  return a.buffer == b.buffer && a.first_column < b.first_column + b.columns &&
         b.first_column < a.first_column + a.columns;
}
bool Same(const View& a, const View& b) {
  return a.buffer == b.buffer && a.first_column == b.first_column && a.columns == b.columns;
}

// Checks operations one after the other. Messages name the role ("in", "gate_up", ...); the caller
// names the operation.
class OpChecker {
 public:
  explicit OpChecker(const Program& program) : program_(program), written_(program.buffers.size()) {
    if (program.input) MarkWritten({*program.input, 0, program.buffers[*program.input].columns});
  }

  bool WholeBufferWritten(BufferId id) const {
    return written_[id].Holds(0, program_.buffers[id].columns);
  }

  Status operator()(const Embed& op) {
    if (program_.input) {
      return Invalid("it reads token ids, but the program also has an input buffer.");
    }
    TRY(ExpectFinite("scale", op.scale));
    TRY(Write("out", op.out));
    ASSIGN_OR_RETURN(const Weight* weight, WeightAt("weight", op.weight));
    if (weight->shape.size() != 2 || weight->shape[1] != op.out.columns) {
      return WrongShape("weight", *weight, "[vocabulary, " + Str(op.out.columns) + "]");
    }
    return OkStatus();
  }
  Status operator()(const RmsNorm& op) {
    TRY(Elementwise({{"in", op.in}}, op.out));
    TRY(ExpectEpsilon(op.epsilon));
    ASSIGN_OR_RETURN(const Weight* weight, WeightAt("weight", op.weight));
    if (weight->shape.size() != 2) return ExpectVector("weight", op.weight, op.in.columns);
    // One row a group of columns. Rows of blocks are of matrices.
    const bool fits = !IsBlockFormat(weight->dtype) && weight->shape[0] > 0 &&
                      weight->shape[1] > 0 && op.in.columns % weight->shape[0] == 0 &&
                      weight->shape[1] == op.in.columns / weight->shape[0];
    if (fits) return OkStatus();
    return WrongShape("weight", *weight,
                      "[" + Str(op.in.columns) + "] or [groups, " + Str(op.in.columns) +
                          " / groups] in f32, f16 or bf16");
  }
  Status operator()(const LayerNorm& op) {
    TRY(Elementwise({{"in", op.in}}, op.out));
    TRY(ExpectEpsilon(op.epsilon));
    TRY(ExpectVector("weight", op.weight, op.in.columns));
    return op.bias ? ExpectVector("bias", *op.bias, op.in.columns) : OkStatus();
  }
  Status operator()(const MatMul& op) {
    TRY(Read("in", op.in));
    TRY(WriteApart(op.out, {op.in}));
    ASSIGN_OR_RETURN(const Weight* weight, WeightAt("weight", op.weight.weight));
    if (weight->shape.size() != 2 || weight->shape[1] != op.in.columns) {
      return WrongShape("weight", *weight, "[rows, " + Str(op.in.columns) + "]");
    }
    if (op.weight.rows != op.out.columns || op.weight.rows > weight->shape[0] ||
        op.weight.first_row > weight->shape[0] - op.weight.rows) {
      return Invalid("'weight' takes rows " + Str(op.weight.first_row) + " to " +
                     Str(uint64_t{op.weight.first_row} + op.weight.rows) + " of '" + weight->name +
                     "' " + ShapeText(weight->shape) + " for an output of " + Str(op.out.columns) +
                     " columns.");
    }
    return op.bias ? ExpectVector("bias", *op.bias, op.out.columns) : OkStatus();
  }
  Status operator()(const Add& op) { return Elementwise({{"a", op.a}, {"b", op.b}}, op.out); }
  Status operator()(const Scale& op) {
    TRY(ExpectFinite("factor", op.factor));
    return Elementwise({{"in", op.in}}, op.out);
  }
  Status operator()(const Softcap& op) {
    TRY(ExpectPositive("cap", op.cap));
    return Elementwise({{"in", op.in}}, op.out);
  }
  Status operator()(const QkNormRope& op) {
    TRY(Elementwise({{"in", op.in}}, op.out));
    TRY(ExpectHeads("in", op.in, "heads", op.heads, op.head_columns));
    if (!op.norm_weight && !op.rope) return Invalid("it has neither a norm nor a rotation.");
    if (op.norm_weight) {
      TRY(ExpectEpsilon(op.epsilon));
      TRY(ExpectVector("norm_weight", *op.norm_weight, op.head_columns));
    }
    return op.rope ? CheckRope(*op.rope, op.head_columns) : OkStatus();
  }
  Status operator()(const Attention& op) {
    if (++attention_count_ > 1) return Invalid("a program has at most one Attention.");
    TRY(Read("q", op.q));
    TRY(ExpectHeads("q", op.q, "heads", op.heads, op.head_columns));
    if (op.value_columns > op.head_columns) {
      return Invalid("its values are " + Str(op.value_columns) + " of the " + Str(op.head_columns) +
                     " columns of a key.");
    }
    TRY(CheckKeys(op));
    TRY(ExpectHeads("out", op.out, "heads", op.heads,
                    op.value_columns > 0 ? op.value_columns : op.head_columns));
    if (op.heads % op.kv_heads != 0) {
      return Invalid(Str(op.heads) + " heads cannot share " + Str(op.kv_heads) +
                     " key and value heads evenly.");
    }
    TRY(ExpectPositive("scale", op.scale));
    if (op.softcap != 0) TRY(ExpectPositive("softcap", op.softcap));
    return op.sinks ? ExpectVector("sinks", *op.sinks, op.heads) : OkStatus();
  }
  Status operator()(const GatedActivation& op) {
    TRY(ExpectActivation(op.kind));
    return Elementwise({{"gate", op.gate}, {"up", op.up}}, op.out);
  }
  Status operator()(const MoeRoute& op) {
    TRY(Read("logits", op.logits));
    TRY(WriteApart(op.out, {op.logits}));
    TRY(ExpectExperts(op.experts, op.top_k));
    TRY(ExpectColumns("logits", op.logits, op.experts));
    TRY(ExpectColumns("out", op.out, 2 * op.top_k));
    if (op.kind > RouteKind::kAll) {
      return Invalid("its kind of routing is " + Str(static_cast<uint64_t>(op.kind)) +
                     ", which is none.");
    }
    if (op.kind == RouteKind::kAll && op.top_k != op.experts) {
      return Invalid("it takes all of its " + Str(op.experts) + " experts, but top_k is " +
                     Str(op.top_k) + ".");
    }
    TRY(ExpectGroups(op));
    TRY(ExpectPositive("scale", op.scale));
    return op.bias ? ExpectVector("bias", *op.bias, op.experts) : OkStatus();
  }
  Status operator()(const MoeExperts& op) {
    TRY(RoutedRows(op));
    TRY(ExpectActivation(op.kind));
    TRY(ExpectGrid(op.grid));
    ASSIGN_OR_RETURN(const Weight* down, WeightAt("down", op.down));
    if (down->shape.size() != 3 || down->shape[0] != op.experts ||
        down->shape[1] != op.in.columns) {
      return WrongShape("down", *down,
                        "[" + Str(op.experts) + ", " + Str(op.in.columns) + ", width]");
    }
    const uint64_t width = down->shape[2];
    ASSIGN_OR_RETURN(const Weight* gate_up, WeightAt("gate_up", op.gate_up));
    const bool has_gate = gate_up->shape.size() != 3 || gate_up->shape[1] != width;
    const uint64_t rows = has_gate ? 2 * width : width;
    TRY(ExpectShape("gate_up", op.gate_up, {op.experts, rows, op.in.columns}));
    if (op.gate_up_bias) TRY(ExpectShape("gate_up_bias", *op.gate_up_bias, {op.experts, rows}));
    if (op.down_bias) TRY(ExpectShape("down_bias", *op.down_bias, {op.experts, op.in.columns}));
    return OkStatus();
  }
  Status operator()(const SlotExchange& op) {
    TRY(ExpectGrid(op.grid));
    return RoutedRows(op);
  }
  Status operator()(const Exchange& op) {
    if (!exchange_ids_.insert(op.id).second) {
      return Invalid("another Exchange has the id " + Str(op.id) + " too.");
    }
    TRY(Read("out", op.out));
    return Write("in", op.in);
  }
  Status operator()(const Gate& op) {
    if (op.kind > GateKind::kSilu) {
      return Invalid("its kind of gate is " + Str(static_cast<uint64_t>(op.kind)) +
                     ", which is none.");
    }
    if (op.gate.columns == op.in.columns) {
      return Elementwise({{"in", op.in}, {"gate", op.gate}}, op.out);
    }
    TRY(Read("gate", op.gate));
    TRY(ExpectColumns("gate", op.gate, 1));
    if (Overlap(op.gate, op.out)) return Invalid("'out' overlaps 'gate'.");
    return Elementwise({{"in", op.in}}, op.out);
  }
  Status operator()(const CausalConv& op) {
    TRY(Read("in", op.in));
    TRY(WriteApart(op.out, {op.in}));
    TRY(ExpectColumns("out", op.out, op.in.columns));
    ASSIGN_OR_RETURN(const Weight* weight, WeightAt("weight", op.weight));
    if (weight->dtype != DType::kF32 || weight->shape.size() != 2 ||
        weight->shape[0] != op.in.columns || weight->shape[1] < 2 ||
        weight->shape[1] > kMaxConvTaps) {
      return WrongShape("weight", *weight,
                        "[" + Str(op.in.columns) + ", 2 to " + Str(kMaxConvTaps) + "] in f32");
    }
    return op.bias ? ExpectVector("bias", *op.bias, op.in.columns) : OkStatus();
  }
  Status operator()(const DeltaRule& op) {
    for (const auto& [role, view] : {std::pair<std::string_view, View>{"q", op.q},
                                     {"k", op.k},
                                     {"v", op.v},
                                     {"a", op.a},
                                     {"b", op.b}}) {
      TRY(Read(role, view));
    }
    TRY(WriteApart(op.out, {op.q, op.k, op.v, op.a, op.b}));
    TRY(ExpectHeads("q", op.q, "key_heads", op.key_heads, op.key_columns));
    TRY(ExpectHeads("k", op.k, "key_heads", op.key_heads, op.key_columns));
    TRY(ExpectHeads("v", op.v, "value_heads", op.value_heads, op.value_columns));
    TRY(ExpectHeads("out", op.out, "value_heads", op.value_heads, op.value_columns));
    TRY(ExpectColumns("a", op.a, op.value_heads));
    TRY(ExpectColumns("b", op.b, op.value_heads));
    if (op.value_heads % op.key_heads != 0 || op.key_columns > kMaxStateColumns) {
      return Invalid(Str(op.value_heads) + " value heads cannot share " + Str(op.key_heads) +
                     " key heads of " + Str(op.key_columns) +
                     " columns; expected a multiple, and "
                     "at most " +
                     Str(kMaxStateColumns) + " columns.");
    }
    if (op.groups > KeyGroups::kTiled) {
      return Invalid("its key groups are " + Str(static_cast<uint64_t>(op.groups)) +
                     ", which is no kind of them.");
    }
    TRY(ExpectVector("decay", op.decay, op.value_heads));
    return ExpectVector("dt_bias", op.dt_bias, op.value_heads);
  }
  Status operator()(const SsmScan& op) {
    for (const auto& [role, view] : {std::pair<std::string_view, View>{"x", op.x},
                                     {"b", op.b_in},
                                     {"c", op.c_in},
                                     {"dt", op.dt}}) {
      TRY(Read(role, view));
    }
    TRY(WriteApart(op.out, {op.x, op.b_in, op.c_in, op.dt}));
    TRY(ExpectHeads("x", op.x, "heads", op.heads, op.head_columns));
    TRY(ExpectHeads("out", op.out, "heads", op.heads, op.head_columns));
    TRY(ExpectHeads("b", op.b_in, "groups", op.groups, op.state_columns));
    TRY(ExpectHeads("c", op.c_in, "groups", op.groups, op.state_columns));
    TRY(ExpectColumns("dt", op.dt, op.heads));
    if (op.heads % op.groups != 0 || op.state_columns > kMaxStateColumns) {
      return Invalid(Str(op.heads) + " heads cannot share " + Str(op.groups) + " groups of " +
                     Str(op.state_columns) + " columns; expected a multiple, and at most " +
                     Str(kMaxStateColumns) + " columns.");
    }
    TRY(ExpectFinite("dt_min", op.dt_min));
    TRY(ExpectFinite("dt_max", op.dt_max));
    if (op.dt_min < 0 || op.dt_max < 0 || (op.dt_max > 0 && op.dt_max < op.dt_min)) {
      return Invalid("its time steps lie between " + std::to_string(op.dt_min) + " and " +
                     std::to_string(op.dt_max) + ".");
    }
    TRY(ExpectVector("decay", op.decay, op.heads));
    TRY(ExpectVector("dt_bias", op.dt_bias, op.heads));
    return ExpectVector("skip", op.skip, op.heads);
  }

 private:
  // The keys and values of an Attention, or where it has them from; and that the output is apart.
  Status CheckKeys(const Attention& op) {
    if (op.kv_layer) {
      if (*op.kv_layer >= program_.layer_index) {
        return Invalid("it attends to the keys and values of layer " + Str(*op.kv_layer) +
                       "; expected a layer before its own.");
      }
      if (op.k.columns > 0 || op.v.columns > 0) {
        return Invalid("it attends to another layer's keys and values, but has its own, too.");
      }
      if (op.kv_heads == 0) return Invalid("it has 0 kv_heads.");
      return WriteApart(op.out, {op.q});
    }
    TRY(Read("k", op.k));
    TRY(Read("v", op.v));
    TRY(WriteApart(op.out, {op.q, op.k, op.v}));
    TRY(ExpectHeads("k", op.k, "kv_heads", op.kv_heads, op.head_columns));
    TRY(ExpectHeads("v", op.v, "kv_heads", op.kv_heads, op.head_columns));
    if (op.value_columns > 0 &&
        (op.v.buffer != op.k.buffer || op.v.first_column != op.k.first_column)) {
      return Invalid("its values lie in its keys, but 'v' is not 'k'.");
    }
    return OkStatus();
  }
  Status ExpectGroups(const MoeRoute& op) const {
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
  Status ExpectGrid(const SumGrid& grid) const {
    if (grid.step == 0 && grid.limit == 0) return OkStatus();
    int exponent = 0;
    const bool is_power =
        grid.step >= 0x1p-100f && grid.step <= 0x1p100f && std::frexp(grid.step, &exponent) == 0.5f;
    if (is_power && grid.limit >= 1 && grid.limit <= 0x1p22f &&
        grid.limit == std::floor(grid.limit))
      return OkStatus();
    return Invalid("its grid has steps of " + std::to_string(grid.step) + ", at most " +
                   std::to_string(grid.limit) +
                   ", not a power of two and a whole number up to 2^22.");
  }
  // What MoeExperts and SlotExchange have in common.
  template <typename Routed>
  Status RoutedRows(const Routed& op) {
    TRY(Read("in", op.in));
    TRY(Read("route", op.route));
    TRY(WriteApart(op.out, {op.in, op.route}));
    TRY(ExpectExperts(op.experts, op.top_k));
    TRY(ExpectColumns("route", op.route, 2 * op.top_k));
    return ExpectColumns("out", op.out, op.in.columns);
  }
  Status CheckView(std::string_view role, const View& view) const {
    if (view.buffer >= program_.buffers.size()) {
      return Invalid("'" + std::string(role) + "' names buffer " + Str(view.buffer) +
                     "; the program has " + Str(program_.buffers.size()) + ".");
    }
    const Buffer& buffer = program_.buffers[view.buffer];
    if (view.columns == 0 || view.columns > buffer.columns ||
        view.first_column > buffer.columns - view.columns) {
      return Invalid("'" + std::string(role) + "' is columns " + Str(view.first_column) + " to " +
                     Str(uint64_t{view.first_column} + view.columns) + " of buffer '" +
                     buffer.name.substr(0, 200) + "', which has " + Str(buffer.columns) + ".");
    }
    return OkStatus();
  }
  Status Read(std::string_view role, const View& view) const {
    TRY(CheckView(role, view));
    if (!written_[view.buffer].Holds(view.first_column, view.first_column + view.columns)) {
      return Invalid("'" + std::string(role) + "' reads columns of buffer '" +
                     program_.buffers[view.buffer].name.substr(0, 200) +
                     "' that nothing wrote before.");
    }
    return OkStatus();
  }
  void MarkWritten(const View& view) {
    written_[view.buffer].Add(view.first_column, view.first_column + view.columns);
  }
  Status Write(std::string_view role, const View& view) {
    TRY(CheckView(role, view));
    MarkWritten(view);
    return OkStatus();
  }
  Status WriteApart(const View& out, std::initializer_list<View> inputs) {
    TRY(CheckView("out", out));
    for (const View& in : inputs) {
      if (Overlap(in, out)) return Invalid("'out' overlaps an input.");
    }
    return Write("out", out);
  }
  // All views of equal width; the output is one of the inputs or apart from them.
  Status Elementwise(std::initializer_list<std::pair<std::string_view, View>> inputs,
                     const View& out) {
    TRY(CheckView("out", out));
    for (const auto& [role, in] : inputs) {
      TRY(Read(role, in));
      TRY(ExpectColumns(role, in, out.columns));
      if (Overlap(in, out) && !Same(in, out)) {
        return Invalid("'out' overlaps '" + std::string(role) + "' without being the same view.");
      }
    }
    return Write("out", out);
  }

  Result<const Weight*> WeightAt(std::string_view role, WeightId id) const {
    if (id < program_.weights.size()) return &program_.weights[id];
    return Invalid("'" + std::string(role) + "' names weight " + Str(id) + "; the program has " +
                   Str(program_.weights.size()) + ".");
  }
  static Error WrongShape(std::string_view role, const Weight& weight,
                          const std::string& expected) {
    return Invalid("'" + std::string(role) + "' is '" + weight.name.substr(0, 200) + "' of shape " +
                   ShapeText(weight.shape) + "; expected " + expected + ".");
  }
  Status ExpectShape(std::string_view role, WeightId id,
                     const std::vector<uint64_t>& expected) const {
    ASSIGN_OR_RETURN(const Weight* weight, WeightAt(role, id));
    if (weight->shape != expected) return WrongShape(role, *weight, ShapeText(expected));
    return OkStatus();
  }
  Status ExpectVector(std::string_view role, WeightId id, uint64_t columns) const {
    return ExpectShape(role, id, {columns});
  }
  static Status ExpectColumns(std::string_view role, const View& view, uint64_t expected) {
    if (view.columns == expected) return OkStatus();
    return Invalid("'" + std::string(role) + "' has " + Str(view.columns) + " columns; expected " +
                   Str(expected) + ".");
  }
  static Status ExpectHeads(std::string_view role, const View& view, std::string_view count_name,
                            uint32_t heads, uint32_t head_columns) {
    if (heads == 0 || head_columns == 0) {
      return Invalid("it has " + Str(heads) + " " + std::string(count_name) + " of " +
                     Str(head_columns) + " columns.");
    }
    return ExpectColumns(role, view, uint64_t{heads} * head_columns);
  }
  Status CheckRope(const Rope& rope, uint32_t head_columns) const {
    TRY(ExpectPositive("rope.scale", rope.scale));
    ASSIGN_OR_RETURN(const Weight* table, WeightAt("rope.inv_freq", rope.inv_freq));
    if (table->dtype != DType::kF32 || table->shape.size() != 1 ||
        2 * table->shape[0] > head_columns) {
      return WrongShape("rope.inv_freq", *table, "at most [" + Str(head_columns / 2) + "] in f32");
    }
    return OkStatus();
  }
  static Status ExpectFinite(std::string_view role, float value) {
    if (std::isfinite(value)) return OkStatus();
    return Invalid("'" + std::string(role) + "' is not finite.");
  }
  static Status ExpectPositive(std::string_view role, float value) {
    if (std::isfinite(value) && value > 0) return OkStatus();
    return Invalid("'" + std::string(role) + "' is " + std::to_string(value) +
                   "; expected a positive number.");
  }
  static Status ExpectEpsilon(float value) {
    if (std::isfinite(value) && value >= 0 && value < 1) return OkStatus();
    return Invalid("'epsilon' is " + std::to_string(value) + "; expected 0 or more and below 1.");
  }
  static Status ExpectActivation(Activation kind) {
    if (kind <= Activation::kRelu) return OkStatus();
    return Invalid("its activation is " + Str(static_cast<uint64_t>(kind)) + ", which is none.");
  }
  static Status ExpectExperts(uint32_t experts, uint32_t top_k) {
    if (experts >= 1 && experts <= kMaxItems && top_k >= 1 && top_k <= experts) return OkStatus();
    return Invalid("it chooses " + Str(top_k) + " of " + Str(experts) + " experts.");
  }

  const Program& program_;
  std::vector<WrittenColumns> written_;
  std::set<uint32_t> exchange_ids_;
  int attention_count_ = 0;
};

Status CheckCounts(const Program& program) {
  if (program.ops.empty()) return Invalid("it has no operations.");
  if (program.layer_index > kMaxItems) {
    return Invalid("its layer index is " + Str(program.layer_index) + "; at most " +
                   Str(kMaxItems) + ".");
  }
  for (const size_t count : {program.ops.size(), program.buffers.size(), program.weights.size()}) {
    if (count > kMaxItems) {
      return Invalid("it has " + Str(count) + " operations, buffers or weights; at most " +
                     Str(kMaxItems) + ".");
    }
  }
  for (const Buffer& buffer : program.buffers) {
    if (buffer.columns == 0 || buffer.columns > kMaxColumns) {
      return Invalid("buffer '" + buffer.name.substr(0, 200) + "' has " + Str(buffer.columns) +
                     " columns; expected 1 to " + Str(kMaxColumns) + ".");
    }
  }
  for (const std::optional<BufferId> id : {program.input, std::optional(program.output)}) {
    if (id && *id >= program.buffers.size()) {
      return Invalid("its input or output is buffer " + Str(*id) + "; it has " +
                     Str(program.buffers.size()) + ".");
    }
  }
  return OkStatus();
}

Status ValidateUnnamed(const Program& program) {
  TRY(CheckCounts(program));
  for (const Weight& weight : program.weights) TRY(CheckWeight(weight));
  OpChecker checker(program);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    Status status = std::visit(checker, program.ops[i]);
    if (status.ok()) continue;
    return Invalid("operation " + Str(i) + " (" + std::string(OpName(program.ops[i])) +
                   "): " + status.error().message());
  }
  if (!program.input && !std::holds_alternative<Embed>(program.ops.front())) {
    return Invalid("without an input buffer it must begin with Embed.");
  }
  if (!checker.WholeBufferWritten(program.output)) {
    return Invalid("nothing writes the whole of its output buffer '" +
                   program.buffers[program.output].name.substr(0, 200) + "'.");
  }
  return OkStatus();
}

}  // namespace

Status Validate(const Program& program) {
  Status status = ValidateUnnamed(program);
  if (status.ok()) return status;
  return Error(status.error().code(), "The program of layer " + Str(program.layer_index) +
                                          " is not valid: " + status.error().message());
}

}  // namespace weft::program
