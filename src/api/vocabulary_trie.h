// A model's vocabulary as grammars see it: the bytes of each token of text.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "grammar/token_trie.h"
#include "text/tokenizer/tokenizer.h"

namespace weft::api {

// Control tokens are no text, but for those of `shown`, in rising order; `stop_ids` end one.
std::shared_ptr<const grammar::TokenTrie> VocabularyTrie(const Tokenizer& tokenizer,
                                                         std::vector<int32_t> stop_ids,
                                                         std::span<const int32_t> shown = {});

}  // namespace weft::api
