// How values flow through a graph, with names replaced by small numbers: reachability and
// dominators, the two questions that layer detection asks. An edge into Shape or Size carries no
// value (only a shape), and is left out: masks and positions take shapes from everywhere.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/graph.h"

namespace weft::onnx {

// True when the node's outputs depend on its inputs' shapes only.
bool ReadsShapeOnly(const Node& node);

// REQUIRES: graph.nodes in topological order. Independent of the graph afterwards except for string
// views into it.
class ValueFlow {
 public:
  explicit ValueFlow(const Graph& graph);
  ValueFlow(const ValueFlow&) = delete;
  ValueFlow& operator=(const ValueFlow&) = delete;

  static constexpr int kNone = -1;

  // Number of the value `name`; kNone when the graph does not mention it.
  int Id(std::string_view name) const;
  std::string_view Name(int id) const { return names_[static_cast<size_t>(id)]; }
  int value_count() const { return static_cast<int>(names_.size()); }
  // The node that writes the value, or kNone.
  int Producer(int id) const { return producers_[static_cast<size_t>(id)]; }
  // Values that the node reads (through subgraphs too); `values_only` leaves out shape-only edges.
  const std::vector<int>& Reads(int node, bool values_only) const {
    return values_only ? value_reads_[static_cast<size_t>(node)]
                       : reads_[static_cast<size_t>(node)];
  }

  // For each value: does it depend on one of `sources` (themselves included)?
  std::vector<bool> ReachableFrom(const std::vector<int>& sources) const;

  // Immediate dominators in the part of the graph that depends on `source`: the nearest value that
  // every path from the source runs through. kNone for the source and for what does not depend on
  // it.
  std::vector<int> ImmediateDominators(int source) const;

 private:
  int Intern(std::string_view name);

  std::map<std::string, int, std::less<>> ids_;
  std::vector<std::string_view> names_;
  std::vector<int> producers_;
  std::vector<std::vector<int>> reads_;
  std::vector<std::vector<int>> value_reads_;
  std::vector<std::vector<int>> writes_;
};

}  // namespace weft::onnx
