// Reading forms (value.h) as what programs know: rows of consecutive columns of a buffer, heads of
// them in either order, and rotations of such heads.
#pragma once

#include <optional>

#include "lower/trace/value.h"

namespace weft::lower::trace {

// How a tensor holds `columns` columns of `rows` rows:
//   kRows   row after row, whatever the axes are
//   kHeads  [1, heads, rows, head_columns]
enum class Layout { kRows, kHeads };

// Rows of `columns` consecutive columns of one source, all times `factor`.
struct Placement {
  int32_t source = 0;
  int64_t first_column = 0;
  int64_t columns = 0;
  double factor = 1;
  Layout layout = Layout::kRows;
};

// Sources tell how many columns their rows have; -1 for caches.
using SourceColumns = std::vector<int64_t>;

// The layouts that a tensor of `dims` over `rows` rows may have, with the columns of each.
std::vector<std::pair<Layout, int64_t>> Layouts(const Dims& dims, int64_t rows);

// Gives nullopt unless every element is the one that the layout puts there.
std::optional<Placement> PlacementOf(const Value& value, int64_t rows,
                                     const SourceColumns& columns);
// The forms of columns [first, first + columns) of `source` in a layout of `dims`.
std::vector<Form> FormsOf(int32_t source, int64_t source_columns, int64_t first, int64_t columns,
                          const Dims& dims, int64_t rows, Layout layout);

// The cosines and sines of the angles by which one position turns, one of each for every pair of
// columns.
struct Turn {
  double position = 0;
  std::vector<double> cos, sin;
  bool operator==(const Turn&) const = default;
};

// A placement whose heads of `head_columns` are rotated: `placement.factor` times
// (scale * turn) on the first 2 * pairs columns of each head.
struct Rotation {
  Placement placement;
  int64_t head_columns = 0;
  bool interleaved = false;
  double scale = 1;
  std::vector<Turn> turns;  // one a row; positions count from first_position
};

// Gives nullopt when `value` is no rotation, or rows turn differently from head to head.
std::optional<Rotation> RotationOf(const Value& value, int64_t rows, int64_t head_columns,
                                   int64_t first_position, const SourceColumns& columns);

// The factor k with a = k * b, when there is one.
std::optional<double> Multiple(const std::vector<Form>& a, const std::vector<Form>& b);

}  // namespace weft::lower::trace
