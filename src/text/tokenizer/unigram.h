// Unigram vocabularies are SentencePiece's other kind, of T5, XLM-R and Japanese Llamas. Every
// token has a score, the logarithm of how likely it is. A piece of text becomes the tokens with the
// largest sum of scores. Ids equal those of the Hugging Face tokenizers library, ties included.
// Sums are doubles, added from the left, and of equal ones the path found first stays.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer/prefix_trie.h"

namespace weft {

class UnigramModel {
 public:
  // A token's id is its place among the pieces.
  struct Piece {
    std::string_view text;
    double score;
  };
  struct Options {
    bool byte_fallback = false;  // what no token spells becomes <0xHH> tokens
    int32_t unknown_id = -1;     // -1: what no token spells is an error
    // Of a character that no token spells; ten below the lowest of all scores unless given. Given,
    // a run of such characters is the unknown token though it may be a token's text.
    std::optional<double> unknown_score;
    std::vector<int32_t> unmatched;  // tokens that no text becomes
  };

  // Scratch of one Encode call; reused from piece to piece.
  struct Scratch {
    // The best path to an end: its sum, its last token and where that begins.
    struct Node {
      double score = 0;
      int32_t id = -1;
      uint32_t begin = kUnreached;
    };
    static constexpr uint32_t kUnreached = UINT32_MAX;
    struct Token {
      uint32_t begin;
      uint32_t end;
      int32_t id;
    };
    std::vector<Node> nodes;
    std::vector<Token> path;
    std::string text;
  };

  // REQUIRES: ids in `options` are below the count of pieces; scores are finite.
  static UnigramModel Build(std::span<const Piece> pieces, Options options);

  // These tokens are not for text that must not steer the model.
  void SetControl(std::span<const int32_t> ids);

  // Appends the ids of `piece`, well-formed UTF-8; with `as_bytes` of its bytes in the byte-level
  // alphabet. Without `allow_control` the tokens of SetControl are none. Time is linear in the
  // piece, memory in its longest part that tokens span without a gap. Errors: kInvalidArgument for
  // a character that no token spells where there is no unknown token.
  Status Encode(std::string_view piece, bool as_bytes, bool allow_control, Scratch& scratch,
                std::vector<int32_t>& ids) const;

 private:
  class Run;
  void EncodeUnknown(std::string_view text, bool allow_control, std::vector<int32_t>& ids) const;
  bool IsControl(int32_t id) const {
    return static_cast<size_t>(id) < control_.size() && control_[static_cast<size_t>(id)];
  }

  PrefixTrie trie_;
  std::vector<double> scores_;  // by id
  std::vector<bool> control_;   // by id, up to the largest control token
  double unknown_score_ = 0;
  int32_t unknown_id_ = -1;
  bool byte_fallback_ = false;
  bool finds_runs_ = true;                     // a run of unknown characters may be a token's text
  std::array<int32_t, 256> fallback_bytes_{};  // <0xHH>, -1 if absent
};

}  // namespace weft
