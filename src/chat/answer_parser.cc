#include "chat/answer_parser.h"

namespace weft::chat {

AnswerParser::AnswerParser(const Format& format, std::shared_ptr<const Tools> tools,
                           const ParserOptions& options)
    : sink_(std::make_unique<EventSink>(options.ends_with_call)),
      reader_(format.has_channels ? MakeChannelReader(options, *sink_)
                                  : MakeMarkedReader(format, std::move(tools), options, *sink_)) {}

std::vector<Event> AnswerParser::Push(std::string_view text) {
  reader_->Push(text);
  return sink_->Take();
}

std::vector<Event> AnswerParser::Flush() {
  reader_->Flush();
  sink_->Flush();
  return sink_->Take();
}

bool AnswerParser::is_thinking() const {
  return reader_->is_thinking();
}

bool AnswerParser::is_done() const {
  return sink_->is_done();
}

uint32_t AnswerParser::call_count() const {
  return sink_->call_count();
}

std::string EndOfThinking(const Format& format) {
  if (format.has_channels) return "<|end|><|start|>assistant<|channel|>final<|message|>";
  if (format.thinking.end == "</think>") return "\n</think>\n\n";
  return format.thinking.end;
}

}  // namespace weft::chat
