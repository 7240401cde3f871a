// Vocabularies without a tokenizer.json, as the metadata of GGUF files hold them
// (tokenizer.ggml.*), become the tokenizer.json that says the same. Packages and tools know that
// one form.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace weft {

// All vectors have at least one entry per id or are empty.
struct VocabularySpec {
  // "gpt2" (byte-level, merges), "whitespace" (the same of text without its spaces), "llama"
  // (SentencePiece, merges or scores), "gemma4" (SentencePiece's text with merges) or "t5"
  // (Unigram, scores).
  std::string model;
  std::string pre;  // pre-tokenizer of a byte-level model: "llama-bpe", "qwen2", ...
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> types;       // a TokenType each
  std::vector<std::string> merges;  // "left right"
  std::optional<int32_t> bos_id, eos_id, unknown_id;
  std::optional<bool> add_bos, add_eos;
  bool add_space_prefix = true;  // "llama" and "t5"
  bool lowercase = false;        // "whitespace" only
  // "t5" only: runs of spaces become one, those at the ends none; what characters are replaced by.
  bool remove_extra_spaces = false;
  std::vector<uint8_t> charsmap;
  bool strips_behind_tokens = false;  // white space behind added tokens is a part of them (Phi-3)
};

// tokenizer.ggml.token_type
enum TokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

// Of several ids with one text the first is written; an id without a text is left out. Errors:
// kInvalidData names the token, merge or id; kUnsupported the kind of model or pre-tokenizer that
// weft does not have.
Result<std::string> TokenizerJson(const VocabularySpec& spec);

}  // namespace weft
