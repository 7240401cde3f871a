#include "text/tokenizer/bpe.h"

#include <algorithm>
#include <cstdio>

#include "text/tokenizer/byte_level.h"
#include "text/utf8.h"

namespace weft {
namespace {

// Up to here, scanning all ranks for the lowest beats a heap (words have 2-10 symbols).
constexpr size_t kShortSymbols = 48;
constexpr uint32_t kBasicPlane = 0x10000;
// Longer pieces are no single token: no vocabulary has such.
constexpr size_t kMaxWholeTokenBytes = 1024;

}  // namespace

void PairTable::Reserve(size_t count) {
  size_t slot_count = 16;
  while (slot_count < count * 2) slot_count *= 2;
  slots_.assign(slot_count, Slot{});
  mask_ = slot_count - 1;
}

void PairTable::Insert(int32_t left, int32_t right, Merge merge) {
  const uint64_t key = KeyOf(left, right);
  size_t slot = SlotOf(key);
  while (slots_[slot].key != kFree) {
    if (slots_[slot].key == key) return;
    slot = (slot + 1) & mask_;
  }
  slots_[slot] = {key, merge};
}

BpeModel BpeModel::Build(const Vocabulary& vocabulary, std::span<const BpeMerge> merges,
                         Options options) {
  BpeModel model;
  model.vocabulary_ = &vocabulary;
  model.options_ = options;
  model.pairs_.Reserve(merges.size());
  for (const BpeMerge& merge : merges) {
    model.pairs_.Insert(merge.left, merge.right, {merge.rank, merge.merged});
  }
  for (size_t byte = 0; byte < 256; ++byte) {
    std::string text;
    utf8::Append(text, ByteLevelChar(static_cast<uint8_t>(byte)));
    model.byte_symbols_[byte] = vocabulary.Find(text).value_or(-1);
    char fallback[8];
    std::snprintf(fallback, sizeof(fallback), "<0x%02X>", static_cast<unsigned>(byte));
    model.fallback_bytes_[byte] = vocabulary.Find(fallback).value_or(-1);
  }
  model.basic_symbols_.assign(kBasicPlane, -1);
  for (int32_t id = 0; id < vocabulary.id_limit(); ++id) {
    const std::string_view text = vocabulary.Text(id);
    if (text.empty() || utf8::LengthOf(text[0]) != text.size()) continue;
    size_t at = 0;
    const uint32_t code_point = utf8::Next(text, at);
    if (code_point < kBasicPlane) {
      model.basic_symbols_[code_point] = vocabulary.Find(text).value_or(id);
    }
  }
  model.FindJoinable(merges);
  return model;
}

// Where a long piece may be cut. A merge joins two runs of characters, so it joins the last
// character of the one to the first of the other; if no merge of the vocabulary has that pair of
// characters at its seam, nothing can ever be merged across it and both sides are independent. A
// long text without blanks is thereby merged in short parts.
void BpeModel::FindJoinable(std::span<const BpeMerge> merges) {
  std::vector<std::pair<int32_t, int32_t>> joined;
  joined.reserve(merges.size());
  for (const BpeMerge& merge : merges) {
    const std::string_view left = vocabulary_->Text(merge.left);
    const std::string_view right = vocabulary_->Text(merge.right);
    // A merge over fallback bytes or the unknown token joins symbols that are no characters.
    const auto is_character_run = [&](int32_t id, std::string_view text) {
      return !text.empty() && id != options_.unknown_id && !text.starts_with("<0x");
    };
    if (!is_character_run(merge.left, left) || !is_character_run(merge.right, right)) return;
    size_t end = 0;
    const uint32_t first = utf8::Next(right, end);
    size_t last_at = utf8::Previous(left, left.size());
    const std::string_view last_text = left.substr(last_at);
    const uint32_t last = utf8::Next(left, last_at);
    joined.emplace_back(SymbolOf(last, last_text), SymbolOf(first, right.substr(0, end)));
  }
  std::sort(joined.begin(), joined.end());
  joined.erase(std::unique(joined.begin(), joined.end()), joined.end());
  joinable_.Reserve(joined.size());
  for (const auto& [last, first] : joined) joinable_.Insert(last, first, {0, 0});
  can_cut_ = true;
}

int32_t BpeModel::SymbolOf(uint32_t code_point, std::string_view text) const {
  if (code_point < kBasicPlane) return basic_symbols_[code_point];
  return vocabulary_->Find(text).value_or(-1);
}

void BpeModel::AddBytes(std::string_view piece, std::vector<int32_t>& symbols) const {
  for (const char c : piece) {
    const int32_t symbol = byte_symbols_[static_cast<uint8_t>(c)];
    if (symbol >= 0) {
      symbols.push_back(symbol);
    } else if (options_.unknown_id >= 0 && !(options_.fuse_unknown && !symbols.empty() &&
                                             symbols.back() == options_.unknown_id)) {
      symbols.push_back(options_.unknown_id);
    }
  }
}

void BpeModel::AddCharacters(std::string_view piece, std::vector<int32_t>& symbols) const {
  for (size_t at = 0; at < piece.size();) {
    const size_t begin = at;
    const uint32_t code_point = utf8::Next(piece, at);
    const std::string_view text = piece.substr(begin, at - begin);
    const int32_t symbol = SymbolOf(code_point, text);
    if (symbol >= 0) {
      symbols.push_back(symbol);
      continue;
    }
    const auto fallback = [&](char c) { return fallback_bytes_[static_cast<uint8_t>(c)]; };
    if (options_.byte_fallback &&
        std::all_of(text.begin(), text.end(), [&](char c) { return fallback(c) >= 0; })) {
      for (const char c : text) symbols.push_back(fallback(c));
    } else if (options_.unknown_id >= 0 && !(options_.fuse_unknown && !symbols.empty() &&
                                             symbols.back() == options_.unknown_id)) {
      symbols.push_back(options_.unknown_id);
    }
  }
}

void BpeModel::Encode(std::string_view piece, bool as_bytes, Scratch& scratch,
                      std::vector<int32_t>& ids) const {
  if (options_.ignore_merges && piece.size() <= kMaxWholeTokenBytes) {
    std::string_view whole = piece;
    if (as_bytes) {
      scratch.text.clear();
      AppendByteLevel(piece, scratch.text);
      whole = scratch.text;
    }
    if (const auto id = vocabulary_->Find(whole)) {
      ids.push_back(*id);
      return;
    }
  }
  std::vector<int32_t>& symbols = scratch.symbols;
  symbols.clear();
  if (as_bytes) {
    AddBytes(piece, symbols);
  } else {
    AddCharacters(piece, symbols);
  }
  const std::span<int32_t> all(symbols);
  if (all.size() <= kShortSymbols) {
    MergeShort(all, scratch, ids);
    return;
  }
  for (size_t begin = 0; begin < all.size();) {
    size_t end = begin + 1;
    if (can_cut_) {
      while (end < all.size() &&
             joinable_.Find(all[end - 1], all[end]).rank != PairTable::kNoRank) {
        ++end;
      }
    } else {
      end = all.size();
    }
    const std::span<int32_t> part = all.subspan(begin, end - begin);
    if (part.size() <= kShortSymbols) {
      MergeShort(part, scratch, ids);
    } else {
      MergeLong(part, scratch, ids);
    }
    begin = end;
  }
}

// The order of merges decides the ids, and it is not left to right: of all adjacent pairs the one
// with the lowest rank goes first, of equal ones the leftmost. With merges "b c" (rank 0) and "a b"
// (rank 1), "abc" becomes a bc; merging from the left would give ab c. After a merge only the two
// pairs beside it are new.
void BpeModel::MergeShort(std::span<int32_t> symbols, Scratch&, std::vector<int32_t>& ids) const {
  std::array<PairTable::Merge, kShortSymbols> merges;
  size_t count = symbols.size();
  for (size_t i = 0; i + 1 < count; ++i) merges[i] = pairs_.Find(symbols[i], symbols[i + 1]);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].rank == PairTable::kNoRank) break;
    symbols[best] = merges[best].merged;
    --count;
    std::copy(symbols.begin() + static_cast<ptrdiff_t>(best) + 2,
              symbols.begin() + static_cast<ptrdiff_t>(count) + 1,
              symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
    if (best + 1 < count) {
      std::copy(merges.begin() + best + 2, merges.begin() + count, merges.begin() + best + 1);
      merges[best] = pairs_.Find(symbols[best], symbols[best + 1]);
    }
    if (best > 0) merges[best - 1] = pairs_.Find(symbols[best - 1], symbols[best]);
  }
  ids.insert(ids.end(), symbols.begin(), symbols.begin() + static_cast<ptrdiff_t>(count));
}

