#include "onnx/layers.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include "onnx/infer.h"
#include "onnx/merged_decoder.h"
#include "onnx/simplify.h"
#include "onnx/skip_norm.h"
#include "onnx/symbolic_shapes.h"
#include "onnx/validate.h"
#include "onnx/value_flow.h"

namespace weft::onnx {
namespace {

Error Unsupported(std::string sentence) {
  return Error(ErrorCode::kUnsupported, std::move(sentence));
}

Graph WithoutSkipNorms(const Graph& graph) {
  Graph plain;
  plain.inputs = graph.inputs;
  plain.outputs = graph.outputs;
  plain.initializers = graph.initializers;
  plain.value_infos = graph.value_infos;
  for (const Node& node : graph.nodes) {
    if (IsSkipNorm(node)) {
      AppendUnfused(node, plain.nodes);
    } else {
      plain.nodes.push_back(node);
    }
  }
  return plain;
}

bool KeepsTokens(const Node& node) {
  for (const std::string_view op : {"Cast", "Identity", "Reshape", "Unsqueeze", "Squeeze",
                                    "Flatten", "Clip", "Max", "Min", "Where"}) {
    if (node.Is(op)) return true;
  }
  return false;
}

// Finds boundaries in a graph that has no fused skip norms.
class BoundaryFinder {
 public:
  BoundaryFinder(const Graph& graph, const DecoderIo& io)
      : graph_(graph), io_(io), index_(graph), flow_(graph), shapes_(graph, io) {}

  // Values from which the residual stream may start: what embedding tables give, most plausible
  // first.
  std::vector<int> Sources() const;
  // The boundaries' values for one source: before transformer layer 1, 2, ... and before the head.
  Result<std::vector<int>> Find(int source);
  std::string_view Name(int value) const { return flow_.Name(value); }

 private:
  const Node* ProducerNode(int value) const {
    const int node = flow_.Producer(value);
    return node < 0 ? nullptr : &graph_.nodes[static_cast<size_t>(node)];
  }
  Result<std::vector<int>> EntryPositions() const;
  bool IsResidualJoin(size_t position) const;
  size_t FirstOfCasts(size_t position, size_t floor) const;
  bool EndsTheStream(size_t position) const;
  bool HasRank(size_t position, size_t rank) const;
  size_t WithThreeAxes(size_t position, size_t floor) const;
  int PositionOnChain(int value) const;

