#include "program/product_ranges.h"

#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "program/op_views.h"
#include "program/weight_parts.h"

namespace weft::program {
namespace {

constexpr uint32_t kRowsTogether = 16;  // of a weight, in kernels
constexpr uint32_t kWantedRanges = 32;
constexpr uint32_t kLeastColumns = 512, kLeastColumnsInLayers = 64;

uint32_t ColumnsOf(uint32_t total, uint32_t ranges) {
  const uint32_t columns = (total + ranges - 1) / ranges;
  return (columns + kRowsTogether - 1) / kRowsTogether * kRowsTogether;
}

// The product of an output head, which writes the whole output. Layers with experts are none.
std::optional<size_t> FindHeadProduct(const Program& program) {
  if (FindExperts(program) != nullptr) return std::nullopt;
  for (size_t i = program.ops.size(); i-- > 0;) {
    const auto* product = std::get_if<MatMul>(&program.ops[i]);
    if (product == nullptr || product->out.buffer != program.output) continue;
    if (product->out.columns != program.buffers[program.output].columns || product->bias)
      return std::nullopt;
    return i;
  }
  return std::nullopt;
}

// nullopt: a range would begin behind the end, or be longer than what a frame says of its columns.
std::optional<ProductRanges> RangesOf(const Program& program, size_t at, uint32_t first_part) {
  const auto& product = std::get<MatMul>(program.ops[at]);
  const uint32_t total = product.out.columns;
  if (product.ranges < 2 || product.ranges > total) return std::nullopt;
  const uint32_t columns = ColumnsOf(total, product.ranges);
  if (uint64_t{columns} * (product.ranges - 1) >= total || columns > total ||
      columns > std::numeric_limits<uint16_t>::max())
    return std::nullopt;
  return ProductRanges{at, first_part, first_part, product.ranges, columns, total};
}

// Rows [first, first + count) of a matrix, or of a vector.
Weight CutRows(const Weight& matrix, uint64_t first, uint64_t count) {
  const auto cut = [&](const std::vector<Part>& parts) {
    const uint64_t row_bytes = ByteCount(parts) / matrix.shape[0];
    return CutParts(parts, first * row_bytes, count * row_bytes);
  };
  Weight rows{matrix.name,      matrix.dtype,      matrix.shape,
              cut(matrix.data), cut(matrix.scale), cut(matrix.zero)};
  rows.shape[0] = count;
  return rows;
}

// The product of an operation that reads what an earlier one of the same group reads.
const MatMul* ProductBehind(const Program& program, size_t first, size_t at) {
  if (at >= program.ops.size()) return nullptr;
  const auto* product = std::get_if<MatMul>(&program.ops[at]);
  const bool together =
      product != nullptr && Same(product->in, std::get<MatMul>(program.ops[first]).in);
  return together ? product : nullptr;
}

// Whether the product may run before these operations: none of them writes what it reads, or
// touches what it writes.
bool MayGoBefore(std::span<const Op> ops, const MatMul& product) {
  bool may = true;
  for (const Op& op : ops)
    VisitViews(op, [&](const View& view, bool is_output) {
      if (Overlap(view, product.out) || (is_output && Overlap(view, product.in))) may = false;
    });
  return may;
}

// Moves the products that read what that at ops[first] reads right behind it, where they may go
// there, and gives the end of them.
size_t BringTogether(Program& program, size_t first) {
  size_t end = first + 1;
  for (size_t at = end; at < program.ops.size(); ++at) {
    const MatMul* product = ProductBehind(program, first, at);
    if (product == nullptr) continue;
    if (!MayGoBefore(std::span(program.ops).subspan(end, at - end), *product)) continue;
    const auto begin = program.ops.begin();
    std::rotate(begin + static_cast<std::ptrdiff_t>(end), begin + static_cast<std::ptrdiff_t>(at),
                begin + static_cast<std::ptrdiff_t>(at) + 1);
    ++end;
  }
  return end;
}

// The most columns up to `most` that divide all of these products into two ranges or more.
uint32_t CommonColumns(std::span<const Op> products, uint32_t most) {
  uint32_t common = 0;
  for (const Op& op : products) {
    const uint32_t total = std::get<MatMul>(op).out.columns;
    common = std::gcd(common, total);
    most = std::min(most, total / 2);
  }
  for (uint32_t columns = most / kRowsTogether * kRowsTogether; columns >= kLeastColumnsInLayers;
       columns -= kRowsTogether)
    if (common % columns == 0) return columns;
  return 0;
}

Error NoRanges(const Program& program, const std::string& why) {
  return {ErrorCode::kInvalidArgument, "Layer " + std::to_string(program.layer_index) + " " + why};
}

}  // namespace

std::optional<ProductRanges> FindHeadRanges(const Program& program) {
  const std::optional<size_t> at = FindHeadProduct(program);
  return at ? RangesOf(program, *at, 0) : std::nullopt;
}

std::vector<ProductRanges> FindRanges(const Program& program) {
  std::vector<ProductRanges> found;
  const MoeExperts* experts = FindExperts(program);
  if (experts == nullptr) {
    if (const auto head = FindHeadRanges(program)) found.push_back(*head);
    return found;
  }
  uint32_t next = experts->experts;
  for (size_t at = 0; at < program.ops.size(); ++at) {
    if (!std::holds_alternative<MatMul>(program.ops[at])) continue;
    const auto ranges = RangesOf(program, at, next);
    if (!ranges) continue;
    next += ranges->count;
    const bool together = !found.empty() && found.back().product + 1 == at &&
                          found.back().columns == ranges->columns &&
                          ProductBehind(program, at - 1, at) != nullptr;
    const uint32_t exchange = together ? found.back().exchange : ranges->first_part;
    found.push_back(*ranges);
    found.back().exchange = exchange;
  }
  return found;
}

const ProductRanges* FindRange(std::span<const ProductRanges> products, uint32_t part) {
  const auto found = std::ranges::find_if(products, [part](const ProductRanges& each) {
    return part >= each.first_part && part < each.first_part + each.count;
  });
  return found == products.end() ? nullptr : &*found;
}

Program HeadInRanges(const Program& program) {
  const std::optional<size_t> at = FindHeadProduct(program);
  if (!at || !program.input) return program;
  Program divided = program;
  auto& product = std::get<MatMul>(divided.ops[*at]);
  const uint32_t vocabulary = product.out.columns;
  // As many as there are columns for, once they are whole sixteens.
  const uint32_t columns = std::max(kLeastColumns, ColumnsOf(vocabulary, kWantedRanges));
  product.ranges = (vocabulary + columns - 1) / columns;
  return FindHeadRanges(divided) ? divided : program;
}

Program ProductsInRanges(const Program& program, uint32_t most_columns) {
  Program divided = program;
  if (FindExperts(program) == nullptr) return divided;
  for (size_t first = 0; first < divided.ops.size(); ++first) {
    if (!std::holds_alternative<MatMul>(divided.ops[first])) continue;
    const size_t end = BringTogether(divided, first);
    const std::span<Op> together(&divided.ops[first], end - first);
    const uint32_t columns = CommonColumns(together, most_columns);
    for (Op& op : together) {
      auto& product = std::get<MatMul>(op);
      product.ranges = columns > 0 ? product.out.columns / columns : 0;
    }
    first = end - 1;
  }
  return divided;
}

Program WithWholeProducts(const Program& program) {
  Program whole = program;
  for (Op& op : whole.ops)
    if (auto* product = std::get_if<MatMul>(&op)) product->ranges = 0;
  return whole;
}

void ExchangeRanges(std::span<const ProductRanges> products, Program& program) {
  for (const ProductRanges& ranges : products) {
    const auto product = std::get<MatMul>(program.ops[ranges.product]);
    program.ops[ranges.product] =
        RangeExchange{product.in, product.out, ranges.count, ranges.columns};
  }
}

size_t ExchangedTogether(const Program& program, size_t at) {
  const auto& first = std::get<RangeExchange>(program.ops[at]);
  size_t end = at + 1;
  for (; end < program.ops.size(); ++end) {
    const auto* next = std::get_if<RangeExchange>(&program.ops[end]);
    if (next == nullptr || !Same(next->in, first.in) || next->range_columns != first.range_columns)
      break;
  }
  return end - at;
}

uint32_t FirstPartAt(const Program& program, size_t at) {
  uint32_t next = 0;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    if (const auto* experts = std::get_if<SlotExchange>(&program.ops[i])) next += experts->experts;
    const auto* ranges = i < at ? std::get_if<RangeExchange>(&program.ops[i]) : nullptr;
    if (ranges != nullptr) next += ranges->ranges;
  }
  return next;
}

