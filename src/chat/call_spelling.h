// A model spells calls of tools by the texts between which names and arguments stand. With them an
// answer can be held to be a call (api/call_grammar.h). They are learned from what the model's
// template makes of calls:
//
//   <tool_call>\n{"name": "weft_probe", "arguments": {"key": "value"}}\n</tool_call>
//   |-- begin ---------|          |-- name_end ----|                |-- close -----|
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "chat/format.h"
#include "chat/render_template.h"

namespace weft::chat {

// Of arguments that are no object of JSON:
//
//   <function=F>\n<parameter=city>\nBern\n</parameter>\n<parameter=days>\n5\n</parameter>\n...
//              |- first_key -|    |- string_begin    |- next -|        |- other_end -|
struct ArgumentSpelling {
  std::string none;       // behind the name where there are no arguments
  std::string first_key;  // in front of the first one's name
  std::string next;       // behind a value's end, in front of the next one's name
  // Between a name and its value, and what ends it: of strings, and of all other values, which are
  // JSON. Strings are written as they are and end at the first `string_end`.
  std::string string_begin, string_end;
  std::string other_begin, other_end;
  // Strings are JSON, too, and stand where other values do.
  bool has_json_strings = false;
};

struct CallSpelling {
  std::string lead;      // what may come first and shows no call yet
  std::string mark;      // by which a call is known wherever it begins; "": none
  std::string begin;     // behind the mark, in front of the name
  std::string name_end;  // between name and arguments
  std::string close;     // behind the arguments
  std::string between;   // behind them, in front of the next call's name; "": there is no other
  bool numbers_calls = false;                 // ":0" follows the first name, ":1" the second
  std::optional<ArgumentSpelling> arguments;  // nullopt: an object of JSON
};

// Ids that a model gives to calls stand in these texts as kProbeId (template_turns.h).
//
// `ends`: texts of tokens that are part of no call, such as what ends an answer. nullopt: the
// template does not show it in a way that can be followed. What is given has been read back.
std::optional<CallSpelling> LearnSpelling(const Format& format, const RenderTemplate& render,
                                          const std::vector<std::string>& ends);

}  // namespace weft::chat
