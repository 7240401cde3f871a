#include "chat/answer_events.h"

#include <utility>

namespace weft::chat {

void EventSink::Add(EventKind kind, Part& part, std::string_view text) {
  if (is_done() || text.empty()) return;
  const size_t last = text.find_last_not_of(" \t\r\n");
  if (last == std::string_view::npos) {
    part.space += text;
    return;
  }
  std::string shown = std::exchange(part.space, {});
  shown += text.substr(0, last + 1);
  part.space = text.substr(last + 1);
  if (!part.has_text && part.drops_space) shown.erase(0, shown.find_first_not_of(" \t\r\n"));
  part.has_text = true;
  if (!events_.empty() && events_.back().kind == kind) {
    events_.back().text += shown;
  } else {
    events_.push_back({kind, std::move(shown)});
  }
}

// Thoughts that are interrupted go on in a line of their own.
void EventSink::Reasoning(std::string_view text) {
  if (!reasoning_.has_text && has_reasoning_ && !is_done() &&
      text.find_first_not_of(" \t\r\n") != std::string_view::npos) {
    events_.push_back({EventKind::kReasoning, "\n"});
  }
  Add(EventKind::kReasoning, reasoning_, text);
  has_reasoning_ |= reasoning_.has_text;
}

void EventSink::BeginPart() {
  content_ = {.drops_space = true};
  reasoning_ = {.drops_space = true};
}

void EventSink::EndReasoning() {
  BeginPart();
}

void EventSink::AddCall(const Call& call) {
  if (is_done()) return;
  BeginPart();
  const uint32_t index = call_count_++;
  events_.push_back({EventKind::kCallBegins, call.name, index, call.id});
  events_.push_back({EventKind::kArguments, call.arguments, index});
  events_.push_back({EventKind::kCallEnds, "", index});
}

void EventSink::Flush() {
  if (content_.space.empty() || is_done() || (!content_.has_text && content_.drops_space)) return;
  events_.push_back({EventKind::kContent, std::exchange(content_.space, {})});
}

std::vector<Event> EventSink::Take() {
  return std::exchange(events_, {});
}

}  // namespace weft::chat
