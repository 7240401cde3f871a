// One run of a layer over a made-up batch (trace_layer.h). Holds what is known of each value, and
// the program so far. The rules in rules_*.cc say what an operator does to it.
#pragma once

#include <map>
#include <string>

#include "base/result.h"
#include "lower/trace/forms.h"
#include "lower/trace/functions.h"
#include "lower/trace/recipe.h"
#include "onnx/graph.h"

namespace weft::lower::trace {

// `rows` new positions after `past`. Wide: caches have only a shape, so that `past` may be large.
struct Probe {
  int64_t past = 0;
  int64_t rows = 1;
  bool wide = false;
};

// An attention operation and the mask that stood before its softmax.
struct AttentionSeen {
  size_t op = 0;
  std::string node;                // for messages
  std::optional<uint32_t> window;  // where an attribute says it
  MaskSeen mask;
};

// A value between the operators of a mixture of experts: rows of (token, choice). Elements of it
// are forms over a source that no buffer holds, until the whole mixture becomes operations.
struct Choices {
  enum class Role { kLogits, kIndices, kWeights, kGateUp, kHidden, kOut, kWeighted };
  Role role = Role::kIndices;
  int64_t columns = 1;  // of one choice
  ValuePtr logits;      // of all experts
  int64_t top_k = 0;
  int64_t experts = 0;
  bool normalised = false;
  std::optional<View> in;
  std::optional<WeightId> gate_up, down;
  Activation kind = Activation::kSilu;
};

struct Trace {
  Program program;
  std::vector<WeightRecipe> recipes;            // [weight]
  std::map<WeightId, std::vector<Turn>> turns;  // of the weights that stand for frequencies
  std::map<WeightId, std::string> turning_nodes;
  std::vector<AttentionSeen> attentions;
};

using Values = std::vector<ValuePtr>;

class Tracer;

// What an operator does to traced values: the node's outputs in order.
using Outputs = Result<Values>;
using Rule = Outputs (*)(Tracer&, const onnx::Node&, const Values&);
// The rule for a node; nullptr when there is none.
using RuleFinder = Rule (*)(const onnx::Node& node);

class Tracer {
 public:
  // `graph` outlives the tracer. `find_rule` is FindRule of rules.h; it comes as an argument since
  // every rule needs a tracer first.
  Tracer(const onnx::Graph& graph, uint32_t layer_index, Probe probe, RuleFinder find_rule);

  Result<Trace> Run();

  const onnx::Graph& graph() const { return graph_; }
  const Probe& probe() const { return probe_; }
  int64_t rows() const { return probe_.rows; }
  int64_t total() const { return probe_.past + probe_.rows; }
  // Of attention: what the caches declare, or an attention operator says where they do not; 0
  // before.
  int64_t head_columns() const { return head_columns_; }
  void LearnHeadColumns(int64_t columns) {
    if (head_columns_ == 0) head_columns_ = columns;
  }
  Program& program() { return trace_.program; }
  Trace& trace() { return trace_; }
  const SourceColumns& source_columns() const { return source_columns_; }

  // The numbers of a constant or computed value; nullptr when it depends on the hidden state or is
  // larger than what is ever looked into.
  ValuePtr NumbersOf(const ValuePtr& value);
  // `count` floats of an initializer or numbers from element `first` on.
  std::optional<std::vector<double>> Elements(const ValuePtr& value, int64_t first, int64_t count);
  // Turns pending functions and norms into operations and forms.
  Result<ValuePtr> Settle(const onnx::Node& node, const ValuePtr& value);
  // Appends an RMS norm of `x` over its last axis, of whole rows or of heads, and gives its rows.
  Result<ValuePtr> EmitNorm(const onnx::Node& node, const ValuePtr& x,
                            const std::vector<double>& weight, double epsilon);

  // A whole new buffer, and the value [dims] of its rows.
  View NewBuffer(std::string_view name, int64_t columns);
  ValuePtr RowsOf(const View& view, Dims dims, Layout layout = Layout::kRows) const;
  // `value` as columns of rows in order, scaled or capped by an operation where need be.
  Result<View> Rows(const onnx::Node& node, const ValuePtr& value);
  // The same for heads, with a rotation if there is one. `value` becomes the value of the result.
  struct Placed {
    View view;
    double factor = 1;
    ValuePtr value;
  };
  Result<Placed> Heads(const onnx::Node& node, const ValuePtr& value);
  View ViewOf(const Placement& place) const;

  WeightId AddWeight(Weight weight, WeightRecipe recipe);
  WeightId AddVector(std::string_view name, const std::vector<double>& values);
  Result<std::vector<double>> VectorOf(const onnx::Node& node, const ValuePtr& value,
                                       int64_t count);

  // A value [dims] over choices that come in order, and the reverse: which columns of which choices
  // a value holds, all of them in order.
  ValuePtr ChoicesValue(Choices choices, Dims dims);
  struct ChoiceColumns {
    const Choices* choices = nullptr;
    int64_t first = 0, columns = 0;
  };
  std::optional<ChoiceColumns> ChoicesOf(const ValuePtr& value) const;

  // Keys or values of the step that come after cache input `name`.
  void KeepNew(const std::string& name, const View& view) { kept_[name] = view; }
  const std::map<std::string, View>& kept() const { return kept_; }
  // Is `value` [1, heads, total, head_columns] (transposed: [1, heads, head_columns, total]) cache
  // `name` and what came after it, each head of it as often as needed? Gives back the factor.
  std::optional<double> IsKept(const Value& value, const std::string& name, bool transposed) const;

 private:
  Status BindInputs();
  Status BindCache(const onnx::ValueInfo& input);
  ValuePtr Find(const std::string& name);
  Status Run(const onnx::Node& node);
  Status Keep(const onnx::Node& node, const std::string& name, ValuePtr value);
  void ForgetAfter(size_t node_index);
  Status CheckOutputs();
  Status CheckPresent(const std::string& name, const Value& value);
  int32_t NewSource(int64_t columns, BufferId buffer);

  const onnx::Graph& graph_;
  const Probe probe_;
  const RuleFinder find_rule_;
  int64_t head_columns_ = 0;
  Trace trace_;
  std::map<std::string, ValuePtr> values_;
  std::map<std::string, size_t> last_reads_;  // the last node that reads a value
  std::map<std::string, ValuePtr> numbers_;   // of initializers that were read
  SourceColumns source_columns_;              // [source]
  std::vector<BufferId> source_buffers_;      // [source]
  std::vector<int32_t> buffer_sources_;       // [buffer]
  std::map<std::string, int32_t> cache_sources_;
  std::map<std::string, View> kept_;
  std::map<int32_t, Choices> choices_;  // source -> what it is
  std::map<std::string, WeightId> weight_ids_;
};

ValuePtr MakeValue(Value value);
ValuePtr MakeNumbers(Dims dims, onnx::ElementType type, std::vector<double> numbers);
bool IsConstant(const ValuePtr& value);
// The operand at `slot`; nullptr where the node has none there.
inline ValuePtr At(const Values& in, size_t slot) {
  return slot < in.size() ? in[slot] : nullptr;
}

}  // namespace weft::lower::trace
