#include "program/head_ranges.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "program/weight_parts.h"

namespace weft::program {
namespace {

constexpr uint32_t kRowsTogether = 16;  // of a weight, in kernels
constexpr uint32_t kWantedRanges = 32;
constexpr uint32_t kLeastColumns = 512;

uint32_t ColumnsOf(uint32_t vocabulary, uint32_t ranges) {
  const uint32_t columns = (vocabulary + ranges - 1) / ranges;
  return (columns + kRowsTogether - 1) / kRowsTogether * kRowsTogether;
}

// The product that writes the whole output.
std::optional<size_t> FindProduct(const Program& program) {
  for (size_t i = program.ops.size(); i-- > 0;) {
    const auto* product = std::get_if<MatMul>(&program.ops[i]);
    if (product == nullptr || product->out.buffer != program.output) continue;
    if (product->out.columns != program.buffers[program.output].columns || product->bias)
      return std::nullopt;
    return i;
  }
  return std::nullopt;
}

// Rows [first, first + count) of the matrix.
Weight CutRows(const Weight& matrix, uint64_t first, uint64_t count) {
  const auto cut = [&](const std::vector<Part>& parts) {
    const uint64_t row_bytes = ByteCount(parts) / matrix.shape[0];
    return CutParts(parts, first * row_bytes, count * row_bytes);
  };
  return {matrix.name,      matrix.dtype,      {count, matrix.shape[1]},
          cut(matrix.data), cut(matrix.scale), cut(matrix.zero)};
}

}  // namespace

std::optional<HeadRanges> FindHeadRanges(const Program& program) {
  const std::optional<size_t> at = FindProduct(program);
  if (!at) return std::nullopt;
  const auto& product = std::get<MatMul>(program.ops[*at]);
  const uint32_t vocabulary = product.out.columns;
  if (product.ranges < 2 || product.ranges > vocabulary) return std::nullopt;
  const uint32_t columns = ColumnsOf(vocabulary, product.ranges);
  // A range that begins behind the end, or is longer than what a frame says of a row's columns.
  if (uint64_t{columns} * (product.ranges - 1) >= vocabulary || columns > vocabulary ||
      columns > std::numeric_limits<uint16_t>::max())
    return std::nullopt;
  return HeadRanges{*at, product.ranges, columns, vocabulary};
}

Program HeadInRanges(const Program& program) {
  const std::optional<size_t> at = FindProduct(program);
  if (!at || !program.input) return program;
  Program divided = program;
  auto& product = std::get<MatMul>(divided.ops[*at]);
  const uint32_t vocabulary = product.out.columns;
  // As many as there are columns for, once they are whole sixteens.
  const uint32_t columns = std::max(kLeastColumns, ColumnsOf(vocabulary, kWantedRanges));
  product.ranges = (vocabulary + columns - 1) / columns;
  return FindHeadRanges(divided) ? divided : program;
}

Program HeadHubProgram(const Program& program) {
  const HeadRanges ranges = FindHeadRanges(program).value();
  Program hub = program;
  const auto product = std::get<MatMul>(hub.ops[ranges.product]);
  hub.ops[ranges.product] = RangeExchange{product.in, product.out, ranges.count, ranges.columns};
  DropUnusedWeights(hub);
  return hub;
}

Result<Program> RangeProgram(const Program& program, uint32_t range) {
  const HeadRanges ranges = FindHeadRanges(program).value();
  if (range >= ranges.count)
    return Error(ErrorCode::kInvalidArgument, "Layer " + std::to_string(program.layer_index) +
                                                  " has no range " + std::to_string(range) +
                                                  " of the vocabulary, only " +
                                                  std::to_string(ranges.count) + ".");
  const auto& product = std::get<MatMul>(program.ops[ranges.product]);
  Program one;
  one.layer_index = program.layer_index;
  one.buffers = {{"row", product.in.columns}, {"range", ranges.columns}};
  one.input = 0;
  one.output = 1;
  one.weights.push_back(CutRows(program.weights[product.weight.weight],
                                product.weight.first_row + ranges.First(range), ranges.columns));
  one.ops.emplace_back(
      MatMul{{0, 0, product.in.columns}, {1, 0, ranges.columns}, {0, 0, ranges.columns}, {}, 0});
  return one;
}

}  // namespace weft::program
