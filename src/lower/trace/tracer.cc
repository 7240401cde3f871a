#include "lower/trace/tracer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lower/layer_form.h"
#include "lower/refuse.h"
#include "lower/trace/numeric.h"
#include "onnx/extract.h"
#include "tensor/blocks.h"

namespace weft::lower::trace {
namespace {

using onnx::ElementType;
using onnx::Node;
using onnx::Tensor;

Error Unsupported(std::string sentence) {
  return Error(ErrorCode::kUnsupported, std::move(sentence));
}

Node Named(const char* name) {
  Node node;
  node.name = name;
  node.op_type = "output";
  return node;
}

bool IsCache(const onnx::ValueInfo& input) {
  return onnx::IsFloatType(input.type) && input.shape && input.shape->size() == 4;
}

}  // namespace

ValuePtr MakeValue(Value value) {
  return std::make_shared<const Value>(std::move(value));
}

ValuePtr MakeNumbers(Dims dims, ElementType type, std::vector<double> numbers) {
  return MakeValue({.kind = Kind::kNumbers,
                    .dims = std::move(dims),
                    .type = type,
                    .numbers = std::move(numbers)});
}

bool IsConstant(const ValuePtr& value) {
  return value != nullptr && (value->kind == Kind::kNumbers || value->kind == Kind::kInitializer);
}

Tracer::Tracer(const onnx::Graph& graph, uint32_t layer_index, Probe probe, RuleFinder find_rule)
    : graph_(graph), probe_(probe), find_rule_(find_rule) {
  trace_.program.layer_index = layer_index;
}

// The graph runs once, node by node in topological order, over `probe_.rows` made-up tokens after
// `probe_.past` cached ones. Values that depend on positions and lengths alone are plain numbers.
// Values that depend on the hidden state are never numbers: each of their elements is a form, which
// says which elements of which buffer it is made of. Say the residual stream is buffer 0 with 4
// columns and q is what a product wrote to buffer 1; after Reshape [1, 3, 2, 2] and Transpose
// (0, 2, 1, 3), element [0, 1, 2, 0] of q is "element 10 of buffer 1", row 2, column 2: that is how
// it is known to be head 1 of row 2 although no rule knows why the exporter moved it so.
//
// Operators that only move elements move forms, so that any spelling of "split into heads" gives
// the same forms (moves.h). Operators that a program has (products, norms, attention) read the
// forms back as columns of a buffer (forms.h) and emit an operation, or refuse the node by its
// name.
Result<Trace> Tracer::Run() {
  TRY(BindInputs());
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    for (const std::string& name : graph_.nodes[i].inputs) last_reads_[name] = i;
  }
  for (const onnx::ValueInfo& output : graph_.outputs) last_reads_.erase(output.name);
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    TRY(Run(graph_.nodes[i]));
    ForgetAfter(i);
  }
  TRY(CheckOutputs());
  return std::move(trace_);
}

Status Tracer::BindInputs() {
  for (const onnx::ValueInfo& input : graph_.inputs) {
    if (input.name == onnx::kHiddenIn) {
      ASSIGN_OR_RETURN(const uint32_t columns, HiddenColumns(input));
      const View view = NewBuffer(input.name, columns);
      trace_.program.input = view.buffer;
      values_[input.name] = RowsOf(view, {1, rows(), columns});
    } else if (input.name == "input_ids") {
      values_[input.name] = MakeValue({.kind = Kind::kTokens, .dims = {1, rows()}});
    } else if (input.name == "attention_mask") {
      values_[input.name] = MakeNumbers({1, total()}, input.type,
                                        std::vector<double>(static_cast<size_t>(total()), 1));
    } else if (input.name == "position_ids") {
      std::vector<double> positions;
      for (int64_t p = probe_.past; p < total(); ++p) positions.push_back(static_cast<double>(p));
      values_[input.name] = MakeNumbers({1, rows()}, input.type, std::move(positions));
    } else if (IsCache(input)) {
      TRY(BindCache(input));
    } else {
      return Unsupported("The layer reads '" + input.name +
                         "', an input that is none of input_ids, attention_mask, position_ids and "
                         "caches [batch, heads, past, columns].");
    }
  }
  return OkStatus();
}

