// The state of lowering one layer: which ONNX values have become columns of which buffers, which
// initializers have become weights. Lowering works backwards from the layer's output. A value asks
// its node's rule, and the rule asks for the node's inputs and appends an operation. So operations
// come out in order.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "lower/program_names.h"
#include "onnx/graph.h"

namespace weft::lower {

class LoweringContext;

// Lowers what a node computes; returns the columns that hold its first output.
using Rule = Result<View> (*)(LoweringContext& context, const onnx::Node& node);
// The rule for a node; nullptr when there is none.
using RuleFinder = Rule (*)(const onnx::Node& node);

class LoweringContext {
 public:
  // `part` outlives the context. `find_rule` is FindRule of rule_table.h; it comes as an argument
  // since every rule needs a context first.
  LoweringContext(const onnx::Graph& part, uint32_t layer_index, RuleFinder find_rule);

  const onnx::Graph& graph() const { return graph_; }
  const onnx::GraphIndex& index() const { return index_; }
  Program& program() { return program_; }
  const Program& program() const { return program_; }

  // The node that writes `value`, or nullptr.
  const onnx::Node* Producer(std::string_view value) const { return index_.ProducerNode(value); }
  // The producer when it is `op` of the standard domain, else nullptr.
  const onnx::Node* ProducerIf(std::string_view value, std::string_view op) const;
  // Nothing but one node reads `value`, and it is no output of the graph.
  bool IsReadOnce(std::string_view value) const;
  // Where `value` comes from when Casts between float types and Identity nodes are looked through.
  // They may be dropped: buffers are f32, and widening a weight is what a kernel does anyway.
  std::string ThroughCasts(std::string_view value) const;

  // The columns that hold `value`, lowering what leads to it. Memoised.
  Result<View> Lower(const std::string& value);
  // Says that `view` holds `value`, for rules whose node has several outputs.
  void Bind(const std::string& value, View view) { views_[value] = view; }
  View NewBuffer(std::string_view name, uint64_t columns);
  void Emit(Op op) { program_.ops.push_back(std::move(op)); }
  // What the buffer `from` holds lies in the columns `to` of another one from now on, for
  // operations that are there already, too. REQUIRES: `to` is as wide as the buffer.
  void MoveBuffer(BufferId from, const View& to);

  // An initializer, looking through Casts and Identity; nullptr when `value` is computed.
  const onnx::Tensor* FindConstant(std::string_view value) const;
  // A plain float vector [columns] as a weight. `node` is named in errors.
  Result<WeightId> Vector(const onnx::Node& node, std::string_view value);
  // Adds `weight` unless one of its name is there.
  WeightId AddWeight(Weight weight);

 private:
  Result<View> LowerProducer(const std::string& value);

  const onnx::Graph& graph_;
  const RuleFinder find_rule_;
  onnx::GraphIndex index_;
  Program program_;
  std::map<std::string, View, std::less<>> views_;
  std::map<std::string, WeightId> weight_ids_;
  int depth_ = 0;
};

// Where an initializer's bytes lie. kUnsupported when it is inline or not named by a digest.
Result<Part> PartOf(const onnx::Node& node, std::string_view name, const onnx::Tensor& tensor);

}  // namespace weft::lower
