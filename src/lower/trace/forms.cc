#include "lower/trace/forms.h"

#include <algorithm>
#include <cmath>

namespace weft::lower::trace {
namespace {

// Coefficients come from float32 tables.
constexpr double kSameCoefficient = 1e-5;
// Tables of float16 models are rounded to float16.
constexpr double kSameLength = 3e-3;

struct Home {
  int64_t row = 0, column = 0;
};

Home HomeOf(int64_t flat, Layout layout, int64_t rows, int64_t columns, int64_t head_columns) {
  if (layout == Layout::kRows) return {flat / columns, flat % columns};
  const int64_t inner = flat % head_columns, place = flat / head_columns;
  return {place % rows, place / rows * head_columns + inner};
}

bool Near(double a, double b, double tolerance) {
  return std::fabs(a - b) <= tolerance * std::max(1.0, std::fabs(a));
}

// Reads one element as "own column times c plus another column times s".
struct Terms {
  int64_t own = 0, other = -1;  // columns; -1: there is none
  double c = 0, s = 0;
};

class RotationReader {
 public:
  RotationReader(const Value& value, int64_t rows, int64_t head_columns, int64_t source_columns)
      : value_(value), rows_(rows), head_columns_(head_columns), width_(source_columns) {}

  std::optional<Rotation> Read(Layout layout, int64_t columns, int64_t first_position) {
    const Form& corner = value_.forms[0];
    if (corner.b.source < 0) return std::nullopt;
    layout_ = layout;
    columns_ = columns;
    first_ = std::min(corner.a.index % width_, corner.b.index % width_);
    Rotation rotation{.placement = {corner.a.source, first_, columns, 1, layout},
                      .head_columns = head_columns_,
                      .turns = {}};
    if (columns % head_columns_ != 0 || !ReadPairs(&rotation)) return std::nullopt;
    if (!ReadTurns(first_position, &rotation)) return std::nullopt;
    return rotation;
  }

 private:
  std::optional<Terms> TermsAt(int64_t flat) const {
    const Form& form = value_.forms[static_cast<size_t>(flat)];
    const Home home = HomeOf(flat, layout_, rows_, columns_, head_columns_);
    const auto column = [&](const ElementId& id) -> std::optional<int64_t> {
      if (id.source != value_.forms[0].a.source || id.index / width_ != home.row) {
        return std::nullopt;
      }
      return id.index % width_ - first_;
    };
    const auto a = column(form.a);
    if (!a) return std::nullopt;
    if (form.b.source < 0) {
      if (*a != home.column) return std::nullopt;
      return Terms{*a, -1, form.ca, 0};
    }
    const auto b = column(form.b);
    if (!b) return std::nullopt;
    if (*a == home.column) return Terms{*a, *b, form.ca, form.cb};
    if (*b == home.column) return Terms{*b, *a, form.cb, form.ca};
    return std::nullopt;
  }

  int64_t FlatOf(int64_t row, int64_t column) const {
    if (layout_ == Layout::kRows) return row * columns_ + column;
    return (column / head_columns_ * rows_ + row) * head_columns_ + column % head_columns_;
  }

  int64_t PairOf(const Rotation& rotation, int64_t column) const {
    if (column >= 2 * pairs_) return -1;
    if (rotation.interleaved) return column ^ 1;
    return column < pairs_ ? column + pairs_ : column - pairs_;
  }

  // Which columns of a head turn, and with which.
  bool ReadPairs(Rotation* rotation) {
    int64_t turning = 0;
    while (turning < head_columns_ &&
           value_.forms[static_cast<size_t>(FlatOf(0, turning))].b.source >= 0) {
      ++turning;
    }
    pairs_ = turning / 2;
    const auto corner = TermsAt(0);
    if (pairs_ == 0 || turning % 2 != 0 || !corner) return false;
    rotation->interleaved = corner->other == 1 && pairs_ != 1;
    for (int64_t row = 0; row < rows_; ++row) {
      for (int64_t column = 0; column < columns_; ++column) {
        const auto terms = TermsAt(FlatOf(row, column));
        const int64_t in_head = column % head_columns_;
        const int64_t pair = PairOf(*rotation, in_head);
        if (!terms || terms->other != (pair < 0 ? -1 : column - in_head + pair)) return false;
      }
    }
    return true;
  }

  // The turn of each row; all heads turn alike.
  bool ReadTurns(int64_t first_position, Rotation* rotation) {
    double length = 0, plain = 0;
    for (int64_t row = 0; row < rows_; ++row) {
      Turn turn{.position = static_cast<double>(first_position + row), .cos = {}, .sin = {}};
      for (int64_t i = 0; i < pairs_; ++i) {
        const int64_t lower = rotation->interleaved ? 2 * i : i;
        const auto low = *TermsAt(FlatOf(row, lower));
        turn.cos.push_back(low.c);
        turn.sin.push_back(-low.s);
        length += std::hypot(low.c, low.s);
      }
      rotation->turns.push_back(std::move(turn));
    }
    length /= static_cast<double>(rows_ * pairs_);
    if (!(length > 0)) return false;
    if (std::fabs(length - 1) < kSameLength / 10) length = 1;  // what rounding of tables leaves
    for (int64_t row = 0; row < rows_; ++row) {
      for (int64_t column = 0; column < columns_; ++column) {
        if (!Fits(*rotation, row, column, length, &plain)) return false;
      }
    }
    for (Turn& turn : rotation->turns) {
      for (double& c : turn.cos) c /= length;
      for (double& s : turn.sin) s /= length;
    }
    const bool partial = 2 * pairs_ < head_columns_;
    rotation->placement.factor = partial ? plain : length;
    rotation->scale = partial ? length / plain : 1;
    return true;
  }

