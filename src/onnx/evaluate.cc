#include "onnx/evaluate.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "onnx/broadcast.h"

namespace weft::onnx {
namespace {

constexpr int64_t kMaxElements = 4096;

using Inputs = std::vector<const Tensor*>;  // nullptr: absent
using Maybe = std::optional<Tensor>;
using Dims = std::vector<int64_t>;

bool IsInteger(ElementType type) {
  return type == ElementType::kInt64 || type == ElementType::kInt32;
}

// Integers and bools travel as int64 and come back in their own type.
Maybe FromIntegers(ElementType type, Dims dims, const std::vector<int64_t>& values) {
  if (type == ElementType::kInt64) return Tensor::FromInt64s(std::move(dims), values);
  std::vector<uint8_t> bytes(values.size() * static_cast<size_t>(ElementBits(type)) / 8);
  for (size_t i = 0; i < values.size(); ++i) {
    if (type == ElementType::kInt32) {
      StoreLe(bytes.data() + i * 4, static_cast<int32_t>(values[i]));
    } else if (type == ElementType::kBool) {
      bytes[i] = values[i] != 0 ? 1 : 0;
    } else {
      return std::nullopt;
    }
  }
  return Tensor::FromBytes(type, std::move(dims), Slice(std::move(bytes)));
}

std::optional<int64_t> CountOf(const Dims& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) {
    if (dim < 0 || dim > kMaxElements) return std::nullopt;
    count *= dim;
    if (count > kMaxElements) return std::nullopt;
  }
  return count;
}

std::optional<Dims> BroadcastDims(const Dims& a, const Dims& b) {
  auto out = BroadcastShape(a, b);
  if (out && !CountOf(*out)) out.reset();
  return out;
}

// a op b with broadcasting; `apply` returns nullopt where the result is undefined (division by
// zero).
template <typename T>
std::optional<std::vector<T>> Zip(const std::vector<T>& a, const Dims& a_dims,
                                  const std::vector<T>& b, const Dims& b_dims, const Dims& out,
                                  const std::function<std::optional<T>(T, T)>& apply) {
  std::vector<T> values(static_cast<size_t>(*CountOf(out)));
  for (size_t i = 0; i < values.size(); ++i) {
    const std::optional<T> value =
        apply(a[BroadcastIndex(i, out, a_dims)], b[BroadcastIndex(i, out, b_dims)]);
    if (!value) return std::nullopt;
    values[i] = *value;
  }
  return values;
}

template <typename T>
std::function<std::optional<T>(T, T)> Arithmetic(std::string_view op) {
  const auto wrap = [](auto f) { return [f](T x, T y) -> std::optional<T> { return f(x, y); }; };
  if constexpr (std::is_same_v<T, int64_t>) {
    // Wrapping like the runtime's two's complement, without signed overflow here.
    const auto bits = [](auto f) {
      return [f](int64_t x, int64_t y) -> std::optional<int64_t> {
        return static_cast<int64_t>(f(static_cast<uint64_t>(x), static_cast<uint64_t>(y)));
      };
    };
    if (op == "Add") return bits(std::plus<uint64_t>());
    if (op == "Sub") return bits(std::minus<uint64_t>());
    if (op == "Mul") return bits(std::multiplies<uint64_t>());
    if (op == "Div") {
      return [](int64_t x, int64_t y) -> std::optional<int64_t> {
        if (y == 0 || (y == -1 && x == INT64_MIN)) return std::nullopt;
        return x / y;
      };
    }
  } else {
    if (op == "Add") return wrap(std::plus<T>());
    if (op == "Sub") return wrap(std::minus<T>());
    if (op == "Mul") return wrap(std::multiplies<T>());
    if (op == "Div") return wrap(std::divides<T>());
  }
  return nullptr;
}

Maybe Binary(const Node& node, const Inputs& in) {
  const Tensor& a = *in[0];
  const Tensor& b = *in[1];
  if (a.type != b.type) return std::nullopt;
  const auto dims = BroadcastDims(a.dims, b.dims);
  if (!dims) return std::nullopt;
  if (a.type == ElementType::kFloat) {
    const auto values = Zip<float>(*a.AsFloats(), a.dims, *b.AsFloats(), b.dims, *dims,
                                   Arithmetic<float>(node.op_type));
    if (!values) return std::nullopt;
    return Tensor::FromFloats(*dims, *values);
  }
  if (!IsInteger(a.type)) return std::nullopt;
  const auto values = Zip<int64_t>(*a.AsInt64s(), a.dims, *b.AsInt64s(), b.dims, *dims,
                                   Arithmetic<int64_t>(node.op_type));
  if (!values) return std::nullopt;
  return FromIntegers(a.type, *dims, *values);
}

Maybe Equal(const Inputs& in) {
  const auto a = in[0]->AsInt64s();
  const auto b = in[1]->AsInt64s();
  const auto dims = BroadcastDims(in[0]->dims, in[1]->dims);
  if (!a || !b || !dims) return std::nullopt;
  const auto values =
      Zip<int64_t>(*a, in[0]->dims, *b, in[1]->dims, *dims,
                   [](int64_t x, int64_t y) -> std::optional<int64_t> { return x == y ? 1 : 0; });
  return FromIntegers(ElementType::kBool, *dims, *values);
}

// Copies whole elements from wherever `pick` says; for every op that only moves values.
Maybe Pick(const Tensor& from, Dims dims, const std::function<size_t(size_t)>& pick) {
  const auto count = CountOf(dims);
  const int bits = ElementBits(from.type);
  if (!count || bits < 8) return std::nullopt;
  const size_t width = static_cast<size_t>(bits) / 8;
  std::vector<uint8_t> bytes(static_cast<size_t>(*count) * width);
  for (size_t i = 0; i < static_cast<size_t>(*count); ++i) {
    std::memcpy(bytes.data() + i * width, from.data.bytes().data() + pick(i) * width, width);
  }
  return Tensor::FromBytes(from.type, std::move(dims), Slice(std::move(bytes)));
}

Maybe WithDims(const Tensor& tensor, Dims dims) {
  const auto count = CountOf(dims);
  if (!count || *count != tensor.element_count()) return std::nullopt;
  Tensor out = tensor;
  out.dims = std::move(dims);
  return out;
}

Maybe Where(const Inputs& in) {
  const auto condition = in[0]->AsInt64s();
  if (!condition || in[1]->type != in[2]->type || ElementBits(in[1]->type) < 8) return std::nullopt;
  auto dims = BroadcastDims(in[1]->dims, in[2]->dims);
  if (dims) dims = BroadcastDims(*dims, in[0]->dims);
  if (!dims) return std::nullopt;
  const auto a =
      Pick(*in[1], *dims, [&](size_t i) { return BroadcastIndex(i, *dims, in[1]->dims); });
  const auto b =
      Pick(*in[2], *dims, [&](size_t i) { return BroadcastIndex(i, *dims, in[2]->dims); });
  if (!a || !b) return std::nullopt;
  const size_t width = static_cast<size_t>(ElementBits(in[1]->type)) / 8;
  std::vector<uint8_t> bytes(a->data.byte_count());
  for (size_t i = 0; i * width < bytes.size(); ++i) {
    const bool first = (*condition)[BroadcastIndex(i, *dims, in[0]->dims)] != 0;
    const Tensor& source = first ? *a : *b;
    std::memcpy(bytes.data() + i * width, source.data.bytes().data() + i * width, width);
  }
  return Tensor::FromBytes(in[1]->type, *dims, Slice(std::move(bytes)));
}

Maybe Cast(const Node& node, const Inputs& in) {
  const auto to = static_cast<ElementType>(node.Int("to", 0));
  const Tensor& from = *in[0];
  if (to == from.type) return from;
  const auto integers = from.AsInt64s();
  if (integers && (IsInteger(to) || to == ElementType::kBool)) {
    return FromIntegers(to, from.dims, *integers);
  }
  const auto floats = from.AsFloats();
  if (to == ElementType::kFloat && floats && from.type != ElementType::kDouble) {
    return Tensor::FromFloats(from.dims, *floats);
  }
  if (IsInteger(to) && from.type == ElementType::kFloat) {
    std::vector<int64_t> values;
    for (const float value : *floats) {
      if (!(std::fabs(value) < 2e9f)) return std::nullopt;
      values.push_back(static_cast<int64_t>(value));
    }
    return FromIntegers(to, from.dims, values);
  }
  return std::nullopt;
}

// Axes as an attribute (before opset 13) or as the second input.
std::optional<Dims> AxesOf(const Node& node, const Inputs& in) {
  if (in.size() > 1 && in[1] != nullptr) return in[1]->AsInt64s();
  if (node.Find("axes") == nullptr) return std::nullopt;
  return node.Ints("axes");
}

Maybe Unsqueeze(const Node& node, const Inputs& in) {
  const auto axes = AxesOf(node, in);
  if (!axes) return std::nullopt;
  const auto rank = static_cast<int64_t>(in[0]->dims.size() + axes->size());
  Dims dims(static_cast<size_t>(rank), -1);
  for (int64_t axis : *axes) {
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank || dims[static_cast<size_t>(axis)] == 1) return std::nullopt;
    dims[static_cast<size_t>(axis)] = 1;
  }
  size_t next = 0;
  for (int64_t& dim : dims) {
    if (dim < 0) dim = in[0]->dims[next++];
  }
  return WithDims(*in[0], std::move(dims));
}

