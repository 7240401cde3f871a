#include "onnx/extract.h"

#include <algorithm>
#include <set>

#include "onnx/shape_builder.h"
#include "onnx/symbolic_shapes.h"
#include "onnx/validate.h"
#include "onnx/value_flow.h"

namespace weft::onnx {
namespace {

// -1 when the graph does not tell.
int64_t ColumnsOf(const LayeredModel& layered, const Boundary& boundary) {
  return boundary.columns > 0 ? boundary.columns : layered.hidden_size;
}

}  // namespace

// What is true of the whole graph whatever the range.
struct LayerCutter::Analysis {
  explicit Analysis(const LayeredModel& whole)
      : layered(whole),
        flow(whole.model.graph),
        shapes(whole.model.graph, whole.io, StreamShapes(whole)) {}

  // The shapes of the residual stream; how each block arrives at it need not be understood.
  static std::map<std::string, DimExprs, std::less<>> StreamShapes(const LayeredModel& whole) {
    std::map<std::string, DimExprs, std::less<>> known;
    for (const Boundary& boundary : whole.boundaries) {
      const int64_t columns = ColumnsOf(whole, boundary);
      known.emplace(boundary.value,
                    DimExprs{DimExpr(DimTerm{DimTerm::Kind::kBatch, 0, {}}),
                             DimExpr(DimTerm{DimTerm::Kind::kSequence, 0, {}}),
                             columns > 0 ? DimExpr(columns)
                                         : DimExpr(DimTerm{DimTerm::Kind::kHidden, 0, {}})});
    }
    return known;
  }

  const LayeredModel& layered;
  ValueFlow flow;
  SymbolicShapes shapes;
};

namespace {

// A Shape node of the whole graph whose input the part does not have.
struct ForeignShape {
  int node;
  DimExprs dims;  // already cut to the node's start and end
};

// What a range of layers consists of, found backwards from what it must give.
class Cutter {
 public:
  Cutter(const LayeredModel& layered, const ValueFlow& flow, const SymbolicShapes& shapes,
         int first, int end);

  Status Run();
  Result<Model> Build();

 private:
  bool HasState(std::string_view name) const;
  Status Need(int value);
  Status NeedNode(int node);
  Status NeedShape(int node);
  Status NeedInput(std::string_view name);
  std::vector<std::string> Targets() const;
  PartSources Sources() const;
  void AddInterface(Graph& part) const;
  ValueInfo Describe(const Boundary& boundary) const;

