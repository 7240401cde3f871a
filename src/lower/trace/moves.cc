#include "lower/trace/moves.h"

#include <algorithm>
#include <array>
#include <functional>
#include <string_view>

#include "lower/trace/numeric.h"

namespace weft::lower::trace {
namespace {

using onnx::Node;
using Maybe = std::optional<Movement>;
using Index = std::function<int64_t(int64_t)>;  // flat index of the output -> of the input

constexpr std::array<std::string_view, 12> kMoves = {
    "Concat", "Expand", "Flatten", "Gather", "GatherND",  "Reshape",
    "Slice",  "Split",  "Squeeze", "Tile",   "Transpose", "Unsqueeze"};
constexpr int64_t kMaxDim = int64_t{1} << 40;

int64_t Times(int64_t a, int64_t b) {
  return CountOf({std::max<int64_t>(a, 1), std::max<int64_t>(b, 1)});
}

// Every movement is one function from the flat index of an output element to that of the input
// element which stands there. Composing nodes then needs no algebra of shapes: each value's
// elements are copied through the function. Example: Transpose (1, 0) of [2, 3] has output dims [3,
// 2]; output index 3 is (1, 1), so it takes input (1, 1) = 4.
Maybe Make(Dims dims, bool with_indices, const Index& index) {
  for (const int64_t dim : dims) {
    if (dim < 0 || dim > kMaxDim) return std::nullopt;
  }
  if (dims.size() > 16 || CountOf(dims) >= kTooMany) return std::nullopt;
  Movement move{std::move(dims), {}};
  if (!with_indices) return move;
  const int64_t count = CountOf(move.dims);
  if (count > kMaxElements) return std::nullopt;
  move.from.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) move.from.push_back(index(i));
  return move;
}

std::optional<int64_t> Positive(int64_t axis, size_t rank) {
  if (axis < 0) axis += static_cast<int64_t>(rank);
  if (axis < 0 || axis >= static_cast<int64_t>(rank)) return std::nullopt;
  return axis;
}

std::vector<int64_t> Integers(const ValuePtr& value) {
  std::vector<int64_t> out;
  if (!value) return out;
  for (const double number : value->numbers) out.push_back(ToInteger(number));
  return out;
}

// The input or, in older operator sets, the attribute.
std::vector<int64_t> Setting(const Node& node, const std::vector<ValuePtr>& numbers,
                             std::string_view attribute) {
  if (!numbers.empty() && numbers[0]) return Integers(numbers[0]);
  return node.Ints(attribute);
}

// Extents [outer, axis, inner] around an axis.
struct Around {
  int64_t outer = 1, extent = 1, inner = 1;
};
Around SplitAt(const Dims& dims, int64_t axis) {
  Around around;
  for (size_t i = 0; i < dims.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    int64_t& part = at < axis ? around.outer : at == axis ? around.extent : around.inner;
    part = CountOf({part, dims[i]});
  }
  return around;
}

Maybe Same(Dims dims, int64_t count, bool with_indices) {
  if (CountOf(dims) != count) return std::nullopt;
  return Make(std::move(dims), with_indices, [](int64_t i) { return i; });
}

// 0 keeps the input's dimension at that place (without `allowzero`), one -1 takes what is left.
Maybe Reshape(const Node& node, const Dims& in, const ValuePtr& target, bool with_indices) {
  Dims dims = Integers(target);
  int64_t known = 1;
  int64_t* open = nullptr;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 && node.Int("allowzero", 0) == 0) {
      if (i >= in.size()) return std::nullopt;
      dims[i] = in[i];
    }
    if (dims[i] == -1) {
      if (open != nullptr) return std::nullopt;
      open = &dims[i];
    } else {
      known = dims[i] < 0 ? -1 : known <= 0 ? known : CountOf({known, dims[i]});
    }
  }
  if (open != nullptr) {
    if (known <= 0) return std::nullopt;
    *open = CountOf(in) / known;
  }
  return Same(std::move(dims), CountOf(in), with_indices);
}