Maybe Squeeze(const Node& node, const Inputs& in) {
  const auto axes = AxesOf(node, in);
  const auto rank = static_cast<int64_t>(in[0]->dims.size());
  Dims dims;
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t dim = in[0]->dims[static_cast<size_t>(i)];
    const bool named = axes && std::any_of(axes->begin(), axes->end(), [&](int64_t axis) {
                         return axis == i || axis + rank == i;
                       });
    const bool drop = axes ? named : dim == 1;
    if (drop && dim != 1) return std::nullopt;
    if (!drop) dims.push_back(dim);
  }
  return WithDims(*in[0], std::move(dims));
}

Maybe Reshape(const Node& node, const Inputs& in) {
  auto dims = in[1]->AsInt64s();
  if (!dims || dims->size() > 16) return std::nullopt;
  int64_t known = 1;
  int64_t* open = nullptr;
  for (size_t i = 0; i < dims->size(); ++i) {
    int64_t& dim = (*dims)[i];
    if (dim == 0 && node.Int("allowzero", 0) == 0) {
      if (i >= in[0]->dims.size()) return std::nullopt;
      dim = in[0]->dims[i];
    }
    if (dim == -1) {
      if (open != nullptr) return std::nullopt;
      open = &dim;
    } else {
      if (dim < 0 || dim > kMaxElements) return std::nullopt;
      known *= dim;
      if (known > kMaxElements) return std::nullopt;
    }
  }
  if (open != nullptr) {
    if (known == 0) return std::nullopt;
    *open = in[0]->element_count() / known;
  }
  return WithDims(*in[0], std::move(*dims));
}