  const LayeredModel& layered_;
  const Graph& graph_;
  const int first_;
  const int end_;
  const ValueFlow& flow_;
  const SymbolicShapes& shapes_;
  int entry_ = ValueFlow::kNone;  // the residual stream that comes in
  std::vector<bool> own_;         // depends on the entry
  std::vector<bool> upstream_;    // depends on the embedding or on other layers' caches
  std::vector<int> open_;
  std::set<int> seen_;
  std::set<int> nodes_;
  std::set<std::string, std::less<>> inputs_;
  std::set<std::string, std::less<>> initializers_;
  std::vector<ForeignShape> foreign_;
};

Cutter::Cutter(const LayeredModel& layered, const ValueFlow& flow, const SymbolicShapes& shapes,
               int first, int end)
    : layered_(layered),
      graph_(layered.model.graph),
      first_(first),
      end_(end),
      flow_(flow),
      shapes_(shapes) {
  std::vector<int> outside;
  if (first > 0) {
    entry_ = flow_.Id(layered.boundaries[static_cast<size_t>(first - 1)].value);
    own_ = flow_.ReachableFrom({entry_});
    outside.push_back(flow_.Id(layered.embedding));
  } else {
    own_.assign(static_cast<size_t>(flow_.value_count()), false);
  }
  for (const LayerState& state : layered.io.states) {
    for (const std::string& input : state.inputs) {
      const int id = flow_.Id(input);
      if (id != ValueFlow::kNone && !HasState(input)) outside.push_back(id);
    }
  }
  upstream_ = flow_.ReachableFrom(outside);
}

bool Cutter::HasState(std::string_view name) const {
  const int layer = layered_.io.StateLayer(name);
  return layer >= 0 && layer + 1 >= first_ && layer + 1 < end_;
}

std::vector<std::string> Cutter::Targets() const {
  std::vector<std::string> targets;
  const bool is_last = end_ == layered_.layer_count();
  targets.push_back(is_last ? layered_.io.logits
                            : layered_.boundaries[static_cast<size_t>(end_ - 1)].value);
  for (const LayerState& state : layered_.io.states) {
    for (const std::string& output : state.outputs) {
      if (HasState(output)) targets.push_back(output);
    }
  }
  return targets;
}

Status Cutter::Run() {
  for (const std::string& target : Targets()) {
    TRY(Need(flow_.Id(target)));
    while (!open_.empty()) {
      const int node = open_.back();
      open_.pop_back();
      TRY(NeedNode(node));
    }
  }
  return OkStatus();
}

Status Cutter::NeedInput(std::string_view name) {
  if (layered_.io.StateLayer(name) >= 0 && !HasState(name)) {
    return Error(ErrorCode::kUnsupported, "The layers " + std::to_string(first_) + " to " +
                                              std::to_string(end_ - 1) + " read the cache " +
                                              Quoted(name) + " of another layer.");
  }
  inputs_.emplace(name);
  return OkStatus();
}

Status Cutter::Need(int value) {
  if (value == entry_ || !seen_.insert(value).second) return OkStatus();
  const std::string_view name = flow_.Name(value);
  if (graph_.FindInitializer(name) != nullptr) {
    initializers_.emplace(name);
    return OkStatus();
  }
  const auto slot = static_cast<size_t>(value);
  if (upstream_[slot] && !own_[slot] && graph_.FindInput(name) == nullptr) {
    return Error(ErrorCode::kUnsupported, "A second tensor would cross the cut before layer " +
                                              std::to_string(first_) + ": " + Quoted(name) +
                                              " besides " + Quoted(flow_.Name(entry_)) + ".");
  }
  const int node = flow_.Producer(value);
  if (node == ValueFlow::kNone) return NeedInput(name);
  if (nodes_.insert(node).second) open_.push_back(node);
  return OkStatus();
}

Status Cutter::NeedNode(int node) {
  if (ReadsShapeOnly(graph_.nodes[static_cast<size_t>(node)])) return NeedShape(node);
  for (const int read : flow_.Reads(node, false)) TRY(Need(read));
  return OkStatus();
}

// Axes [start, end) of a Shape node (opset 15), in the range 0..rank.
std::pair<size_t, size_t> AxisRange(const Node& node, size_t rank_unsigned) {
  const auto rank = static_cast<int64_t>(rank_unsigned);
  const auto clamp = [&](int64_t axis) {
    return std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
  };
  const int64_t begin = clamp(node.Int("start", 0));
  return {static_cast<size_t>(begin),
          static_cast<size_t>(std::max(begin, clamp(node.Int("end", rank))))};
}

Status Cutter::NeedShape(int node_index) {
  const Node& node = graph_.nodes[static_cast<size_t>(node_index)];
  const int value = flow_.Id(node.Input(0));
  if (value == entry_) return OkStatus();
  const auto slot = static_cast<size_t>(value);
  const bool is_tokens = first_ > 0 && node.Input(0) == layered_.io.tokens;
  if (!is_tokens && (own_[slot] || !upstream_[slot])) return Need(value);
  const DimExprs* dims = shapes_.Find(node.Input(0));
  if (dims == nullptr || !node.Is("Shape")) {
    return Error(ErrorCode::kUnsupported,
                 "The layers " + std::to_string(first_) + " to " + std::to_string(end_ - 1) +
                     " need the shape of " + Quoted(node.Input(0)) +
                     ", a value of an earlier layer whose dimensions are not known.");
  }
  const auto [begin, end] = AxisRange(node, dims->size());
  foreign_.push_back({node_index,
                      {dims->begin() + static_cast<std::ptrdiff_t>(begin),
                       dims->begin() + static_cast<std::ptrdiff_t>(end)}});
  for (const DimExpr& dim : foreign_.back().dims) {
    for (const auto& [term, coefficient] : dim.terms()) {
      if (term.kind == DimTerm::Kind::kInputAxis) TRY(NeedInput(term.input));
    }
  }
  return OkStatus();
}

PartSources Cutter::Sources() const {
  PartSources sources;
  if (first_ > 0) {
    sources.stream = flow_.Name(entry_);
    sources.stream_has_hidden = true;
  } else {
    sources.stream = layered_.io.tokens;
    const ValueInfo* tokens = graph_.FindInput(layered_.io.tokens);
    sources.stream_has_hidden = tokens->shape && tokens->shape->size() == 3;
  }
  for (const LayerState& state : layered_.io.states) {
    if (sources.state.empty() && !state.inputs.empty() && HasState(state.inputs.front())) {
      sources.state = state.inputs.front();
    }
  }
  const ValueInfo* mask = graph_.FindInput("attention_mask");
  if (mask != nullptr && mask->shape && mask->shape->size() == 2) {
    sources.attention_mask = mask->name;
  }
  return sources;
}

ValueInfo Cutter::Describe(const Boundary& boundary) const {
  std::vector<Dim> shape = {Dim::Of("batch_size"), Dim::Of("sequence_length"), Dim{}};
  const ValueInfo* tokens = graph_.FindInput(layered_.io.tokens);
  if (tokens != nullptr && tokens->shape && tokens->shape->size() >= 2) {
    shape[0] = (*tokens->shape)[0];
    shape[1] = (*tokens->shape)[1];
  }
  const int64_t columns = ColumnsOf(layered_, boundary);
  shape[2] = columns > 0 ? Dim::Of(columns) : Dim::Of("hidden_size");
  return {boundary.value, boundary.type, std::move(shape), {}};
}

// Inputs and outputs in the whole graph's order, the residual stream first.
void Cutter::AddInterface(Graph& part) const {
  if (first_ > 0) {
    part.inputs.push_back(Describe(layered_.boundaries[static_cast<size_t>(first_ - 1)]));
  }
  std::set<std::string, std::less<>> read = inputs_;
  for (const Node& node : part.nodes) read.insert(node.inputs.begin(), node.inputs.end());
  for (const ValueInfo& input : graph_.inputs) {
    if (read.contains(input.name)) part.inputs.push_back(input);
  }
  const bool is_last = end_ == layered_.layer_count();
  if (!is_last) {
    part.outputs.push_back(Describe(layered_.boundaries[static_cast<size_t>(end_ - 1)]));
  }
  for (const ValueInfo& output : graph_.outputs) {
    if (HasState(output.name) || (is_last && output.name == layered_.io.logits)) {
      part.outputs.push_back(output);
    }
  }
}

Result<Model> Cutter::Build() {
  ShapeBuilder builder(Sources());
  std::set<int> replaced;
  for (const ForeignShape& foreign : foreign_) {
    const Node& node = graph_.nodes[static_cast<size_t>(foreign.node)];
    TRY(builder.Build(foreign.dims, std::string(node.Output(0)))
            .Context("While recomputing the shape of " + Quoted(node.Input(0)) + " for " +
                     node.Describe(foreign.node)));
    replaced.insert(foreign.node);
  }
  Model model;
  model.ir_version = std::max<int64_t>(layered_.model.ir_version, 4);
  model.opset_imports = layered_.model.opset_imports;
  model.producer_name = layered_.model.producer_name;
  model.producer_version = layered_.model.producer_version;
  model.functions = layered_.model.functions;
  Graph& part = model.graph;
  part.name = "layers_" + std::to_string(first_) + "_" + std::to_string(end_);
  part.nodes = std::move(builder.nodes());
  for (const int node : nodes_) {
    if (!replaced.contains(node)) part.nodes.push_back(graph_.nodes[static_cast<size_t>(node)]);
  }
  for (auto& [name, tensor] : builder.initializers()) part.AddInitializer(name, std::move(tensor));
  for (const std::string& name : initializers_) {
    part.AddInitializer(name, *graph_.FindInitializer(name));
  }
  AddInterface(part);
  TRY(ValidateAndSort(part));
  return model;
}

void Rename(std::string_view from, const char* to, Graph& graph) {
  const auto replace = [&](std::string& name) {
    if (name == from) name = to;
  };
  for (Node& node : graph.nodes) {
    for (std::string& name : node.inputs) replace(name);
    for (std::string& name : node.outputs) replace(name);
    for (Attribute& attribute : node.attributes) {
      auto* subgraph = std::get_if<std::shared_ptr<Graph>>(&attribute.value);
      if (subgraph == nullptr) continue;
      *subgraph = std::make_shared<Graph>(**subgraph);  // the whole model keeps its own
      Rename(from, to, **subgraph);
    }
  }
  for (ValueInfo& input : graph.inputs) replace(input.name);
  for (ValueInfo& output : graph.outputs) replace(output.name);
}

}  // namespace

LayerCutter::LayerCutter(const LayeredModel& layered)
    : analysis_(std::make_unique<const Analysis>(layered)) {}
LayerCutter::~LayerCutter() = default;

Result<Model> LayerCutter::ExtractKeepingNames(int first, int end) const {
  const LayeredModel& layered = analysis_->layered;
  CHECK(0 <= first && first < end && end <= layered.layer_count(), "a range of layers");
  Cutter cutter(layered, analysis_->flow, analysis_->shapes, first, end);
  TRY(cutter.Run());
  return cutter.Build();
}

Result<Model> LayerCutter::Extract(int first, int end) const {
  ASSIGN_OR_RETURN(Model model, ExtractKeepingNames(first, end));
  const std::vector<Boundary>& boundaries = analysis_->layered.boundaries;
  if (first > 0) {
    Rename(boundaries[static_cast<size_t>(first - 1)].value, kHiddenIn, model.graph);
  }
  if (end < analysis_->layered.layer_count()) {
    Rename(boundaries[static_cast<size_t>(end - 1)].value, kHiddenOut, model.graph);
  }
  return model;
}

Result<Model> ExtractLayers(const LayeredModel& layered, int first, int end) {
  return LayerCutter(layered).Extract(first, end);
}

Status CheckCuts(const LayeredModel& layered) {
  const LayerCutter cutter(layered);
  std::vector<SimpleGraph> parts;
  for (int layer = 0; layer < layered.layer_count(); ++layer) {
    ASSIGN_OR_RETURN(const Model part, cutter.ExtractKeepingNames(layer, layer + 1));
    parts.push_back(ToSimpleGraph(part.graph));
  }
  for (size_t cut = 0; cut + 1 < parts.size(); ++cut) {
    const NameSet crossing = BoundaryTensors(parts[cut], parts[cut + 1]);
    if (crossing == NameSet{layered.boundaries[cut].value}) continue;
    std::string names;
    for (const std::string& name : crossing) names += (names.empty() ? "" : ", ") + Quoted(name);
    return Error(ErrorCode::kUnsupported, "Between layer " + std::to_string(cut) + " and " +
                                              std::to_string(cut + 1) + " cross " + names +
                                              " instead of one tensor.");
  }
  return OkStatus();
}

}  // namespace weft::onnx
