#include "api/vocabulary_trie.h"

#include <string>
#include <utility>

namespace weft::api {

std::shared_ptr<const grammar::TokenTrie> VocabularyTrie(const Tokenizer& tokenizer,
                                                         std::vector<int32_t> stop_ids) {
  std::vector<std::string> tokens(static_cast<size_t>(tokenizer.vocab_count()));
  for (int32_t id = 0; id < tokenizer.vocab_count(); ++id)
    if (!tokenizer.IsControl(id)) tokens[static_cast<size_t>(id)] = tokenizer.TokenBytes(id);
  return std::make_shared<const grammar::TokenTrie>(std::move(tokens), std::move(stop_ids));
}

}  // namespace weft::api