  const Graph& graph_;
  const DecoderIo& io_;
  GraphIndex index_;
  ValueFlow flow_;
  SymbolicShapes shapes_;
  std::vector<int> dominators_;
  std::vector<bool> hot_;       // depends on the source
  std::vector<int> chain_;      // from the source to the logits
  std::vector<int> positions_;  // of each value on the chain, -1 off it
};

std::vector<int> BoundaryFinder::Sources() const {
  // The tokens input and what casts and reshapes make of it.
  std::set<std::string_view> tokens = {io_.tokens};
  std::vector<int> sources;
  for (const Node& node : graph_.nodes) {
    const bool looks_up = node.Is("Gather") || node.IsMicrosoft("GatherBlockQuantized");
    if (looks_up && tokens.contains(node.Input(1))) sources.push_back(flow_.Id(node.Output(0)));
    const bool passes_on =
        std::any_of(node.inputs.begin(), node.inputs.end(),
                    [&](const std::string& name) { return tokens.contains(name); });
    if (passes_on && node.HasOutput(0) && KeepsTokens(node)) tokens.insert(node.Output(0));
  }
  if (const int id = flow_.Id(io_.tokens); id != ValueFlow::kNone) sources.push_back(id);
  return sources;
}

// The last value of the chain that `value` depends on in any case.
int BoundaryFinder::PositionOnChain(int value) const {
  while (value != ValueFlow::kNone) {
    const int position = positions_[static_cast<size_t>(value)];
    if (position >= 0) return position;
    value = dominators_[static_cast<size_t>(value)];
  }
  return -1;
}

// For each transformer layer, the last position of the chain that all its caches depend on.
Result<std::vector<int>> BoundaryFinder::EntryPositions() const {
  std::vector<int> entries;
  for (size_t layer = 0; layer < io_.states.size(); ++layer) {
    int entry = -1;
    for (const std::string& output : io_.states[layer].outputs) {
      const int value = flow_.Id(output);
      const int position = value == ValueFlow::kNone ? -1 : PositionOnChain(value);
      if (position < 0) {
        return Unsupported("The cache " + Quoted(output) + " does not depend on the embedding " +
                           Quoted(Name(chain_.front())) + ".");
      }
      entry = entry < 0 ? position : std::min(entry, position);
    }
    if (!entries.empty() && entry <= entries.back()) {
      return Unsupported("No single value carries everything from layer " +
                         std::to_string(layer - 1) + " to layer " + std::to_string(layer) +
                         ": between " + Quoted(io_.states[layer - 1].outputs[0]) + " and " +
                         Quoted(io_.states[layer].outputs[0]) + " several tensors cross.");
    }
    entries.push_back(entry);
  }
  return entries;
}

// The add that ends a block: both operands come from the stream, and one of them is the stream
// itself, carried past the block through nothing but adds, casts and scalings.
bool BoundaryFinder::IsResidualJoin(size_t position) const {
  const Node* join = ProducerNode(chain_[position]);
  if (join == nullptr || (!join->Is("Add") && !join->Is("Sum"))) return false;
  const int before = dominators_[static_cast<size_t>(chain_[position])];
  std::vector<int> open;
  int hot_operands = 0;
  for (const std::string& input : join->inputs) {
    const int id = flow_.Id(input);
    if (id == ValueFlow::kNone || !hot_[static_cast<size_t>(id)]) continue;
    ++hot_operands;
    open.push_back(id);
  }
  if (hot_operands < 2) return false;
  for (int steps = 0; !open.empty() && steps < 64; ++steps) {
    const int value = open.back();
    open.pop_back();
    if (value == before) return true;
    const Node* node = ProducerNode(value);
    const bool carries =
        node != nullptr && (node->Is("Add") || node->Is("Sum") || node->Is("Cast") ||
                            node->Is("Identity") || node->Is("Dropout") || node->Is("Mul"));
    if (!carries) continue;
    std::vector<int> operands;
    for (const std::string& input : node->inputs) {
      const int id = flow_.Id(input);
      if (id != ValueFlow::kNone && hot_[static_cast<size_t>(id)]) operands.push_back(id);
    }
    if (node->Is("Mul") && operands.size() != 1) continue;
    open.insert(open.end(), operands.begin(), operands.end());
  }
  return false;
}

// Casts and quantisation at the end of a stretch belong to what follows (a norm in float32, an int8
// product): the stream is the first float value of such a run.
size_t BoundaryFinder::FirstOfCasts(size_t position, size_t floor) const {
  size_t first_float = position;
  while (position > floor) {
    const Node* node = ProducerNode(chain_[position]);
    if (node == nullptr || !(node->Is("Cast") || node->Is("Identity") ||
                             node->Is("QuantizeLinear") || node->Is("DequantizeLinear"))) {
      break;
    }
    --position;
    if (ProducerNode(chain_[position]) == nullptr) break;  // a graph input: no part could give it
    if (IsFloatType(InferType(graph_, index_, Name(chain_[position])))) first_float = position;
  }
  return first_float;
}

bool BoundaryFinder::HasRank(size_t position, size_t rank) const {
  const DimExprs* dims = shapes_.Find(Name(chain_[position]));
  return dims != nullptr && dims->size() == rank;
}

// Some models flatten the stream to [batch * sequence, hidden] for a block: the cut goes to where
// it has its three axes.
size_t BoundaryFinder::WithThreeAxes(size_t position, size_t floor) const {
  if (!HasRank(position, 2)) return position;
  for (size_t i = position; i-- > floor;) {
    if (HasRank(i, 3) && ProducerNode(chain_[i]) != nullptr) return i;
  }
  return position;
}

// True when the value at `position` only finishes the one before it, the last residual add: a scale
// of the layer, a bias, or the return from two axes to three.
bool BoundaryFinder::EndsTheStream(size_t position) const {
  const Node* node = ProducerNode(chain_[position]);
  if (node == nullptr) return false;
  if (node->Is("Reshape")) return HasRank(position, 3) && !HasRank(position - 1, 3);
  if (!node->Is("Mul") && !node->Is("Add")) return false;
  for (const std::string& input : node->inputs) {
    const Tensor* constant = graph_.FindInitializer(input);
    if (constant == nullptr) continue;
    return constant->element_count() == 1 || (node->Is("Add") && constant->dims.size() == 1);
  }
  return false;
}

Result<std::vector<int>> BoundaryFinder::Find(int source) {
  dominators_ = flow_.ImmediateDominators(source);
  hot_ = flow_.ReachableFrom({source});
  chain_.clear();
  const int logits = flow_.Id(io_.logits);
  if (logits == ValueFlow::kNone || !hot_[static_cast<size_t>(logits)]) {
    return Unsupported("The output " + Quoted(io_.logits) + " does not depend on " +
                       Quoted(Name(source)) + ".");
  }
  for (int v = logits; v != ValueFlow::kNone; v = dominators_[static_cast<size_t>(v)]) {
    chain_.push_back(v);
  }
  std::reverse(chain_.begin(), chain_.end());
  positions_.assign(static_cast<size_t>(flow_.value_count()), -1);
  for (size_t i = 0; i < chain_.size(); ++i) {
    positions_[static_cast<size_t>(chain_[i])] = static_cast<int>(i);
  }
  ASSIGN_OR_RETURN(const std::vector<int> entries, EntryPositions());
  std::vector<int> boundaries;
  int previous = -1;
  for (const int entry : entries) {
    const auto floor = static_cast<size_t>(previous) + 1;
    const size_t position = FirstOfCasts(static_cast<size_t>(entry), floor);
    boundaries.push_back(chain_[WithThreeAxes(position, floor)]);
    previous = entry;
  }
  // The stream ends with the last residual add; the final norm and the head have none.
  size_t last = 0;
  for (size_t i = static_cast<size_t>(previous) + 1; i < chain_.size(); ++i) {
    if (IsResidualJoin(i)) last = i;
  }
  if (last == 0) {
    return Unsupported("No residual add was found between " + Quoted(io_.states.back().outputs[0]) +
                       " and " + Quoted(io_.logits) + ".");
  }
  while (last + 1 < chain_.size() && EndsTheStream(last + 1)) ++last;
  boundaries.push_back(chain_[last]);
  return boundaries;
}

// Takes apart the fused skip norms whose sum is a boundary; the others stay as they are.
void UnfuseAt(const std::vector<Boundary>& boundaries, Graph& graph) {
  std::vector<Node> nodes;
  for (Node& node : graph.nodes) {
    const bool at_cut =
        IsSkipNorm(node) &&
        std::any_of(boundaries.begin(), boundaries.end(),
                    [&](const Boundary& boundary) { return boundary.value == SkipNormSum(node); });
    if (at_cut) {
      AppendUnfused(node, nodes);
    } else {
      nodes.push_back(std::move(node));
    }
  }
  graph.nodes = std::move(nodes);
}

// CastLike takes only a type from its second input; as Cast it no longer ties masks to the residual
// stream.
void ResolveCastLike(Graph& graph) {
  const GraphIndex index(graph);
  for (Node& node : graph.nodes) {
    if (!node.Is("CastLike")) continue;
    const ElementType type = InferType(graph, index, node.Input(1));
    if (type == ElementType::kUndefined) continue;
    node.op_type = "Cast";
    node.attributes = {Attribute::Of("to", static_cast<int>(type))};
    node.inputs.resize(1);
  }
}

// A graph that takes embeddings as its input gets a node for the embedding layer, so that the first
// cut has a producer.
void NameEmbeddingInput(const std::string& tokens, Graph& graph) {
  if (tokens != "inputs_embeds") return;
  const std::string copy = "weft/embeddings";
  for (Node& node : graph.nodes) {
    std::replace(node.inputs.begin(), node.inputs.end(), tokens, copy);
  }
  Node identity;
  identity.op_type = "Identity";
  identity.name = copy;
  identity.inputs = {tokens};
  identity.outputs = {copy};
  graph.nodes.insert(graph.nodes.begin(), std::move(identity));
}

Status RefuseOtherChoices(const Graph& graph, const std::string& logits) {
  const Node* node = GraphIndex(graph).ProducerNode(logits);
  if (node == nullptr || !node->Is("If")) return OkStatus();
  return Unsupported("The whole decoder lies inside the branches of " + node->Describe() +
                     ", and its condition is not the input 'use_cache_branch' of merged decoders; "
                     "weft needs the export with one graph for prompts and later tokens.");
}

Status Describe(LayeredModel& layered) {
  const Graph& graph = layered.model.graph;
  const GraphIndex index(graph);
  const SymbolicShapes shapes(graph, layered.io);
  for (Boundary& boundary : layered.boundaries) {
    boundary.type = InferType(graph, index, boundary.value);
    if (!IsFloatType(boundary.type)) {
      return Unsupported("The element type of the residual stream " + Quoted(boundary.value) +
                         " is unknown or not a float type.");
    }
    const DimExprs* dims = shapes.Find(boundary.value);
    if (dims == nullptr) continue;
    if (dims->size() != 3) {
      return Unsupported("The residual stream " + Quoted(boundary.value) + " has " +
                         std::to_string(dims->size()) +
                         " axes; expected batch, sequence and hidden.");
    }
    if (dims->back().is_constant()) layered.hidden_size = dims->back().constant();
  }
  return OkStatus();
}

}  // namespace

Result<LayeredModel> FindLayers(Model model) {
  LayeredModel layered;
  layered.was_merged = TakeDecoderWithPast(&model.graph);
  FoldConstants(model.graph);
  StripModel(model, true);
  ASSIGN_OR_RETURN(layered.io, FindDecoderIo(model.graph));
  TRY(CheckEveryLayerHasState(layered.io));
  TRY(RefuseOtherChoices(model.graph, layered.io.logits));
  ResolveCastLike(model.graph);
  NameEmbeddingInput(layered.io.tokens, model.graph);
  const Graph plain = WithoutSkipNorms(model.graph);
  BoundaryFinder finder(plain, layered.io);
  std::optional<Error> first_error;
  for (const int source : finder.Sources()) {
    auto values = finder.Find(source);
    if (!values.ok()) {
      if (!first_error) first_error = std::move(values).error();
      continue;
    }
    layered.embedding = finder.Name(source);
    for (const int value : *values) layered.boundaries.push_back({std::string(finder.Name(value))});
    break;
  }
  if (layered.boundaries.empty()) {
    if (first_error) return *std::move(first_error);
    return Unsupported("Nothing in the graph reads " + Quoted(layered.io.tokens) + ".");
  }
  layered.model = std::move(model);
  UnfuseAt(layered.boundaries, layered.model.graph);
  TRY(Describe(layered));
  return layered;
}

Result<LayeredModel> NameLayers(Model model, std::string embedding,
                                std::vector<Boundary> boundaries) {
  LayeredModel layered;
  FoldConstants(model.graph);
  StripModel(model, true);
  ASSIGN_OR_RETURN(layered.io, FindDecoderIo(model.graph));
  layered.model = std::move(model);
  layered.embedding = std::move(embedding);
  layered.boundaries = std::move(boundaries);
  return layered;
}

}  // namespace weft::onnx