Status Tracer::BindCache(const onnx::ValueInfo& input) {
  const onnx::Dim &heads = (*input.shape)[1], &columns = (*input.shape)[3];
  if (columns.known()) head_columns_ = columns.value;
  Value value{.kind = Kind::kShape,
              .dims = {1, heads.known() ? heads.value : -1, probe_.past,
                       columns.known() ? columns.value : -1},
              .cache = input.name};
  const int32_t source = NewSource(-1, 0);
  cache_sources_[input.name] = source;
  if (!probe_.wide && heads.known() && value.dims[3] > 0) {
    if (CountOf(value.dims) > kMaxElements) {
      return Unsupported("The cache '" + input.name + "' has " + std::to_string(heads.value) +
                         " heads of " + std::to_string(columns.value) +
                         " columns, more than weft looks into.");
    }
    value.kind = Kind::kForms;
    value.forms.resize(static_cast<size_t>(CountOf(value.dims)));
    for (size_t i = 0; i < value.forms.size(); ++i) {
      value.forms[i] = {{source, static_cast<int32_t>(i)}, {}, 1, 0};
    }
  }
  values_[input.name] = MakeValue(std::move(value));
  return OkStatus();
}

int32_t Tracer::NewSource(int64_t columns, BufferId buffer) {
  source_columns_.push_back(columns);
  source_buffers_.push_back(buffer);
  return static_cast<int32_t>(source_columns_.size() - 1);
}

View Tracer::NewBuffer(std::string_view name, int64_t columns) {
  trace_.program.buffers.push_back({std::string(name), static_cast<uint32_t>(columns)});
  const auto id = static_cast<BufferId>(trace_.program.buffers.size() - 1);
  buffer_sources_.push_back(NewSource(columns, id));
  return {id, 0, static_cast<uint32_t>(columns)};
}

ValuePtr Tracer::RowsOf(const View& view, Dims dims, Layout layout) const {
  const int32_t source = buffer_sources_[view.buffer];
  Value value{.kind = Kind::kForms, .dims = std::move(dims)};
  value.forms = FormsOf(source, source_columns_[static_cast<size_t>(source)], view.first_column,
                        view.columns, value.dims, rows(), layout);
  return MakeValue(std::move(value));
}

View Tracer::ViewOf(const Placement& place) const {
  return {source_buffers_[static_cast<size_t>(place.source)],
          static_cast<uint32_t>(place.first_column), static_cast<uint32_t>(place.columns)};
}

ValuePtr Tracer::Find(const std::string& name) {
  if (name.empty()) return nullptr;
  if (const auto found = values_.find(name); found != values_.end()) return found->second;
  const Tensor* tensor = graph_.FindInitializer(name);
  if (tensor == nullptr) return nullptr;
  return values_[name] = MakeValue({.kind = Kind::kInitializer,
                                    .dims = tensor->dims,
                                    .type = tensor->type,
                                    .initializer = name});
}

Status Tracer::Run(const Node& node) {
  Values in;
  for (const std::string& name : node.inputs) {
    in.push_back(Find(name));
    if (!name.empty() && in.back() == nullptr) {
      return Refuse(node, "reads '" + name + "', which nothing computes");
    }
  }
  const Rule rule = find_rule_(node);
  if (rule == nullptr) {
    return Refuse(node, "is an operator that no operation of a program stands for");
  }
  if (in.empty() || in[0] == nullptr) return Refuse(node, "lacks an operand");
  ASSIGN_OR_RETURN(const Values out, rule(*this, node, in));
  for (size_t i = 0; i < node.outputs.size() && i < out.size(); ++i) {
    if (!node.outputs[i].empty() && out[i] != nullptr) TRY(Keep(node, node.outputs[i], out[i]));
  }
  return OkStatus();
}

