// What a model says, of any family and cut anywhere: it is read without a crash, a cut changes
// nothing, arguments are JSON, and where no call was found every byte is given back.
#include <algorithm>
#include <boost/json.hpp>
#include <string>

#include "base/bytes.h"
#include "base/check.h"
#include "chat/answer_parser.h"
#include "text/utf8.h"

namespace {

using namespace weft;

struct Said {
  std::string content, reasoning, calls;
  bool operator==(const Said&) const = default;
};

Said Read(const chat::Format& format, const std::shared_ptr<const chat::Tools>& tools,
          const chat::ParserOptions& options, std::string_view text, size_t step) {
  chat::AnswerParser parser(format, tools, options);
  Said said;
  const auto take = [&](const std::vector<chat::Event>& events) {
    for (const chat::Event& event : events) {
      if (event.kind == chat::EventKind::kContent) {
        said.content += event.text;
      } else if (event.kind == chat::EventKind::kReasoning) {
        said.reasoning += event.text;
      } else {
        said.calls += "\n" + event.text;
      }
      if (event.kind != chat::EventKind::kArguments) continue;
      boost::system::error_code error;
      boost::json::parse_options parsing;
      parsing.max_depth = 256;
      CHECK(boost::json::parse(event.text, error, {}, parsing).is_object());
    }
  };
  for (size_t at = 0; at < text.size(); at += step) take(parser.Push(text.substr(at, step)));
  take(parser.Flush());
  return said;
}

}  // namespace

// The first byte chooses the family, the second what is parsed and how the text is cut.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t byte_count) {
  if (byte_count < 2) return 0;
  const std::string_view text = AsText(ByteSpan(data + 2, byte_count - 2));
  if (utf8::FindInvalid(text) != std::string::npos) return 0;
  static const auto kTools =
      std::make_shared<const chat::Tools>(boost::json::parse(R"([{"function": {"name": "f",
        "parameters": {"type": "object", "properties": {"a": {"type": "string"},
        "b": {"type": ["integer", "null"]}, "c": {"type": "array"}}}}}])")
                                              .as_array());
  const auto& families = chat::Families();
  const chat::Format& format = families[data[0] % families.size()].format;
  const chat::ParserOptions options = {.parses_calls = (data[1] & 1) != 0,
                                       .splits_thinking = (data[1] & 2) != 0,
                                       .opens_thinking = (data[1] & 4) != 0,
                                       .ends_with_call = (data[1] & 8) != 0};
  const Said whole = Read(format, kTools, options, text, std::max<size_t>(1, text.size()));
  const size_t step = 1 + (data[1] >> 4);
  CHECK(whole == Read(format, kTools, options, text, step));
  // Without marks that are left out, what is said is what was said.
  if (!options.parses_calls && !options.splits_thinking && format.silent.empty() &&
      !format.has_channels)
    CHECK(whole.content == text);
  return 0;
}
