#include "onnx/merged_decoder.h"

#include <algorithm>
#include <map>
#include <set>

namespace weft::onnx {
namespace {

constexpr std::string_view kChoice = "use_cache_branch";

using NewNames = std::map<std::string, std::string, std::less<>>;

// Everything that a graph defines itself.
std::set<std::string> Defined(const Graph& graph) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : graph.initializers) names.insert(name);
  for (const ValueInfo& input : graph.inputs) names.insert(input.name);
  for (const Node& node : graph.nodes) names.insert(node.outputs.begin(), node.outputs.end());
  return names;
}

void Rename(const NewNames& names, Graph* graph) {
  const auto replace = [&](std::string* name) {
    const auto found = names.find(*name);
    if (found != names.end()) *name = found->second;
  };
  for (Node& node : graph->nodes) {
    for (std::string& name : node.inputs) replace(&name);
    for (std::string& name : node.outputs) replace(&name);
    for (Attribute& attribute : node.attributes) {
      auto* subgraph = std::get_if<std::shared_ptr<Graph>>(&attribute.value);
      if (subgraph == nullptr) continue;
      // What the inner graph names itself hides the outer name.
      NewNames visible = names;
      for (const std::string& own : Defined(**subgraph)) visible.erase(own);
      *subgraph = std::make_shared<Graph>(**subgraph);
      Rename(visible, subgraph->get());
    }
  }
}

// The branch's names as they will be outside: its results are those of the choice, and others that
// the outer graph has already get a name that nobody has.
NewNames OuterNames(const Graph& branch, const Node& choice, const std::set<std::string>& outer) {
  NewNames names;
  const std::set<std::string> defined = Defined(branch);
  for (const std::string& name : defined) {
    if (name.empty() || !outer.contains(name)) continue;
    std::string free = name + "/with_past";
    while (outer.contains(free) || defined.contains(free)) free += "'";
    names[name] = free;
  }
  for (size_t i = 0; i < branch.outputs.size() && i < choice.outputs.size(); ++i) {
    if (defined.contains(branch.outputs[i].name)) names[branch.outputs[i].name] = choice.outputs[i];
  }
  return names;
}

// Puts `branch` where node `at` is.
void Inline(Graph branch, size_t at, Graph* graph) {
  const Node choice = graph->nodes[at];
  std::set<std::string> outer = Defined(*graph);
  const NewNames names = OuterNames(branch, choice, outer);
  std::vector<std::string> results;
  for (const ValueInfo& output : branch.outputs) results.push_back(output.name);
  Rename(names, &branch);
  for (size_t i = 0; i < results.size() && i < choice.outputs.size(); ++i) {
    const auto renamed = names.find(results[i]);
    const std::string& written = renamed == names.end() ? results[i] : renamed->second;
    if (written == choice.outputs[i]) continue;
    branch.AddNode("Identity", {written}, {choice.outputs[i]});  // a value of the outer graph
  }
  for (auto& [name, tensor] : branch.initializers) {
    const auto renamed = names.find(name);
    graph->AddInitializer(renamed == names.end() ? name : renamed->second, std::move(tensor));
  }
  for (auto& [name, info] : branch.value_infos) {
    const auto renamed = names.find(name);
    const std::string& own = renamed == names.end() ? name : renamed->second;
    info.name = own;
    graph->value_infos.insert_or_assign(own, std::move(info));
  }
  const auto place = graph->nodes.erase(graph->nodes.begin() + static_cast<std::ptrdiff_t>(at));
  graph->nodes.insert(place, std::make_move_iterator(branch.nodes.begin()),
                      std::make_move_iterator(branch.nodes.end()));
}

// The choice's index; -1 when there is none.
std::ptrdiff_t FindChoice(const Graph& graph) {
  const auto found = std::find_if(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    return node.Is("If") && node.Input(0) == kChoice;
  });
  return found == graph.nodes.end() ? -1 : found - graph.nodes.begin();
}

}  // namespace

bool TakeDecoderWithPast(Graph* graph) {
  const ValueInfo* input = graph->FindInput(kChoice);
  if (input == nullptr || input->type != ElementType::kBool) return false;
  bool taken = false;
  for (auto at = FindChoice(*graph); at >= 0; at = FindChoice(*graph)) {
    const Attribute* attribute = graph->nodes[static_cast<size_t>(at)].Find("then_branch");
    const auto* branch =
        attribute == nullptr ? nullptr : std::get_if<std::shared_ptr<Graph>>(&attribute->value);
    if (branch == nullptr) return taken;
    Inline(**branch, static_cast<size_t>(at), graph);
    taken = true;
  }
  if (taken && GraphIndex(*graph).Consumers(kChoice).empty()) {
    std::erase_if(graph->inputs, [](const ValueInfo& it) { return it.name == kChoice; });
  }
  return taken;
}

}  // namespace weft::onnx