// The same order for pieces of any length in O(n log n): symbols are a linked list, and a heap
// holds the pairs. A pair that a merge destroyed stays in the heap and is recognised when it comes
// up.
void BpeModel::MergeLong(std::span<const int32_t> symbols, Scratch& scratch,
                         std::vector<int32_t>& ids) const {
  const auto count = static_cast<int32_t>(symbols.size());
  std::vector<int32_t> symbol(symbols.begin(), symbols.end());
  scratch.next.resize(symbols.size());
  scratch.previous.resize(symbols.size());
  scratch.merges.assign(symbols.size(), {PairTable::kNoRank, -1});
  auto& next = scratch.next;
  auto& previous = scratch.previous;
  auto& merges = scratch.merges;
  auto& heap = scratch.heap;
  heap.clear();
  const auto at = [](int32_t i) { return static_cast<size_t>(i); };
  // Entries are rank << 32 | position: the smallest is the lowest rank, leftmost.
  const auto entry = [&](int32_t i) {
    return static_cast<uint64_t>(merges[at(i)].rank) << 32 | static_cast<uint32_t>(i);
  };
  for (int32_t i = 0; i < count; ++i) {
    next[at(i)] = i + 1;
    previous[at(i)] = i - 1;
    if (i + 1 == count) break;
    merges[at(i)] = pairs_.Find(symbol[at(i)], symbol[at(i + 1)]);
    if (merges[at(i)].rank != PairTable::kNoRank) heap.push_back(entry(i));
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  const auto refresh = [&](int32_t i) {
    merges[at(i)] = next[at(i)] < count ? pairs_.Find(symbol[at(i)], symbol[at(next[at(i)])])
                                        : PairTable::Merge{PairTable::kNoRank, -1};
    if (merges[at(i)].rank == PairTable::kNoRank) return;
    heap.push_back(entry(i));
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const uint64_t lowest = heap.back();
    heap.pop_back();
    const auto i = static_cast<int32_t>(lowest & UINT32_MAX);
    // Entries are not removed when their pair changes; a stale one shows a rank that its pair no
    // longer has.
    if (merges[at(i)].rank == PairTable::kNoRank || entry(i) != lowest) continue;
    const int32_t gone = next[at(i)];
    symbol[at(i)] = merges[at(i)].merged;
    merges[at(gone)] = {PairTable::kNoRank, -1};
    next[at(i)] = next[at(gone)];
    if (next[at(i)] < count) previous[at(next[at(i)])] = i;
    refresh(i);
    if (previous[at(i)] >= 0) refresh(previous[at(i)]);
  }
  for (int32_t i = 0; i < count; i = next[at(i)]) ids.push_back(symbol[at(i)]);
}

}  // namespace weft