Maybe Concat(const Node& node, const Inputs& in) {
  // Vectors only: what shape arithmetic needs.
  const int64_t axis = node.Int("axis", 0);
  if (axis != 0 && axis != -1) return std::nullopt;
  std::vector<uint8_t> bytes;
  int64_t count = 0;
  for (const Tensor* tensor : in) {
    if (tensor == nullptr || tensor->dims.size() != 1 || tensor->type != in[0]->type) {
      return std::nullopt;
    }
    const ByteSpan part = tensor->data.bytes();
    bytes.insert(bytes.end(), part.begin(), part.end());
    count += tensor->dims[0];
  }
  if (ElementBits(in[0]->type) < 8) return std::nullopt;
  return Tensor::FromBytes(in[0]->type, {count}, Slice(std::move(bytes)));
}

Maybe Gather(const Node& node, const Inputs& in) {
  if (node.Int("axis", 0) != 0 || in[0]->dims.size() != 1) return std::nullopt;
  const auto indices = in[1]->AsInt64s();
  if (!indices) return std::nullopt;
  const int64_t extent = in[0]->dims[0];
  for (const int64_t index : *indices) {
    if (index < -extent || index >= extent) return std::nullopt;
  }
  return Pick(*in[0], in[1]->dims, [&](size_t i) {
    const int64_t index = (*indices)[i];
    return static_cast<size_t>(index < 0 ? index + extent : index);
  });
}

Maybe SliceVector(const Inputs& in) {
  if (in.size() < 3 || in[0]->dims.size() != 1) return std::nullopt;
  std::vector<int64_t> numbers;  // start, end, axis, step
  for (size_t i = 1; i < in.size(); ++i) {
    if (in[i] == nullptr) return std::nullopt;
    const auto value = in[i]->AsInt64s();
    if (!value || value->size() != 1) return std::nullopt;
    numbers.push_back((*value)[0]);
  }
  if (numbers.size() > 2 && numbers[2] != 0 && numbers[2] != -1) return std::nullopt;
  if (numbers.size() > 3 && numbers[3] != 1) return std::nullopt;
  const int64_t extent = in[0]->dims[0];
  const auto clamp = [&](int64_t position) {
    return std::clamp<int64_t>(position < 0 ? position + extent : position, 0, extent);
  };
  const int64_t begin = clamp(numbers[0]);
  const int64_t end = std::max(begin, clamp(numbers[1]));
  return Pick(*in[0], {end - begin}, [&](size_t i) { return static_cast<size_t>(begin) + i; });
}

Maybe ConstantOfShape(const Node& node, const Inputs& in) {
  const auto dims = in[0]->AsInt64s();
  if (!dims || dims->size() > 16 || !CountOf(*dims)) return std::nullopt;
  const float zero = 0;
  Tensor value = Tensor::FromFloats({1}, std::span<const float>(&zero, 1));
  if (const Tensor* given = node.TensorAttribute("value")) value = *given;
  if (!value.has_data() || value.element_count() != 1) return std::nullopt;
  return Pick(value, *dims, [](size_t) { return size_t{0}; });
}

