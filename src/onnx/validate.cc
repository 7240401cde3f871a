#include "onnx/validate.h"

#include <functional>
#include <map>
#include <queue>
#include <set>

namespace weft::onnx {
namespace {

using Names = std::set<std::string_view>;

// The names visible in a graph: its own and those of the graphs around it.
struct Scope {
  const Names& names;
  const Scope* outer;

  bool Contains(std::string_view name) const {
    return names.contains(name) || (outer != nullptr && outer->Contains(name));
  }
};

Error Invalid(std::string sentence) {
  return Error(ErrorCode::kInvalidData, std::move(sentence));
}

Status ValidateScope(Graph& graph, const Scope* outer);

// Collects everything the graph itself defines; refuses a name that is defined twice.
Status CollectDefinitions(const Graph& graph, Names& defined) {
  for (const auto& [name, tensor] : graph.initializers) defined.insert(name);
  for (const ValueInfo& input : graph.inputs) {
    if (input.name.empty()) return Invalid("A graph input has an empty name.");
    if (!defined.insert(input.name).second) {
      return Invalid("The graph input " + Quoted(input.name) + " is defined twice.");
    }
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    for (const std::string& output : node.outputs) {
      if (output.empty() || defined.insert(output).second) continue;
      return Invalid("The value " + Quoted(output) + " is written by " +
                     node.Describe(static_cast<int64_t>(i)) +
                     " and also by an earlier node, an input or an initializer.");
    }
  }
  return OkStatus();
}

Status ValidateSubgraphs(Node& node, const Scope& visible) {
  for (Attribute& attribute : node.attributes) {
    auto* subgraph = std::get_if<std::shared_ptr<Graph>>(&attribute.value);
    if (subgraph == nullptr) continue;
    TRY(ValidateScope(**subgraph, &visible)
            .Context("While checking the subgraph " + Quoted(attribute.name) + " of " +
                     node.Describe()));
  }
  return OkStatus();
}

Status ValidateNames(Graph& graph, const Scope* outer) {
  Names defined;
  TRY(CollectDefinitions(graph, defined));
  const Scope visible{defined, outer};
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    for (const std::string& input : node.inputs) {
      if (input.empty() || visible.Contains(input)) continue;
      return Invalid("The input " + Quoted(input) + " of " +
                     node.Describe(static_cast<int64_t>(i)) +
                     " is neither a graph input nor an initializer nor any node's output.");
    }
    TRY(ValidateSubgraphs(node, visible));
  }
  Names outputs;
  for (const ValueInfo& output : graph.outputs) {
    if (!visible.Contains(output.name)) {
      return Invalid("The graph output " + Quoted(output.name) + " is written by no node.");
    }
    if (!outputs.insert(output.name).second) {
      return Invalid("The graph output " + Quoted(output.name) + " is listed twice.");
    }
  }
  return OkStatus();
}

Status ValidateScope(Graph& graph, const Scope* outer) {
  TRY(ValidateNames(graph, outer));
  const std::vector<size_t> order = TopologicalOrder(graph);
  if (order.size() != graph.nodes.size()) {
    std::set<size_t> placed(order.begin(), order.end());
    size_t stuck = 0;
    while (placed.contains(stuck)) ++stuck;
    return Invalid("The graph has a cycle through " +
                   graph.nodes[stuck].Describe(static_cast<int64_t>(stuck)) +
                   " or a node before it.");
  }
  std::vector<Node> sorted;
  sorted.reserve(order.size());
  for (const size_t index : order) sorted.push_back(std::move(graph.nodes[index]));
  graph.nodes = std::move(sorted);
  return OkStatus();
}

}  // namespace

std::string Quoted(std::string_view name) {
  constexpr size_t kLimit = 160;
  std::string text = "'";
  for (const char c : name.substr(0, kLimit)) {
    text += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  return text + (name.size() > kLimit ? "...'" : "'");
}

std::vector<size_t> TopologicalOrder(const Graph& graph) {
  const size_t node_count = graph.nodes.size();
  std::map<std::string_view, size_t> producer;
  for (size_t i = 0; i < node_count; ++i) {
    for (const std::string& output : graph.nodes[i].outputs) {
      if (!output.empty()) producer.emplace(output, i);
    }
  }
  std::vector<size_t> waiting_for(node_count, 0);
  std::vector<std::vector<size_t>> readers(node_count);
  for (size_t i = 0; i < node_count; ++i) {
    for (const std::string& name : ReadNames(graph.nodes[i])) {
      const auto it = producer.find(name);
      if (it == producer.end()) continue;
      readers[it->second].push_back(i);
      ++waiting_for[i];
    }
  }
  // The smallest ready index first keeps a sorted graph exactly as it is.
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < node_count; ++i) {
    if (waiting_for[i] == 0) ready.push(i);
  }
  std::vector<size_t> order;
  order.reserve(node_count);
  while (!ready.empty()) {
    const size_t index = ready.top();
    ready.pop();
    order.push_back(index);
    for (const size_t reader : readers[index]) {
      if (--waiting_for[reader] == 0) ready.push(reader);
    }
  }
  return order;
}

Status ValidateAndSort(Graph& graph) {
  return ValidateScope(graph, nullptr);
}

}  // namespace weft::onnx
