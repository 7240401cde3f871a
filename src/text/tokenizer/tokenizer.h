// Text to token ids and back: byte-pair encoding or Unigram as Hugging Face's tokenizer.json
// declares it. (vocabulary_spec.h writes one for the plain vocabulary of a GGUF file.) Ids equal
// those of the Hugging Face tokenizers library (tokenizer_test.cc).
//
//   ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::FromJson(bytes));
//   ASSIGN_OR_RETURN(const auto ids, tokenizer.Encode("Hello", /*add_special_tokens=*/true));
//
// Immutable and cheap to copy; any number of threads may encode and decode at once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "text/quoted_text.h"

namespace weft {

struct TokenizerData;
class DecodeStage;

class Tokenizer {
 public:
  // Text that Encode accepts.
  static constexpr size_t kMaxTextBytes = size_t{64} << 20;

  // Errors: kInvalidData naming the field; kUnsupported naming a model, normalizer, pre-tokenizer
  // or decoder that weft does not have.
  static Result<Tokenizer> FromJson(ByteSpan tokenizer_json);

  // `add_special_tokens`: what the post-processor puts around the text, such as <s>.
  // `parse_special`: texts of control tokens in `text` become these tokens; false for text that
  // must not steer the model. Errors: kInvalidArgument for text that is not UTF-8 or too long, or
  // has a character that the vocabulary lacks altogether. kInvalidData when an expression of the
  // file gives up.
  Result<std::vector<int32_t>> Encode(std::string_view text, bool add_special_tokens,
                                      bool parse_special = true) const;
  // The same with control tokens as such except where they touch what is quoted.
  Result<std::vector<int32_t>> Encode(const QuotedText& text) const;

  // Always well-formed UTF-8: bytes that are none become U+FFFD. Ids without a token are skipped.
  std::string Decode(std::span<const int32_t> ids, bool skip_special) const;

  // The token's text as the vocabulary spells it ("Ġthe"); empty for an id without a token.
  std::string_view TokenText(int32_t id) const;
  // The bytes that the token stands for, which may be half a character.
  std::string TokenBytes(int32_t id) const;
  // Whether it steers the model and is no text: decoding skips it, or it ends a turn.
  bool IsControl(int32_t id) const;
  std::optional<int32_t> TokenId(std::string_view text) const;
  // One more than the largest id, added tokens included.
  int32_t vocab_count() const;
  // What Encode puts before and after a text when asked to.
  std::span<const int32_t> prefix_ids() const;
  std::span<const int32_t> suffix_ids() const;

 private:
  friend class Detokenizer;
  Result<std::vector<int32_t>> EncodePieces(std::string_view text, bool add_special_tokens,
                                            bool parse_special,
                                            std::span<const TextRange> quoted) const;
  explicit Tokenizer(std::shared_ptr<const TokenizerData> data) : data_(std::move(data)) {}
  std::shared_ptr<const TokenizerData> data_;
};

// Text from ids as they are generated. The pieces put together are Tokenizer::Decode of all ids.
// One thread.
class Detokenizer {
 public:
  // With `continues`, the ids continue a text: a leading space stays.
  Detokenizer(Tokenizer tokenizer, bool skip_special, bool continues = false);
  ~Detokenizer();
  Detokenizer(Detokenizer&&) noexcept;
  Detokenizer& operator=(Detokenizer&&) noexcept;

  // These special tokens are text, whatever `skip_special` says.
  void KeepSpecial(std::span<const int32_t> ids) { kept_.assign(ids.begin(), ids.end()); }

  // Text that is ready now: whole characters only, often empty.
  std::string Push(int32_t id);
  // What was still held back; an incomplete character becomes U+FFFD.
  std::string Flush();

 private:
  Tokenizer tokenizer_;
  bool skip_special_;
  std::vector<int32_t> kept_;
  std::unique_ptr<std::string> out_;  // where the last stage writes
  std::vector<std::unique_ptr<DecodeStage>> stages_;
};

}  // namespace weft
