// For tests: what an answer's events come to.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "chat/answer_parser.h"

namespace weft::chat {

struct Answer {
  std::string content, reasoning;
  std::vector<Call> calls;
  bool operator==(const Answer&) const = default;

  void Take(const std::vector<Event>& events) {
    for (const Event& event : events) {
      switch (event.kind) {
        case EventKind::kContent:
          content += event.text;
          break;
        case EventKind::kReasoning:
          reasoning += event.text;
          break;
        case EventKind::kCallBegins:
          calls.push_back({event.text, "", event.id});
          break;
        case EventKind::kArguments:
          calls.at(event.call_index).arguments += event.text;
          break;
        case EventKind::kCallEnds:
          break;
      }
    }
  }
};

inline std::ostream& operator<<(std::ostream& out, const Answer& answer) {
  out << "content <" << answer.content << "> reasoning <" << answer.reasoning << ">";
  for (const Call& call : answer.calls)
    out << " call " << call.name << "(" << call.arguments << ") " << call.id;
  return out;
}

}  // namespace weft::chat
