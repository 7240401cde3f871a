// What a Tokenizer holds: the stages in the order in which text passes them. Internal to src/text.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "text/tokenizer/added.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/decode.h"
#include "text/tokenizer/normalize.h"
#include "text/tokenizer/pretokenize.h"
#include "text/tokenizer/unigram.h"
#include "text/tokenizer/vocabulary.h"

namespace weft {

struct TokenizerData {
  // Not movable: the model points to the vocabulary, the matchers to the added tokens.
  TokenizerData() = default;
  TokenizerData(const TokenizerData&) = delete;

  Vocabulary vocabulary;  // added tokens included
  std::vector<AddedToken> added_tokens;
  std::vector<const AddedToken*> added_by_id;  // nullptr for tokens of the model
  AddedTokenMatcher raw_matcher;               // in the text as it came
  AddedTokenMatcher normalized_matcher;        // in the normalised text
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::variant<BpeModel, UnigramModel> model;
  DecoderChain decoder;
  std::vector<int32_t> prefix_ids;
  std::vector<int32_t> suffix_ids;

  // Fills added_by_id and both matchers from added_tokens. Errors: kInvalidData.
  Status IndexAddedTokens();

  const AddedToken* AddedOf(int32_t id) const {
    return id >= 0 && static_cast<size_t>(id) < added_by_id.size()
               ? added_by_id[static_cast<size_t>(id)]
               : nullptr;
  }
};

}  // namespace weft
