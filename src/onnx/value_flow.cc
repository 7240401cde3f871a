#include "onnx/value_flow.h"

#include "base/check.h"

namespace weft::onnx {

bool ReadsShapeOnly(const Node& node) {
  return node.Is("Shape") || node.Is("Size");
}

int ValueFlow::Intern(std::string_view name) {
  const auto it = ids_.find(name);
  if (it != ids_.end()) return it->second;
  const int id = value_count();
  names_.push_back(ids_.emplace(name, id).first->first);
  producers_.push_back(kNone);
  return id;
}

ValueFlow::ValueFlow(const Graph& graph) {
  for (const ValueInfo& input : graph.inputs) Intern(input.name);
  for (const Node& node : graph.nodes) {
    std::vector<int> reads;
    for (const std::string& name : ReadNames(node)) reads.push_back(Intern(name));
    std::vector<int> writes;
    for (const std::string& name : node.outputs) {
      if (name.empty()) continue;
      const int id = Intern(name);
      producers_[static_cast<size_t>(id)] = static_cast<int>(reads_.size());
      writes.push_back(id);
    }
    value_reads_.push_back(ReadsShapeOnly(node) ? std::vector<int>() : reads);
    reads_.push_back(std::move(reads));
    writes_.push_back(std::move(writes));
  }
}

int ValueFlow::Id(std::string_view name) const {
  const auto it = ids_.find(name);
  return it == ids_.end() ? kNone : it->second;
}

std::vector<bool> ValueFlow::ReachableFrom(const std::vector<int>& sources) const {
  std::vector<bool> reached(names_.size(), false);
  for (const int source : sources) reached[static_cast<size_t>(source)] = true;
  for (size_t node = 0; node < reads_.size(); ++node) {
    bool depends = false;
    for (const int read : value_reads_[node])
      depends = depends || reached[static_cast<size_t>(read)];
    if (!depends) continue;
    for (const int write : writes_[node]) reached[static_cast<size_t>(write)] = true;
  }
  return reached;
}

std::vector<int> ValueFlow::ImmediateDominators(int source) const {
  // In a topologically ordered graph one pass suffices: a value's immediate dominator is the
  // nearest common ancestor, in the dominator tree so far, of the values that its node reads.
  std::vector<int> parent(names_.size(), kNone);
  std::vector<int> depth(names_.size(), kNone);
  depth[static_cast<size_t>(source)] = 0;
  for (size_t node = 0; node < reads_.size(); ++node) {
    int common = kNone;
    for (int read : value_reads_[node]) {
      if (depth[static_cast<size_t>(read)] == kNone) continue;
      if (common == kNone) common = read;
      while (common != read) {
        int& deeper =
            depth[static_cast<size_t>(common)] >= depth[static_cast<size_t>(read)] ? common : read;
        deeper = parent[static_cast<size_t>(deeper)];
        CHECK(deeper != kNone, "dominator tree without a common root");
      }
    }
    if (common == kNone) continue;
    for (const int write : writes_[node]) {
      if (write == source) continue;
      parent[static_cast<size_t>(write)] = common;
      depth[static_cast<size_t>(write)] = depth[static_cast<size_t>(common)] + 1;
    }
  }
  return parent;
}

}  // namespace weft::onnx
