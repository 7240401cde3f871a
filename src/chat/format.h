// How a family of models writes calls of tools and its thinking, as data. detect.h says which one a
// model has.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace weft::chat {

// A name that goes on for longer is a text in which somebody speaks of a marker.
inline constexpr size_t kMaxCallNameBytes = 256;

// How the inside of a block of calls reads.
enum class CallForm {
  // What it looks like: objects or lists of objects in JSON, <function=F><parameter=K>V..., or
  // NAME<arg_key>K</arg_key><arg_value>V</arg_value>.
  kAny,
  // Names with JSON behind them: functions.F:0<|tool_call_argument_begin|>{...}
  kNamed,
  // An element for each argument: <invoke name="F"><city>Bern</city></invoke>, as MiniMax M3
  kElements,
  // Calls in Python: [F(city="Bern")]
  kPython,
  // call:F{city:<|"|>Bern<|"|>}
  kGemma,
};

// Where blocks of calls are and how they read.
struct CallSyntax {
  std::string begin;  // a marker; "" : a { with which the answer begins
  std::string end;    // a marker; "": where the JSON ends
  CallForm form = CallForm::kAny;
  bool keeps_begin = false;  // `begin` is part of the first call
  // Of kNamed: what stands in front of a call; between its id and its name, "" where it has none;
  // between the name and the arguments; behind the arguments. Of kElements `call` is what stands in
  // front of every tag.
  std::string call = {}, id_end = {}, name_end = {}, close = {};
};

// What stands around thoughts. Prompts may end with `begin`.
struct Thinking {
  std::string begin, end;
};

struct Format {
  std::string family;  // "": none is known
  std::vector<CallSyntax> calls;
  Thinking thinking = {"<think>", "</think>"};
  // Markers that say nothing beyond the others and are left out.
  std::vector<std::string> silent;
  // Messages with channels: <|channel|>analysis<|message|>...<|end|> (harmony)
  bool has_channels = false;
  // Ids of calls have nine letters and digits, which this family's templates demand.
  bool short_ids = false;

  // Every text that the parser looks for: special tokens among them have to reach it as text.
  std::vector<std::string> Markers() const;
};

// The families, those with the rarest markers first. A template belongs to the first of which all
// `signs` stand in it.
struct Family {
  std::vector<std::string> signs;
  Format format;
};
const std::vector<Family>& Families();
// Other ways to mark thoughts than <think>, in the same order.
const std::vector<Thinking>& ThinkingMarks();

}  // namespace weft::chat