// A value that a rule made becomes the node's output. What a graph does may fit no tensor at all:
// here everything that rules made is looked at once.
Status Tracer::Keep(const Node& node, const std::string& name, ValuePtr value) {
  const int64_t count = CountOf(value->dims);
  const bool fits =
      value->dims.size() <= 16 && count < kTooMany &&
      (value->kind != Kind::kNumbers || static_cast<int64_t>(value->numbers.size()) == count) &&
      (value->kind != Kind::kForms ||
       (static_cast<int64_t>(value->forms.size()) == count && !value->dims.empty()));
  if (!fits) return Refuse(node, "gives a value of a shape that does not fit");
  values_[name] = std::move(value);
  return OkStatus();
}

void Tracer::ForgetAfter(size_t node_index) {
  for (const std::string& name : graph_.nodes[node_index].inputs) {
    const auto last = last_reads_.find(name);
    if (last != last_reads_.end() && last->second == node_index) values_.erase(name);
  }
}

ValuePtr Tracer::NumbersOf(const ValuePtr& value) {
  if (value == nullptr || value->kind == Kind::kNumbers) return value;
  if (value->kind != Kind::kInitializer || CountOf(value->dims) > kMaxElements) return nullptr;
  const std::string key = value->initializer + (value->transposed ? "/transposed" : "");
  ValuePtr& known = numbers_[key];
  if (known == nullptr) {
    const Tensor& tensor = *graph_.FindInitializer(value->initializer);
    std::vector<double> numbers;
    if (const auto integers = tensor.AsInt64s()) {
      for (const int64_t i : *integers) numbers.push_back(static_cast<double>(i));
    } else if (const auto floats = tensor.AsFloats()) {
      for (const float f : *floats) numbers.push_back(static_cast<double>(f));
    } else {
      return nullptr;
    }
    if (value->transposed) {
      const auto rows = static_cast<size_t>(value->dims[0]);
      const auto columns = static_cast<size_t>(value->dims[1]);
      std::vector<double> turned(numbers.size());
      for (size_t i = 0; i < turned.size(); ++i) {
        turned[i] = numbers[i % columns * rows + i / columns];
      }
      numbers = std::move(turned);
    }
    known = MakeNumbers(value->dims, value->type, std::move(numbers));
  }
  if (known->dims == value->dims) return known;
  return MakeNumbers(value->dims, value->type, known->numbers);
}

std::optional<std::vector<double>> Tracer::Elements(const ValuePtr& value, int64_t first,
                                                    int64_t count) {
  if (!IsConstant(value) || first < 0 || first > CountOf(value->dims) - count) return std::nullopt;
  if (value->kind == Kind::kNumbers) {
    return std::vector<double>(value->numbers.begin() + first,
                               value->numbers.begin() + first + count);
  }
  const Tensor& tensor = *graph_.FindInitializer(value->initializer);
  const auto dtype = onnx::ToDType(tensor.type);
  if (value->transposed || !dtype || !onnx::IsFloatType(tensor.type) || !tensor.has_data()) {
    return std::nullopt;
  }
  std::vector<float> floats(static_cast<size_t>(count));
  ToF32(*dtype, tensor.data.bytes().data() + first * ElementBytes(*dtype), floats);
  return std::vector<double>(floats.begin(), floats.end());
}

Result<ValuePtr> Tracer::EmitNorm(const Node& node, const ValuePtr& x,
                                  const std::vector<double>& weight, double epsilon) {
  ASSIGN_OR_RETURN(const ValuePtr settled, Settle(node, x));
  const auto place = PlacementOf(*settled, rows(), source_columns_);
  const int64_t width = settled->dims.empty() ? 0 : settled->dims.back();
  if (!place || place->factor != 1 || width == 0 || place->columns % width != 0) {
    return Refuse(node, "normalises what is neither whole rows nor heads of them");
  }
  const View in = ViewOf(*place);
  const View out = NewBuffer(node.Output(0), in.columns);
  const std::string name = (node.name.empty() ? std::string(node.Output(0)) : node.name);
  const WeightId weight_id = AddVector(name + ".weight", weight);
  const auto eps = static_cast<float>(epsilon);
  if (width == place->columns) {
    trace_.program.ops.push_back(RmsNorm{in, out, weight_id, eps});
  } else {
    trace_.program.ops.push_back(QkNormRope{in,
                                            out,
                                            in.columns / static_cast<uint32_t>(width),
                                            static_cast<uint32_t>(width),
                                            weight_id,
                                            eps,
                                            {}});
  }
  return RowsOf(out, settled->dims, place->layout);
}

