// What an answer says, piece by piece: content, thoughts and calls.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "chat/call.h"

namespace weft::chat {

enum class EventKind { kContent, kReasoning, kCallBegins, kArguments, kCallEnds };

struct Event {
  EventKind kind = EventKind::kContent;
  std::string text;         // content, reasoning, the called name, a piece of its arguments (JSON)
  uint32_t call_index = 0;  // of call events: 0, 1, ...
  std::string id = {};      // of kCallBegins, where the model wrote one
  bool operator==(const Event&) const = default;
};

// Puts events together. White space between the parts of an answer belongs to none of them. Content
// and thoughts lose the white space around a block of calls and around thoughts. Content that is
// all of an answer keeps every byte.
class EventSink {
 public:
  // `ends_with_call`: nothing follows the first call.
  explicit EventSink(bool ends_with_call) : ends_with_call_(ends_with_call) {}

  void Content(std::string_view text) { Add(EventKind::kContent, content_, text); }
  void Reasoning(std::string_view text);
  void EndReasoning();
  void AddCall(const Call& call);
  void Flush();
  std::vector<Event> Take();

  // Whether no content came since the beginning, the last thought or the last call.
  bool at_part_start() const { return !content_.has_text; }
  bool is_done() const { return ends_with_call_ && call_count_ > 0; }
  uint32_t call_count() const { return call_count_; }

 private:
  struct Part {
    std::string space;      // held back until text follows
    bool has_text = false;  // since the part began
    bool drops_space = false;
  };
  void Add(EventKind kind, Part& part, std::string_view text);
  void BeginPart();

  const bool ends_with_call_;
  Part content_;
  Part reasoning_ = {.drops_space = true};
  bool has_reasoning_ = false;
  uint32_t call_count_ = 0;
  std::vector<Event> events_;
};

}  // namespace weft::chat