// Output axis i is input axis perm[i]: its steps are that axis' stride in the input.
Maybe Transpose(const Node& node, const Dims& in, bool with_indices) {
  std::vector<int64_t> perm = node.Ints("perm");
  if (perm.empty()) {
    for (size_t i = in.size(); i-- > 0;) perm.push_back(static_cast<int64_t>(i));
  }
  if (perm.size() != in.size()) return std::nullopt;
  Dims strides(in.size(), 1), dims, moved;
  for (size_t i = in.size(); i-- > 1;) strides[i - 1] = Times(strides[i], in[i]);
  for (const int64_t axis : perm) {
    const auto positive = Positive(axis, in.size());
    if (!positive) return std::nullopt;
    dims.push_back(in[static_cast<size_t>(*positive)]);
    moved.push_back(strides[static_cast<size_t>(*positive)]);
  }
  return Make(dims, with_indices, [&](int64_t flat) {
    int64_t from = 0;
    for (size_t i = dims.size(); i-- > 0;) {
      from += flat % dims[i] * moved[i];
      flat /= dims[i];
    }
    return from;
  });
}

// Along each axis, output place p is input place first + p * step. Ends clamp as in ONNX: INT64_MAX
// is an exporter's way to say "to the end". Negative steps are refused; no decoder uses them.
Maybe Slice(const Dims& in, const std::vector<ValuePtr>& numbers, bool with_indices) {
  if (numbers.size() < 2) return std::nullopt;
  const auto starts = Integers(numbers[0]), ends = Integers(numbers[1]);
  auto axes = numbers.size() > 2 ? Integers(numbers[2]) : std::vector<int64_t>();
  auto steps = numbers.size() > 3 ? Integers(numbers[3]) : std::vector<int64_t>();
  for (size_t i = axes.size(); i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  steps.resize(starts.size(), 1);
  if (ends.size() != starts.size()) return std::nullopt;
  Dims dims = in, first(in.size(), 0), step(in.size(), 1), strides(in.size(), 1);
  for (size_t i = in.size(); i-- > 1;) strides[i - 1] = Times(strides[i], in[i]);
  for (size_t i = 0; i < starts.size(); ++i) {
    const auto positive = Positive(axes[i], in.size());
    if (!positive || steps[i] < 1 || steps[i] > kMaxDim) return std::nullopt;
    const auto axis = static_cast<size_t>(*positive);
    const auto clamp = [&](int64_t at) {
      return std::clamp<int64_t>(at < 0 ? std::max(at, -in[axis]) + in[axis] : at, 0, in[axis]);
    };
    first[axis] = clamp(starts[i]);
    step[axis] = steps[i];
    const int64_t length = std::max<int64_t>(0, clamp(ends[i]) - first[axis]);
    dims[axis] = length / steps[i] + (length % steps[i] != 0 ? 1 : 0);
  }
  return Make(dims, with_indices, [&](int64_t flat) {
    int64_t from = 0;
    for (size_t i = dims.size(); i-- > 0;) {
      from += (first[i] + flat % dims[i] * step[i]) * strides[i];
      flat /= dims[i];
    }
    return from;
  });
}

Maybe Split(const Node& node, const Dims& in, const std::vector<ValuePtr>& numbers, size_t output,
            bool with_indices) {
  const auto axis = Positive(node.Int("axis", 0), in.size());
  if (!axis) return std::nullopt;
  const Around around = SplitAt(in, *axis);
  std::vector<int64_t> lengths = Setting(node, numbers, "split");
  const auto pieces = static_cast<int64_t>(node.outputs.size());
  if (lengths.empty()) {
    const int64_t each = (around.extent + pieces - 1) / pieces;
    for (int64_t i = 0; i < pieces; ++i) {
      lengths.push_back(std::min(each, around.extent - i * each));
    }
  }
  if (output >= lengths.size()) return std::nullopt;
  int64_t begin = 0;
  const int64_t length = lengths[output];
  for (size_t i = 0; i <= output; ++i) {
    if (lengths[i] < 0 || lengths[i] > around.extent) return std::nullopt;
    if (i < output) begin += lengths[i];
  }
  if (length == 0 || begin > around.extent - length) return std::nullopt;
  Dims dims = in;
  dims[static_cast<size_t>(*axis)] = length;
  return Make(dims, with_indices, [&](int64_t flat) {
    const int64_t row = flat / (length * around.inner);
    return row * around.extent * around.inner + begin * around.inner +
           flat % (length * around.inner);
  });
}

// The inputs count as one list of elements, one input after the other; `base` is where each begins
// in it. The piece that an output element comes from is the last whose first row is not beyond its
// own.
Maybe Concat(const Node& node, const std::vector<Dims>& data, bool with_indices) {
  const auto axis = Positive(node.Int("axis", 0), data[0].size());
  if (!axis) return std::nullopt;
  const auto at = static_cast<size_t>(*axis);
  Dims dims = data[0];
  dims[at] = 0;
  std::vector<int64_t> first_row, base;
  int64_t elements = 0;
  for (const Dims& in : data) {
    if (in.size() != dims.size()) return std::nullopt;
    for (size_t i = 0; i < in.size(); ++i) {
      if (i != at && in[i] != dims[i]) return std::nullopt;
    }
    first_row.push_back(dims[at]);
    base.push_back(elements);
    dims[at] += in[at];
    elements += CountOf(in);
  }
  const Around around = SplitAt(dims, *axis);
  return Make(dims, with_indices, [&](int64_t flat) {
    const int64_t outer = flat / (around.extent * around.inner);
    const int64_t row = flat / around.inner % around.extent, inner = flat % around.inner;
    size_t piece = data.size() - 1;
    while (row < first_row[piece]) --piece;
    return base[piece] + (outer * data[piece][at] + row - first_row[piece]) * around.inner + inner;
  });
}

Maybe Expand(const Dims& in, const ValuePtr& target, bool with_indices) {
  const auto dims = BroadcastDims(in, Integers(target));
  if (!dims) return std::nullopt;
  return Make(*dims, with_indices, [&](int64_t flat) {
    return static_cast<int64_t>(BroadcastIndex(static_cast<size_t>(flat), *dims, in));
  });
}

Maybe Unsqueeze(const Node& node, const Dims& in, const std::vector<ValuePtr>& numbers,
                bool with_indices) {
  const std::vector<int64_t> axes = Setting(node, numbers, "axes");
  Dims dims(in.size() + axes.size(), -1);
  for (const int64_t axis : axes) {
    const auto positive = Positive(axis, dims.size());
    if (!positive) return std::nullopt;
    dims[static_cast<size_t>(*positive)] = 1;
  }
  size_t next = 0;
  for (int64_t& dim : dims) {
    if (dim >= 0) continue;
    if (next == in.size()) return std::nullopt;
    dim = in[next++];
  }
  return Same(std::move(dims), CountOf(in), with_indices);
}

Maybe Squeeze(const Node& node, const Dims& in, const std::vector<ValuePtr>& numbers,
              bool with_indices) {
  const std::vector<int64_t> axes = Setting(node, numbers, "axes");
  std::vector<bool> drop(in.size(), false);
  for (size_t i = 0; i < in.size(); ++i) drop[i] = axes.empty() && in[i] == 1;
  for (const int64_t axis : axes) {
    const auto positive = Positive(axis, in.size());
    if (!positive || in[static_cast<size_t>(*positive)] != 1) return std::nullopt;
    drop[static_cast<size_t>(*positive)] = true;
  }
  Dims dims;
  for (size_t i = 0; i < in.size(); ++i) {
    if (!drop[i]) dims.push_back(in[i]);
  }
  return Same(std::move(dims), CountOf(in), with_indices);
}

Maybe Gather(const Node& node, const Dims& in, const ValuePtr& indices, bool with_indices) {
  const auto axis = Positive(node.Int("axis", 0), in.size());
  if (!axis || !indices) return std::nullopt;
  std::vector<int64_t> rows = Integers(indices);
  const Around around = SplitAt(in, *axis);
  for (int64_t& row : rows) {
    if (row < 0) row += around.extent;
    if (row < 0 || row >= around.extent) return std::nullopt;
  }
  Dims dims(in.begin(), in.begin() + *axis);
  dims.insert(dims.end(), indices->dims.begin(), indices->dims.end());
  dims.insert(dims.end(), in.begin() + *axis + 1, in.end());
  const auto count = static_cast<int64_t>(rows.size());
  return Make(dims, with_indices, [&](int64_t flat) {
    const int64_t inner = flat % around.inner, place = flat / around.inner;
    const int64_t row = rows[static_cast<size_t>(place % count)];
    return (place / count * around.extent + row) * around.inner + inner;
  });
}

Maybe GatherNd(const Node& node, const Dims& in, const ValuePtr& indices, bool with_indices) {
  if (!indices || indices->dims.empty() || node.Int("batch_dims", 0) != 0) return std::nullopt;
  const std::vector<int64_t> numbers = Integers(indices);
  const auto depth = static_cast<size_t>(indices->dims.back());
  if (depth == 0 || depth > in.size()) return std::nullopt;
  const Dims tail(in.begin() + static_cast<std::ptrdiff_t>(depth), in.end());
  const int64_t inner = CountOf(tail);
  std::vector<int64_t> starts;
  for (size_t i = 0; i + depth <= numbers.size(); i += depth) {
    int64_t start = 0;
    for (size_t axis = 0; axis < depth; ++axis) {
      int64_t at = numbers[i + axis];
      if (at < 0) at += in[axis];
      if (at < 0 || at >= in[axis]) return std::nullopt;
      start = start * in[axis] + at;
    }
    starts.push_back(start * inner);
  }
  Dims dims(indices->dims.begin(), indices->dims.end() - 1);
  dims.insert(dims.end(), tail.begin(), tail.end());
  return Make(dims, with_indices, [&](int64_t flat) {
    return starts[static_cast<size_t>(flat / inner)] + flat % inner;
  });
}

Maybe Tile(const Dims& in, const ValuePtr& repeats, bool with_indices) {
  const std::vector<int64_t> times = Integers(repeats);
  if (times.size() != in.size()) return std::nullopt;
  Dims dims = in, strides(in.size(), 1);
  for (size_t i = in.size(); i-- > 1;) strides[i - 1] = Times(strides[i], in[i]);
  for (size_t i = 0; i < in.size(); ++i) {
    if (times[i] < 0) return std::nullopt;
    dims[i] = times[i] == 0 ? 0 : CountOf({dims[i], times[i]});
  }
  return Make(dims, with_indices, [&](int64_t flat) {
    int64_t from = 0;
    for (size_t i = dims.size(); i-- > 0;) {
      from += flat % dims[i] % in[i] * strides[i];
      flat /= dims[i];
    }
    return from;
  });
}

Maybe Flatten(const Node& node, const Dims& in, bool with_indices) {
  int64_t axis = node.Int("axis", 1);
  if (axis < 0) axis += static_cast<int64_t>(in.size());
  if (axis < 0 || axis > static_cast<int64_t>(in.size())) return std::nullopt;
  const int64_t rows = CountOf(Dims(in.begin(), in.begin() + axis));
  const int64_t columns = CountOf(Dims(in.begin() + axis, in.end()));
  return Same({rows, columns}, CountOf(in), with_indices);
}

}  // namespace

