#include "api/vocabulary_trie.h"

#include <algorithm>
#include <string>
#include <utility>

namespace weft::api {

std::shared_ptr<const grammar::TokenTrie> VocabularyTrie(const Tokenizer& tokenizer,
                                                         std::vector<int32_t> stop_ids,
                                                         std::span<const int32_t> shown) {
  const auto is_text = [&](int32_t id) {
    if (!tokenizer.IsControl(id)) return true;
    return std::ranges::binary_search(shown, id) &&
           std::ranges::find(stop_ids, id) == stop_ids.end();
  };
  std::vector<std::string> tokens(static_cast<size_t>(tokenizer.vocab_count()));
  for (int32_t id = 0; id < tokenizer.vocab_count(); ++id)
    if (is_text(id)) tokens[static_cast<size_t>(id)] = tokenizer.TokenBytes(id);
  return std::make_shared<const grammar::TokenTrie>(std::move(tokens), std::move(stop_ids));
}

}  // namespace weft::api
