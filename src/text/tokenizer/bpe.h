// Byte-pair encoding: a piece of text becomes symbols (single characters or bytes). Then the
// adjacent pair of the lowest rank is merged, leftmost first, until no pair has a rank. Serves
// byte-level vocabularies, SentencePiece-style ones with byte fallback, and scored vocabularies
// whose merges are derived from the scores.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer/vocabulary.h"

namespace weft {

struct BpeMerge {
  int32_t left;
  int32_t right;
  int32_t merged;
  uint32_t rank;  // lower merges first; equal ranks merge leftmost first
};

// (left, right) -> rank and merged id. Open addressing; about 16 bytes x 2 per merge.
class PairTable {
 public:
  struct Merge {
    uint32_t rank;
    int32_t merged;
  };
  static constexpr uint32_t kNoRank = UINT32_MAX;

  void Reserve(size_t count);
  // The first rank given to a pair stays. REQUIRES: Reserve() was told of at least this many.
  void Insert(int32_t left, int32_t right, Merge merge);
  // rank == kNoRank when the pair does not merge.
  Merge Find(int32_t left, int32_t right) const {
    size_t slot = SlotOf(KeyOf(left, right));
    while (slots_[slot].key != kFree) {
      if (slots_[slot].key == KeyOf(left, right)) return slots_[slot].merge;
      slot = (slot + 1) & mask_;
    }
    return {kNoRank, -1};
  }

 private:
  static constexpr uint64_t kFree = UINT64_MAX;
  struct Slot {
    uint64_t key = kFree;
    Merge merge{kNoRank, -1};
  };
  static uint64_t KeyOf(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t SlotOf(uint64_t key) const { return (key * 0x9E3779B97F4A7C15ull >> 32) & mask_; }

  std::vector<Slot> slots_ = std::vector<Slot>(1);
  size_t mask_ = 0;
};

class BpeModel {
 public:
  struct Options {
    bool byte_fallback = false;  // unknown characters become <0xHH> tokens
    bool fuse_unknown = false;   // a run of unknown characters is one unknown token
    bool ignore_merges = false;  // a piece that is a token is that token, merges or not
    int32_t unknown_id = -1;     // -1: unknown characters are dropped
  };

  // Scratch of one Encode call; reused from piece to piece.
  struct Scratch {
    std::vector<int32_t> symbols;
    std::vector<int32_t> next, previous;
    std::vector<PairTable::Merge> merges;
    std::vector<uint64_t> heap;
    std::string text;
  };

  // `vocabulary` must outlive the model. REQUIRES: ids in `merges` and `options` are in the
  // vocabulary.
  static BpeModel Build(const Vocabulary& vocabulary, std::span<const BpeMerge> merges,
                        Options options);

  // Appends the ids of `piece`, well-formed UTF-8. With `as_bytes` its bytes are the symbols,
  // through the byte-level alphabet; the piece itself is not in that alphabet. Time is O(n log n)
  // for any piece, linear for ordinary text.
  void Encode(std::string_view piece, bool as_bytes, Scratch& scratch,
              std::vector<int32_t>& ids) const;

 private:
  void AddCharacters(std::string_view piece, std::vector<int32_t>& symbols) const;
  void AddBytes(std::string_view piece, std::vector<int32_t>& symbols) const;
  int32_t SymbolOf(uint32_t code_point, std::string_view text) const;
  void FindJoinable(std::span<const BpeMerge> merges);
  void MergeShort(std::span<int32_t> symbols, Scratch& scratch, std::vector<int32_t>& ids) const;
  void MergeLong(std::span<const int32_t> symbols, Scratch& scratch,
                 std::vector<int32_t>& ids) const;

  const Vocabulary* vocabulary_ = nullptr;
  Options options_;
  PairTable pairs_;
  // Pairs of adjacent symbols that some merge joins; a long piece can be cut between any other two
  // without changing the result. Empty when that cannot be said.
  PairTable joinable_;
  bool can_cut_ = false;
  std::array<int32_t, 256> byte_symbols_{};    // byte-level alphabet, -1 if absent
  std::array<int32_t, 256> fallback_bytes_{};  // <0xHH>, -1 if absent
  std::vector<int32_t> basic_symbols_;         // by code point below 0x10000, -1 if absent
};

}  // namespace weft
