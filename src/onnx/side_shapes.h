// Shapes of values that a part does not have. Masks, positions and reshapes take lengths from
// tensors all over the graph: Shape(input_ids), Shape(the embedding), Shape(past_key_values.0.key).
// A part that lacks such a tensor recomputes its shape from what it has: the residual stream that
// comes in, its own caches, and the graph's other inputs.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "onnx/graph.h"
#include "onnx/layers.h"

namespace weft::onnx {

// Where one dimension of a shape comes from.
struct DimSource {
  enum class Kind {
    kConstant,   // `value`
    kBatch,      // rows of the tokens or of the residual stream
    kSequence,   // positions in this call
    kHidden,     // columns of the residual stream
    kPast,       // axis `value` of a layer's state input
    kPastGrown,  // the same plus kSequence: the state output
    kInputAxis,  // axis `value` of the graph input `name`
  };
  Kind kind = Kind::kConstant;
  int64_t value = 0;
  std::string name;

  auto operator<=>(const DimSource&) const = default;
};

// Finds where the dimensions of any value come from. Looks at declared shapes and walks back
// through ops whose output shape follows from an input's.
class ShapeFinder {
 public:
  ShapeFinder(const LayeredModel& layered, const GraphIndex& index);

  // nullopt when the rules here do not tell.
  std::optional<std::vector<DimSource>> Find(std::string_view value) const {
    return Find(value, 0);
  }

 private:
  using Dims = std::optional<std::vector<DimSource>>;
  Dims Find(std::string_view value, int steps) const;
  Dims FromInput(const ValueInfo& input) const;
  Dims FromStateOutput(const ValueInfo& output) const;
  Dims FromDeclaration(std::string_view value) const;
  Dims FromNode(const Node& node, std::string_view value, int steps) const;
  Dims FromBroadcast(const Node& node, int steps) const;
  Dims FromWeight(const Node& node, int steps) const;

  const LayeredModel& layered_;
  const Graph& graph_;
  const GraphIndex& index_;
  std::map<std::string, DimSource, std::less<>> symbols_;  // symbolic dimensions of the inputs
};

// What a part can take dimensions from.
struct PartSources {
  std::string
      stream;  // [batch, sequence, ...]: the tokens input or the residual stream that comes in
  bool stream_has_hidden = false;  // its axis 2 is the hidden size
  std::string state;           // a state input of one of the part's layers; empty when it has none
  std::string attention_mask;  // an input [batch, past + sequence]; empty when there is none
};

// Makes nodes that compute shapes; equal dimensions are computed once.
class ShapeBuilder {
 public:
  explicit ShapeBuilder(PartSources sources) : sources_(std::move(sources)) {}

  // Adds nodes that write the int64 vector `output` with these dimensions. kUnsupported when the
  // part has no source for one.
  Status Build(const std::vector<DimSource>& dims, const std::string& output);

  // What was made so far, in order; initializers are the constants they read.
  std::vector<Node>& nodes() { return nodes_; }
  std::map<std::string, Tensor>& initializers() { return initializers_; }

 private:
  // The name of a one-element vector holding the dimension.
  Result<std::string> Vector(const DimSource& dim);
  Result<std::string> Compute(const DimSource& dim);
  std::string Constant(int64_t value);
  std::string AxisOf(const std::string& value, int64_t axis);
  std::string Add(const char* op, std::vector<std::string> inputs);

  PartSources sources_;
  std::map<DimSource, std::string> made_;
  std::map<std::string, std::string> shapes_;
  std::vector<Node> nodes_;
  std::map<std::string, Tensor> initializers_;
};

}  // namespace weft::onnx