bool IsMove(const Node& node) {
  return node.domain.empty() &&
         std::find(kMoves.begin(), kMoves.end(), node.op_type) != kMoves.end();
}

size_t DataInputs(const Node& node) {
  return node.Is("Concat") ? node.inputs.size() : 1;
}

Maybe MoveOf(const Node& node, const std::vector<Dims>& data, const std::vector<ValuePtr>& numbers,
             size_t output, bool with_indices) {
  const Dims& in = data[0];
  const ValuePtr setting = numbers.empty() ? nullptr : numbers[0];
  if (node.Is("Reshape")) return Reshape(node, in, setting, with_indices);
  if (node.Is("Transpose")) return Transpose(node, in, with_indices);
  if (node.Is("Slice")) return Slice(in, numbers, with_indices);
  if (node.Is("Split")) return Split(node, in, numbers, output, with_indices);
  if (node.Is("Concat")) return Concat(node, data, with_indices);
  if (node.Is("Expand")) return Expand(in, setting, with_indices);
  if (node.Is("Unsqueeze")) return Unsqueeze(node, in, numbers, with_indices);
  if (node.Is("Squeeze")) return Squeeze(node, in, numbers, with_indices);
  if (node.Is("Gather")) return Gather(node, in, setting, with_indices);
  if (node.Is("GatherND")) return GatherNd(node, in, setting, with_indices);
  if (node.Is("Tile")) return Tile(in, setting, with_indices);
  if (node.Is("Flatten")) return Flatten(node, in, with_indices);
  return std::nullopt;
}

}  // namespace weft::lower::trace
