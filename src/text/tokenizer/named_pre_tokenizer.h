// How byte-level vocabularies without a tokenizer.json cut text into words before they merge: the
// names that tokenizer.ggml.pre of GGUF files may have, as llama.cpp reads them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weft {

struct NamedPreTokenizer {
  // Each cuts what those before it have left, into its matches and what is between them.
  std::vector<std::string> patterns;
  bool ignore_merges = false;  // a word that is a token is not merged
  bool nfc = false;
  bool add_bos = false;  // where the file does not say
};

// kUnsupported: nobody has told weft what the name means.
Result<NamedPreTokenizer> PreTokenizerNamed(std::string_view name);

}  // namespace weft
