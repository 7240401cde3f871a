// Checks the operations of a program one after the other, and remembers which columns were written
// before. Its methods are the verbs of rules in ops.json, of which the build makes op_rules.gen.h.
// Messages name the field; the caller names the operation.
#pragma once

#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "program/check_weight.h"
#include "program/ir.h"

namespace weft::program {

// A dimension of a weight that must have this length, or any where it has a name.
struct Dim {
  explicit Dim(uint64_t exact) : length(exact) {}
  explicit Dim(const char* of_any) : name(of_any) {}
  bool Fits(uint64_t other) const { return name != nullptr || other == length; }

  uint64_t length = 0;
  const char* name = nullptr;
};

// Columns of one buffer that were written, as disjoint ascending intervals.
class WrittenColumns {
 public:
  void Add(uint32_t first, uint32_t end);
  bool Holds(uint32_t first, uint32_t end) const;

 private:
  std::vector<std::pair<uint32_t, uint32_t>> intervals_;
};

class OpChecker {
 public:
  using NamedViews = std::initializer_list<std::pair<std::string_view, View>>;

  // The program must outlive this.
  explicit OpChecker(const Program& program);

  bool WholeBufferWritten(BufferId id) const;

  Status Read(std::string_view role, const View& view) const;
  Status Write(std::string_view role, const View& view);
  // All views are of equal width. The output is one of the inputs, or apart from them.
  Status Elementwise(NamedViews inputs, const View& out);
  Status Apart(NamedViews inputs, const View& out);
  static Status Columns(std::string_view role, const View& view, uint64_t expected);
  static Status Heads(std::string_view role, const View& view, std::string_view heads_role,
                      uint32_t heads, std::string_view columns_role, uint32_t head_columns);
  Status Shape(std::string_view role, WeightId id, std::initializer_list<Dim> expected) const;
  // The rows of a matrix whose columns are those of the input, one for each column of the output.
  Status Rows(std::string_view role, const WeightView& view, uint32_t in_columns,
              uint32_t out_columns) const;
  template <typename Enum>
  static Status Kind(std::string_view called, Enum kind, Enum last) {
    return KindIn(called, static_cast<uint32_t>(kind), static_cast<uint32_t>(last));
  }
  static Status Positive(std::string_view role, float value);
  static Status PositiveOrZero(std::string_view role, float value);
  static Status Finite(std::string_view role, float value);
  static Status Epsilon(std::string_view role, float value);
  static Status Experts(uint32_t experts, uint32_t top_k);
  // `heads` share `groups`, each with states of so many columns.
  static Status Shared(std::string_view heads_role, uint32_t heads, std::string_view groups_role,
                       uint32_t groups, uint32_t columns);
  Status Rope(std::string_view role, const program::Rope& rope, uint32_t head_columns) const;
  static Status Grid(std::string_view role, const SumGrid& grid);

  // What only one operation has: "own" in ops.json.
  Status Own(const Embed& op) const;
  Status Own(const RmsNorm& op) const;
  Status Own(const QkNormRope& op) const;
  Status Own(const Attention& op);
  Status Own(const MoeRoute& op) const;
  Status Own(const MoeExperts& op) const;
  Status Own(const Exchange& op);
  Status Own(const Gate& op);
  Status Own(const CausalConv& op) const;
  Status Own(const SsmScan& op) const;

 private:
  static Status KindIn(std::string_view called, uint32_t kind, uint32_t last);
  Status KeysOf(const Attention& op);
  Status CheckView(std::string_view role, const View& view) const;
  void MarkWritten(const View& view);
  Result<const Weight*> WeightAt(std::string_view role, WeightId id) const;

  const Program& program_;
  std::vector<WrittenColumns> written_;
  std::set<uint32_t> exchange_ids_;
  int attention_count_ = 0;
};

}  // namespace weft::program