Maybe Expand(const Inputs& in) {
  const auto shape = in[1]->AsInt64s();
  if (!shape || shape->size() > 16 || !CountOf(*shape)) return std::nullopt;
  const auto dims = BroadcastDims(in[0]->dims, *shape);
  if (!dims) return std::nullopt;
  return Pick(*in[0], *dims, [&](size_t i) { return BroadcastIndex(i, *dims, in[0]->dims); });
}

Maybe Range(const Inputs& in) {
  std::vector<int64_t> numbers;
  for (const Tensor* tensor : in) {
    if (tensor == nullptr || !IsInteger(tensor->type) || tensor->element_count() != 1) {
      return std::nullopt;
    }
    numbers.push_back((*tensor->AsInt64s())[0]);
  }
  if (numbers.size() != 3 || numbers[2] != 1) return std::nullopt;
  int64_t count = 0;
  if (__builtin_sub_overflow(numbers[1], numbers[0], &count)) return std::nullopt;
  if (count < 0 || count > kMaxElements) return std::nullopt;
  std::vector<int64_t> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(numbers[0] + i);
  return FromIntegers(in[0]->type, {count}, values);
}

Maybe Neg(const Inputs& in) {
  if (in[0]->type == ElementType::kFloat) {
    std::vector<float> values = *in[0]->AsFloats();
    for (float& value : values) value = -value;
    return Tensor::FromFloats(in[0]->dims, values);
  }
  if (!IsInteger(in[0]->type)) return std::nullopt;
  std::vector<int64_t> values = *in[0]->AsInt64s();
  for (int64_t& value : values) value = static_cast<int64_t>(-static_cast<uint64_t>(value));
  return FromIntegers(in[0]->type, in[0]->dims, values);
}

bool IsArithmetic(const Node& node) {
  return node.Is("Add") || node.Is("Sub") || node.Is("Mul") || node.Is("Div");
}

// Fills `inputs`; false unless every present input is a small initializer whose bytes are here.
bool CollectInputs(const Node& node, const Graph& graph, Inputs& inputs) {
  for (const std::string& name : node.inputs) {
    if (name.empty()) {
      inputs.push_back(nullptr);
      continue;
    }
    const Tensor* tensor = graph.FindInitializer(name);
    if (tensor == nullptr || !tensor->has_data() || !tensor->strings.empty()) return false;
    if (tensor->byte_count > kMaxElements * 8 || !CountOf(tensor->dims)) return false;
    inputs.push_back(tensor);
  }
  return true;
}

size_t RequiredInputs(const Node& node) {
  if (IsArithmetic(node) || node.Is("Equal") || node.Is("Reshape") || node.Is("Gather") ||
      node.Is("Expand")) {
    return 2;
  }
  return node.Is("Where") || node.Is("Range") ? 3 : 1;
}

}  // namespace

Maybe Evaluate(const Node& node, const Graph& graph) {
  if (!node.domain.empty() || node.inputs.empty()) return std::nullopt;
  if (node.Is("Shape") && node.attributes.empty()) {
    const Tensor* tensor = graph.FindInitializer(node.Input(0));
    if (tensor == nullptr) return std::nullopt;
    return Tensor::FromInt64s({static_cast<int64_t>(tensor->dims.size())}, tensor->dims);
  }
  Inputs in;
  if (!CollectInputs(node, graph, in) || in.size() < RequiredInputs(node)) return std::nullopt;
  for (size_t i = 0; i < RequiredInputs(node); ++i) {
    if (in[i] == nullptr) return std::nullopt;
  }
  if (IsArithmetic(node)) return Binary(node, in);
  if (node.Is("Identity")) return *in[0];
  if (node.Is("Cast")) return Cast(node, in);
  if (node.Is("Equal")) return Equal(in);
  if (node.Is("Where")) return Where(in);
  if (node.Is("Unsqueeze")) return Unsqueeze(node, in);
  if (node.Is("Squeeze")) return Squeeze(node, in);
  if (node.Is("Reshape")) return Reshape(node, in);
  if (node.Is("Concat")) return Concat(node, in);
  if (node.Is("Gather")) return Gather(node, in);
  if (node.Is("Slice")) return SliceVector(in);
  if (node.Is("ConstantOfShape")) return ConstantOfShape(node, in);
  if (node.Is("Expand")) return Expand(in);
  if (node.Is("Range")) return Range(in);
  if (node.Is("Neg")) return Neg(in);
  return std::nullopt;
}

}  // namespace weft::onnx