// Some values wait for what comes next before they become operations: exporters write an RMS norm
// as six nodes and a softcap as three, and only the last of them tells which it is. So a norm
// without its weight (kNormed) and a function of each element (kPointwise, known by its samples)
// stay pending until a rule needs rows. A pending multiple x -> k x costs no operation: it goes
// into the forms' factors. A pending cap * tanh(k x / cap) becomes Scale and Softcap.
Result<ValuePtr> Tracer::Settle(const Node& node, const ValuePtr& value) {
  if (value == nullptr) return value;
  if (value->kind == Kind::kNormed) {
    const std::vector<double> ones(static_cast<size_t>(value->dims.back()), 1);
    return EmitNorm(node, value->base, ones, value->epsilon);
  }
  if (value->kind != Kind::kPointwise || value->base->kind != Kind::kForms) return value;
  if (const auto factor = AsFactor(value->samples)) {
    Value scaled = *value->base;
    for (Form& form : scaled.forms) {
      form.ca *= *factor;
      form.cb *= *factor;
    }
    return MakeValue(std::move(scaled));
  }
  auto cap = AsSoftcap(value->samples);
  if (!cap) {
    return Refuse(node, "reads a function of a hidden value that is no softcap");
  }
  ValuePtr base = value->base;
  if (const auto place = PlacementOf(*base, rows(), source_columns_)) {
    cap->factor *= place->factor;  // of cap * tanh(x / cap), the division by cap
    base = RowsOf(ViewOf(*place), base->dims, place->layout);
  }
  ASSIGN_OR_RETURN(View in, Rows(node, base));
  if (std::fabs(cap->factor - 1) > 1e-6) {
    const View scaled = NewBuffer("scaled", in.columns);
    program().ops.push_back(Scale{in, scaled, static_cast<float>(cap->factor)});
    in = scaled;
  }
  const View out = NewBuffer("capped", in.columns);
  program().ops.push_back(Softcap{in, out, static_cast<float>(cap->cap)});
  return RowsOf(out, value->dims);
}

Result<View> Tracer::Rows(const Node& node, const ValuePtr& value) {
  ASSIGN_OR_RETURN(const ValuePtr settled, Settle(node, value));
  const auto place = PlacementOf(*settled, rows(), source_columns_);
  if (!place || (place->layout == Layout::kHeads && settled->dims[1] != 1)) {
    return Refuse(node, "reads a value that is not whole rows in order");
  }
  const View in = ViewOf(*place);
  if (place->factor == 1) return in;
  auto& ops = program().ops;
  const auto factor = static_cast<float>(place->factor);
  if (auto* embed = ops.size() == 1 ? std::get_if<Embed>(&ops[0]) : nullptr) {
    embed->scale *= factor;
    return in;
  }
  const View out = NewBuffer("scaled", in.columns);
  ops.push_back(Scale{in, out, factor});
  return out;
}

