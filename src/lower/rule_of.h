// Tables of rules by operator: both ways of lowering have one.
#pragma once

#include <cstddef>
#include <string_view>

#include "onnx/graph.h"

namespace weft::lower {

inline constexpr std::string_view kStandardDomain = "", kMicrosoftDomain = "com.microsoft",
                                  kWeftDomain = "weft";

template <typename Rule>
struct RuleOf {
  std::string_view domain;
  std::string_view op_type;
  Rule rule;
};

// The node's rule in a table; nullptr when it has none.
template <typename Rule, size_t count>
Rule FindIn(const RuleOf<Rule> (&table)[count], const onnx::Node& node) {
  for (const RuleOf<Rule>& entry : table) {
    if (entry.domain == node.domain && entry.op_type == node.op_type) return entry.rule;
  }
  return nullptr;
}

}  // namespace weft::lower
