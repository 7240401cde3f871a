// Byte-level vocabularies without a tokenizer.json cut text into words before they merge. These are
// the names that tokenizer.ggml.pre of GGUF files may have, as llama.cpp reads them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weft {

struct NamedPreTokenizer {
  // Each cuts what those before it have left, into its matches and what is between them.
  std::vector<std::string> patterns;
  // The vocabulary is of characters, not of the byte-level alphabet; what it lacks is <0xHH>.
  bool is_text = false;
  bool escapes_spaces = false;  // of such a vocabulary: its spaces are U+2581
  bool ignore_merges = false;   // a word that is a token is not merged
  bool nfc = false;
  bool add_bos = false;  // where the file does not say
};

// kUnsupported: nobody has told weft what the name means.
Result<NamedPreTokenizer> PreTokenizerNamed(std::string_view name);

}  // namespace weft
