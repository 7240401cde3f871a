// Operators that move elements, ask for shapes, or compute with known numbers only.
#include <algorithm>

#include "lower/refuse.h"
#include "lower/trace/moves.h"
#include "lower/trace/numeric.h"
#include "lower/trace/rules.h"

namespace weft::lower::trace {
namespace {

using onnx::Node;

// Constants that only change their shape stay unread.
ValuePtr MoveInitializer(const Node& node, const Values& in, const Movement& move) {
  Value value = *in[0];
  if (node.Is("Transpose") && value.dims.size() == 2 && move.dims[0] == value.dims[1]) {
    value.transposed = !value.transposed;
  } else if (value.transposed || !(node.Is("Reshape") || node.Is("Squeeze") ||
                                   node.Is("Unsqueeze") || node.Is("Flatten"))) {
    return nullptr;
  }
  value.dims = move.dims;
  return MakeValue(std::move(value));
}

// Forms of all data inputs, one after the other. Numbers among them are refused but for zeros.
std::optional<std::vector<Form>> AllForms(const Values& data) {
  std::vector<Form> forms;
  for (const ValuePtr& value : data) {
    if (value->kind == Kind::kForms) {
      forms.insert(forms.end(), value->forms.begin(), value->forms.end());
    } else if (value->kind != Kind::kNumbers || !value->numbers.empty()) {
      return std::nullopt;
    }
  }
  return forms;
}

// What is known of the moved data.
Result<ValuePtr> Moved(const Node& node, const Values& data, Movement move) {
  bool numbers = true, shape = false;
  for (const ValuePtr& value : data) {
    numbers &= value->kind == Kind::kNumbers;
    shape |= value->kind == Kind::kShape;
  }
  Value out{.kind = Kind::kNumbers, .dims = std::move(move.dims), .type = data[0]->type};
  if (numbers) {
    std::vector<double> all;
    for (const ValuePtr& value : data) {
      all.insert(all.end(), value->numbers.begin(), value->numbers.end());
    }
    for (const int64_t from : move.from) out.numbers.push_back(all[static_cast<size_t>(from)]);
    return MakeValue(std::move(out));
  }
  if (shape) {
    out.kind = Kind::kShape;
    out.cache = data[0]->cache;
    out.factor = data[0]->factor;
    return MakeValue(std::move(out));
  }
  const auto forms = AllForms(data);
  if (!forms) return Refuse(node, "moves a value that is no plain hidden value");
  out.kind = Kind::kForms;
  for (const int64_t from : move.from) out.forms.push_back((*forms)[static_cast<size_t>(from)]);
  return MakeValue(std::move(out));
}

}  // namespace

Outputs RunMove(Tracer& tracer, const Node& node, const Values& in) {
  if (node.Is("Concat")) {
    if (auto appended = AppendToCache(tracer, node, in)) return *std::move(appended);
  }
  const size_t data_count = DataInputs(node);
  Values data(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(data_count)), settings;
  for (size_t i = data_count; i < in.size(); ++i) {
    settings.push_back(tracer.NumbersOf(in[i]));
    if (in[i] != nullptr && settings.back() == nullptr) {
      return Refuse(
          node, "moves elements by '" + node.inputs[i] + "', which depends on the hidden state");
    }
  }
  std::vector<Dims> dims;
  bool bare = false;
  for (ValuePtr& value : data) {
    if (value == nullptr) return Refuse(node, "lacks an input");
    bare |= value->kind == Kind::kShape;
    dims.push_back(value->dims);
  }
  if (data_count == 1 && data[0]->kind == Kind::kInitializer) {
    const auto move = MoveOf(node, dims, settings, 0, false);
    if (!move) return Refuse(node, "does not fit its operands");
    if (ValuePtr kept = MoveInitializer(node, data, *move)) return Values{std::move(kept)};
  }
  for (ValuePtr& value : data) {
    if (value->kind == Kind::kInitializer) value = tracer.NumbersOf(value);
    if (value == nullptr) return Refuse(node, "moves a constant that is too large to look into");
    ASSIGN_OR_RETURN(value, tracer.Settle(node, value));
  }
  Values out;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    auto move = MoveOf(node, dims, settings, i, !bare);
    if (!move) return Refuse(node, "does not fit its operands");
    ASSIGN_OR_RETURN(ValuePtr moved, Moved(node, data, *std::move(move)));
    out.push_back(std::move(moved));
  }
  return out;
}

Outputs RunShape(Tracer& tracer, const Node& node, const Values& in) {
  static_cast<void>(tracer);
  const auto rank = static_cast<int64_t>(in[0]->dims.size());
  const auto clamp = [&](int64_t axis) {
    return std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
  };
  const int64_t start = clamp(node.Int("start", 0)), end = clamp(node.Int("end", rank));
  std::vector<double> numbers;
  for (int64_t i = start; i < end; ++i) {
    const int64_t dim = in[0]->dims[static_cast<size_t>(i)];
    if (dim < 0) return Refuse(node, "asks for a dimension that the graph does not declare");
    numbers.push_back(static_cast<double>(dim));
  }
  const auto count = static_cast<int64_t>(numbers.size());
  return Values{MakeNumbers({count}, onnx::ElementType::kInt64, std::move(numbers))};
}

Outputs RunNumbers(Tracer& tracer, const Node& node, const Values& in) {
  Values numbers;
  for (const ValuePtr& value : in) {
    numbers.push_back(tracer.NumbersOf(value));
    if (value != nullptr && numbers.back() == nullptr) {
      return Refuse(node, "is an operator that no operation of a program stands for");
    }
  }
  auto out = EvaluateNumbers(node, numbers);
  if (!out) return Refuse(node, "does not fit its operands");
  return Values{MakeValue(*std::move(out))};
}

}  // namespace weft::lower::trace
