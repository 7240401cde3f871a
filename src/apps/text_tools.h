// What `weft tokenize` and `weft render` do: a tokenizer or a chat template from wherever people
// have one, applied to what a stream brings.
#pragma once

#include <iosfwd>
#include <map>
#include <string>

#include "api/model_text.h"
#include "base/result.h"

namespace weft::apps {

// The texts of a model by file name (api::kTextFiles), as far as `source` has them. A package by
// path or by its name in the library, a folder with such files, a GGUF file, or one file:
// `file_kind` is the name that a file counts as whose own name says nothing else ("tokenizer.json"
// for my-tokenizer.json, "chat_template.jinja" for my-template.txt). Errors name what was tried.
Result<std::map<std::string, std::string>> ReadModelTexts(const std::string& source,
                                                          const std::string& file_kind);

// The tokenizer of such a source. Errors: kNotFound when it has none.
Result<Tokenizer> ReadModelTokenizer(const std::string& source);

struct TokenizeOptions {
  bool add_special = false;   // what the tokenizer puts around a text, such as <s>
  bool parse_special = true;  // texts of special tokens become these tokens
};

// One JSON string a line in, one JSON list of ids a line out. Errors name the line, counted from 1;
// the lines before it are written.
Status TokenizeLines(const Tokenizer& tokenizer, const TokenizeOptions& options, std::istream& in,
                     std::ostream& out);

// The template's text for the JSON object of variables that `in` holds, byte for byte: no newline
// is added. Errors of the JSON name the line.
Result<std::string> RenderVariables(const api::ModelTemplate& chat, std::istream& in);

}  // namespace weft::apps