// A rotation is not looked for by its nodes either. After it, an element is ca * a + cb * b with
// (ca, cb) = (cos, -sin) of an angle and (a, b) the pair that turns together; forms keep a pair
// even where its angle is 0. RotationOf reads the pairs (halves or neighbours) and the angles of
// every row. The frequencies behind the angles are not known yet: one trace sees a few positions,
// and angle = position * frequency only up to whole turns. The weight inv_freq is filled when
// traces at several positions have been compared.
Result<Tracer::Placed> Tracer::Heads(const Node& node, const ValuePtr& value) {
  ASSIGN_OR_RETURN(const ValuePtr settled, Settle(node, value));
  if (const auto place = PlacementOf(*settled, rows(), source_columns_)) {
    const View view = ViewOf(*place);
    return Placed{view, place->factor, RowsOf(view, settled->dims, place->layout)};
  }
  auto rotation = RotationOf(*settled, rows(), head_columns_, probe_.past, source_columns_);
  if (!rotation) {
    return Refuse(node, "reads heads that are neither columns of a buffer nor a rotation of them");
  }
  const View in = ViewOf(rotation->placement);
  // Queries and keys of a layer share their table.
  std::optional<WeightId> inv_freq;
  for (const auto& [id, turns] : trace_.turns) {
    if (turns == rotation->turns) inv_freq = id;
  }
  if (!inv_freq) {
    const std::vector<double> unknown(rotation->turns[0].cos.size(), 0);
    inv_freq = AddVector("inv_freq_" + std::to_string(trace_.turns.size()), unknown);
    trace_.turns[*inv_freq] = rotation->turns;
    trace_.turning_nodes[*inv_freq] = node.Describe();
  }
  const View out = NewBuffer("rotated", in.columns);
  program().ops.push_back(QkNormRope{
      .in = in,
      .out = out,
      .heads = in.columns / static_cast<uint32_t>(head_columns_),
      .head_columns = static_cast<uint32_t>(head_columns_),
      .norm_weight = {},
      .epsilon = 0,
      .rope = Rope{*inv_freq, static_cast<float>(rotation->scale), rotation->interleaved}});
  return Placed{out, rotation->placement.factor,
                RowsOf(out, settled->dims, rotation->placement.layout)};
}

ValuePtr Tracer::ChoicesValue(Choices choices, Dims dims) {
  const int32_t source = NewSource(-1, 0);
  const int64_t count = rows() * choices.top_k * choices.columns;
  Value value{.kind = Kind::kForms, .dims = std::move(dims)};
  for (int64_t i = 0; i < count; ++i) {
    value.forms.push_back({{source, static_cast<int32_t>(i)}, {}, 1, 0});
  }
  choices_[source] = std::move(choices);
  return MakeValue(std::move(value));
}

std::optional<Tracer::ChoiceColumns> Tracer::ChoicesOf(const ValuePtr& value) const {
  if (value->kind != Kind::kForms || value->forms.empty()) return std::nullopt;
  const ElementId& corner = value->forms[0].a;
  const auto found = choices_.find(corner.source);
  if (found == choices_.end()) return std::nullopt;
  const Choices& choices = found->second;
  const int64_t count = rows() * choices.top_k;
  const auto size = static_cast<int64_t>(value->forms.size());
  if (size % count != 0) return std::nullopt;
  const ChoiceColumns out{&choices, corner.index, size / count};
  for (int64_t i = 0; i < size; ++i) {
    const Form& form = value->forms[static_cast<size_t>(i)];
    const int64_t index = i / out.columns * choices.columns + out.first + i % out.columns;
    if (form.a != ElementId{corner.source, static_cast<int32_t>(index)} || form.b.source >= 0 ||
        form.ca != 1) {
      return std::nullopt;
    }
  }
  return out;
}

WeightId Tracer::AddWeight(Weight weight, WeightRecipe recipe) {
  const auto [entry, added] =
      weight_ids_.emplace(weight.name, static_cast<WeightId>(trace_.program.weights.size()));
  if (added) {
    trace_.program.weights.push_back(std::move(weight));
    trace_.recipes.push_back(std::move(recipe));
  }
  return entry->second;
}

WeightId Tracer::AddVector(std::string_view name, const std::vector<double>& values) {
  WeightRecipe recipe{.form = WeightRecipe::Form::kMade,
                      .values = std::vector<float>(values.begin(), values.end())};
  std::string unique(name);
  for (int i = 2; weight_ids_.contains(unique) && trace_.recipes[weight_ids_[unique]] != recipe;
       ++i) {
    unique = std::string(name) + "_" + std::to_string(i);
  }
  return AddWeight({unique, DType::kF32, {values.size()}, {}, {}, {}}, std::move(recipe));
}