  bool Fits(const Rotation& rotation, int64_t row, int64_t column, double length,
            double* plain) const {
    const auto terms = *TermsAt(FlatOf(row, column));
    const int64_t in_head = column % head_columns_;
    if (in_head >= 2 * pairs_) {
      if (*plain == 0) *plain = terms.c;
      return terms.c != 0 && Near(terms.c, *plain, kSameCoefficient);
    }
    const bool is_low = rotation.interleaved ? in_head % 2 == 0 : in_head < pairs_;
    const auto pair = static_cast<size_t>(rotation.interleaved ? in_head / 2 : in_head % pairs_);
    const Turn& turn = rotation.turns[static_cast<size_t>(row)];
    return Near(terms.c, turn.cos[pair], kSameCoefficient) &&
           Near(terms.s, is_low ? -turn.sin[pair] : turn.sin[pair], kSameCoefficient) &&
           std::fabs(std::hypot(terms.c, terms.s) - length) <= kSameLength * length;
  }

  const Value& value_;
  const int64_t rows_, head_columns_, width_;
  Layout layout_ = Layout::kRows;
  int64_t columns_ = 0, first_ = 0, pairs_ = 0;
};

}  // namespace

std::vector<std::pair<Layout, int64_t>> Layouts(const Dims& dims, int64_t rows) {
  std::vector<std::pair<Layout, int64_t>> layouts;
  const int64_t count = CountOf(dims);
  if (dims.size() < 2 || rows <= 0 || count % rows != 0 || count == 0) return layouts;
  const int64_t columns = count / rows;
  if (dims.size() == 4 && dims[0] == 1 && dims[2] == rows) {
    layouts.emplace_back(Layout::kHeads, columns);
  }
  layouts.emplace_back(Layout::kRows, columns);
  return layouts;
}

std::optional<Placement> PlacementOf(const Value& value, int64_t rows,
                                     const SourceColumns& columns) {
  if (value.kind != Kind::kForms) return std::nullopt;
  for (const auto& [layout, width] : Layouts(value.dims, rows)) {
    const Form& corner = value.forms[0];
    if (corner.a.source < 0) return std::nullopt;
    const int64_t source_columns = columns[static_cast<size_t>(corner.a.source)];
    if (source_columns <= 0) return std::nullopt;
    Placement place{corner.a.source, corner.a.index % source_columns, width, corner.ca, layout};
    const auto expected =
        FormsOf(place.source, source_columns, place.first_column, width, value.dims, rows, layout);
    bool same = place.first_column + width <= source_columns && corner.ca != 0;
    for (size_t i = 0; same && i < expected.size(); ++i) {
      const Form& form = value.forms[i];
      same = form.b.source < 0 && form.a == expected[i].a && form.ca == corner.ca;
    }
    if (same) return place;
  }
  return std::nullopt;
}

std::vector<Form> FormsOf(int32_t source, int64_t source_columns, int64_t first, int64_t columns,
                          const Dims& dims, int64_t rows, Layout layout) {
  std::vector<Form> forms(static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < rows * columns; ++i) {
    const Home home = HomeOf(i, layout, rows, columns, dims.back());
    forms[static_cast<size_t>(i)] = {
        {source, static_cast<int32_t>(home.row * source_columns + first + home.column)}, {}, 1, 0};
  }
  return forms;
}

std::optional<Rotation> RotationOf(const Value& value, int64_t rows, int64_t head_columns,
                                   int64_t first_position, const SourceColumns& columns) {
  if (value.kind != Kind::kForms || value.forms.empty() || head_columns <= 0) return std::nullopt;
  const int32_t source = value.forms[0].a.source;
  if (source < 0 || columns[static_cast<size_t>(source)] <= 0) return std::nullopt;
  RotationReader reader(value, rows, head_columns, columns[static_cast<size_t>(source)]);
  for (const auto& [layout, width] : Layouts(value.dims, rows)) {
    if (layout == Layout::kHeads && value.dims.back() != head_columns) continue;
    if (auto rotation = reader.Read(layout, width, first_position)) return rotation;
  }
  return std::nullopt;
}

std::optional<double> Multiple(const std::vector<Form>& a, const std::vector<Form>& b) {
  if (a.size() != b.size() || a.empty() || b[0].ca == 0) return std::nullopt;
  const double factor = a[0].ca / b[0].ca;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].a != b[i].a || a[i].b != b[i].b || !Near(a[i].ca, factor * b[i].ca, 1e-12) ||
        !Near(a[i].cb, factor * b[i].cb, 1e-12)) {
      return std::nullopt;
    }
  }
  return factor;
}

}  // namespace weft::lower::trace