Result<Program> RangesProgram(const Program& program, std::span<const uint32_t> parts) {
  const std::vector<ProductRanges> products = FindRanges(program);
  if (parts.empty()) return NoRanges(program, "was asked for none of its ranges.");
  const ProductRanges* first = FindRange(products, parts.front());
  Program shard;
  shard.layer_index = program.layer_index;
  shard.input = 0;
  shard.output = 1;
  for (const uint32_t part : parts) {
    const ProductRanges* ranges = FindRange(products, part);
    if (ranges == nullptr)
      return NoRanges(program, "has no range " + std::to_string(part) + " of a product.");
    if (ranges->exchange != first->exchange)
      return NoRanges(program, "has range " + std::to_string(part) +
                                   " of a product of other rows than those before it.");
    const auto& product = std::get<MatMul>(program.ops[ranges->product]);
    const uint32_t columns = ranges->columns, column = ranges->First(part - ranges->first_part);
    const auto written = static_cast<uint32_t>(shard.ops.size()) * columns;
    MatMul range{{0, 0, product.in.columns}, {1, written, columns}, {0, 0, columns}, {}, 0};
    range.weight.weight = static_cast<WeightId>(shard.weights.size());
    shard.weights.push_back(CutRows(program.weights[product.weight.weight],
                                    product.weight.first_row + column, columns));
    if (product.bias) {
      range.bias = static_cast<WeightId>(shard.weights.size());
      shard.weights.push_back(CutRows(program.weights[*product.bias], column, columns));
    }
    shard.ops.emplace_back(range);
  }
  const uint32_t row_columns = std::get<MatMul>(program.ops[first->product]).in.columns;
  shard.buffers = {{"row", row_columns},
                   {"ranges", static_cast<uint32_t>(shard.ops.size()) * first->columns}};
  return shard;
}

}  // namespace weft::program
