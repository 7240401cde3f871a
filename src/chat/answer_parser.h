// Takes what a model says apart while it is being said: content, thoughts, calls of tools.
//
//   AnswerParser parser(format, tools, {.parses_calls = true});
//   for (const Event& event : parser.Push(piece)) ...
//   for (const Event& event : parser.Flush()) ...
//
// The events do not depend on where the text is cut, but that content and thoughts come in more or
// fewer pieces. A call is told when it is whole; what breaks off before, or reads as no call, is
// content: nothing that was said is lost. A call whose name no tool has is told all the same, as
// the client knows better what to answer. It is not told if the family has no marker for calls:
// then JSON may be meant as it stands. Work and memory are linear in the text.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "chat/answer_events.h"
#include "chat/answer_reader.h"
#include "chat/format.h"
#include "chat/tools.h"

namespace weft::chat {

class AnswerParser {
 public:
  // One thread. `format` is copied, `tools` shared.
  AnswerParser(const Format& format, std::shared_ptr<const Tools> tools,
               const ParserOptions& options);

  std::vector<Event> Push(std::string_view text);
  // At the end: what was held back.
  std::vector<Event> Flush();

  // Whether what comes next belongs to thoughts.
  bool is_thinking() const;
  // Whether nothing that comes can matter any more.
  bool is_done() const;
  uint32_t call_count() const;

 private:
  std::unique_ptr<EventSink> sink_;
  std::unique_ptr<AnswerReader> reader_;
};

// What makes a model of this family end its thoughts, as text with its markers.
std::string EndOfThinking(const Format& format);

}  // namespace weft::chat
