// The two ways in which models mark the parts of their answers, behind answer_parser.h.
#pragma once

#include <memory>
#include <string_view>

#include "chat/answer_events.h"
#include "chat/format.h"
#include "chat/tools.h"

namespace weft::chat {

struct ParserOptions {
  bool parses_calls = false;
  bool splits_thinking = false;  // else thoughts are content, their markers included
  bool opens_thinking = false;   // the prompt ends with the marker that begins thoughts
  bool ends_with_call = false;   // nothing is told behind the first call
};

class AnswerReader {
 public:
  virtual ~AnswerReader() = default;
  virtual void Push(std::string_view text) = 0;
  virtual void Flush() = 0;
  virtual bool is_thinking() const = 0;
};

// Markers around thoughts and calls. The sink outlives what is made.
std::unique_ptr<AnswerReader> MakeMarkedReader(const Format& format,
                                               std::shared_ptr<const Tools> tools,
                                               const ParserOptions& options, EventSink& sink);
// Messages with channels (harmony).
std::unique_ptr<AnswerReader> MakeChannelReader(const ParserOptions& options, EventSink& sink);

}  // namespace weft::chat
