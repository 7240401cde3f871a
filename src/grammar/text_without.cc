#include "grammar/text_without.h"

#include <map>
#include <string>
#include <vector>

#include "base/check.h"
#include "grammar/utf8.h"

namespace weft::grammar {
namespace {

std::vector<uint32_t> CodePointsOf(std::string_view text) {
  std::vector<uint32_t> code_points;
  for (size_t at = 0; at < text.size();) {
    const auto code_point = NextCodePoint(text, at);
    CHECK(code_point.has_value(), "a marker is not UTF-8");
    code_points.push_back(*code_point);
  }
  return code_points;
}

// For each number of the marker's characters that have come, and the character that comes next: how
// many have come then. Characters that are not named lead back to none.
using Follows = std::vector<std::map<uint32_t, size_t>>;

size_t NextOf(const Follows& follows, size_t come, uint32_t code_point) {
  const auto known = follows[come].find(code_point);
  return known == follows[come].end() ? 0 : known->second;
}

Follows FollowsOf(const std::vector<uint32_t>& marker) {
  Follows follows(marker.size());
  follows[0][marker[0]] = 1;
  size_t later = 0;  // what would have come if the text had begun one character later
  for (size_t come = 1; come < marker.size(); ++come) {
    follows[come] = follows[later];
    follows[come][marker[come]] = come + 1;
    later = NextOf(follows, later, marker[come]);
  }
  return follows;
}

// `whole`: the marker ends the text; else it must not come.
ExprId Search(std::string_view text, bool whole, Rules& rules) {
  const std::vector<uint32_t> marker = CodePointsOf(text);
  CHECK(!marker.empty(), "a marker is empty");
  const Follows follows = FollowsOf(marker);
  std::vector<RuleId> states;
  for (size_t i = 0; i < marker.size(); ++i)
    states.push_back(rules.Declare("A text and " + std::string(text), /*shared=*/true));
  for (size_t come = 0; come < marker.size(); ++come) {
    std::vector<ExprId> ways;
    if (!whole) ways.push_back(rules.Empty());
    CodePointSet others = CodePointSet::All();
    for (const auto& [code_point, next] : follows[come]) {
      const CodePointSet one = {{code_point, code_point}};
      others = others.Minus(one);
      if (next < marker.size())
        ways.push_back(rules.Sequence({rules.Set(one), rules.Call(states[next])}));
      else if (whole)
        ways.push_back(rules.Set(one));
    }
    ways.push_back(rules.Sequence({rules.Set(others), rules.Call(states[0])}));
    rules.Define(states[come], rules.Choice(std::move(ways)));
  }
  return rules.Call(states[0]);
}

}  // namespace

ExprId TextWithout(std::string_view marker, Rules& rules) {
  return Search(marker, false, rules);
}

ExprId TextUpTo(std::string_view marker, Rules& rules) {
  return Search(marker, true, rules);
}

}  // namespace weft::grammar