Result<std::vector<double>> Tracer::VectorOf(const Node& node, const ValuePtr& value,
                                             int64_t count) {
  const ValuePtr numbers = IsConstant(value) ? NumbersOf(value) : nullptr;
  const bool is_vector =
      numbers != nullptr && (CountOf(numbers->dims) == 1 ||
                             (CountOf(numbers->dims) == count && numbers->dims.back() == count));
  if (!is_vector) {
    return Refuse(node, "has no constant vector of " + std::to_string(count) + " values");
  }
  std::vector<double> values = numbers->numbers;
  values.resize(static_cast<size_t>(count), values[0]);
  return values;
}

// What attention reads must be the whole cache followed by the step's own rows, else the operation,
// which appends in place, would compute something else. Element (head, t, d) of the expected tensor
// is element (head / share, t, d) of the cache for t < past, and column head / share * columns + d
// of row t - past of the step's k or v after that; `share` query heads use one kv head
// (Expand or Tile in the graph, nothing at all in a program).
std::optional<double> Tracer::IsKept(const Value& value, const std::string& name,
                                     bool transposed) const {
  const auto kept = kept_.find(name);
  const auto cache = cache_sources_.find(name);
  if (kept == kept_.end() || cache == cache_sources_.end()) return std::nullopt;
  const View& view = kept->second;
  const int64_t columns = head_columns_, total_rows = total();
  const Dims expected =
      transposed ? Dims{1, -1, columns, total_rows} : Dims{1, -1, total_rows, columns};
  if (value.kind != Kind::kForms || value.dims.size() != 4 || value.dims[0] != 1 ||
      value.dims[2] != expected[2] || value.dims[3] != expected[3]) {
    return std::nullopt;
  }
  const int64_t heads = value.dims[1], kv_heads = view.columns / columns;
  if (kv_heads == 0 || heads % kv_heads != 0) return std::nullopt;
  const int32_t source = buffer_sources_[view.buffer];
  const int64_t width = source_columns_[static_cast<size_t>(source)];
  const double factor = value.forms[0].ca;
  for (int64_t i = 0; i < static_cast<int64_t>(value.forms.size()); ++i) {
    const int64_t head = i / (total_rows * columns) / (heads / kv_heads);
    const int64_t t = transposed ? i % total_rows : i / columns % total_rows;
    const int64_t d = transposed ? i / total_rows % columns : i % columns;
    const int64_t past = (head * probe_.past + t) * columns + d;
    const int64_t fresh = (t - probe_.past) * width + view.first_column + head * columns + d;
    const ElementId id = t < probe_.past ? ElementId{cache->second, static_cast<int32_t>(past)}
                                         : ElementId{source, static_cast<int32_t>(fresh)};
    const Form& form = value.forms[static_cast<size_t>(i)];
    if (form.a != id || form.b.source >= 0 || form.ca != factor) return std::nullopt;
  }
  return factor;
}

Status Tracer::CheckPresent(const std::string& name, const Value& value) {
  if (value.kind == Kind::kPresent || (probe_.wide && value.kind == Kind::kShape)) {
    if (kept_.contains(value.cache)) return OkStatus();
  }
  for (const auto& [cache, view] : kept_) {
    const auto factor = IsKept(value, cache, false);
    if (factor == 1.0 && value.dims[1] * head_columns_ == view.columns) return OkStatus();
  }
  return Unsupported("The layer gives out '" + name +
                     "', which is not a cache with the step's keys or values after it.");
}

Status Tracer::CheckOutputs() {
  ASSIGN_OR_RETURN(const std::string main_output, MainOutput(graph_));
  for (const onnx::ValueInfo& info : graph_.outputs) {
    const ValuePtr value = Find(info.name);
    if (value == nullptr) return Unsupported("Nothing computes the output '" + info.name + "'.");
    if (info.name == main_output) {
      ASSIGN_OR_RETURN(const View view, Rows(Named(info.name.c_str()), value));
      if (view.columns != program().buffers[view.buffer].columns) {
        return Unsupported("The output '" + info.name + "' is a part of a wider value.");
      }
      program().output = view.buffer;
    } else {
      TRY(CheckPresent(info.name, *value));
    }
  }
  return OkStatus();
}

}  // namespace weft::lower::trace
