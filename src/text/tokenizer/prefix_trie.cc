#include "text/tokenizer/prefix_trie.h"

#include <algorithm>
#include <array>
#include <span>

namespace weft {

// Places the nodes of sorted texts one after another. The free units of the last blocks are a
// list, in which a node looks for a place where all its children fit.
class PrefixTrieBuilder {
 public:
  explicit PrefixTrieBuilder(std::vector<PrefixTrie::Unit>& units) : units_(units) {
    units_.clear();
    AddBlock();
    Take(PrefixTrie::kRoot);
  }

  // REQUIRES: `entries` are sorted by text, each text once, none empty.
  void Build(std::span<const PrefixTrie::Entry> entries) {
    std::vector<Work> stack{{entries, 0, PrefixTrie::kRoot}};
    while (!stack.empty()) {
      const Work work = stack.back();
      stack.pop_back();
      Place(work, stack);
    }
  }

 private:
  // Blocks before these have few free units, and looking through them costs more than they hold.
  static constexpr size_t kOpenBlocks = 16;

  struct Work {
    std::span<const PrefixTrie::Entry> entries;  // that share the bytes before `depth`
    size_t depth;
    uint32_t node;
  };

  void Place(const Work& work, std::vector<Work>& stack) {
    auto entries = work.entries;
    if (!entries.empty() && entries[0].first.size() == work.depth) {
      units_[work.node].value = entries[0].second;
      entries = entries.subspan(1);
    }
    if (entries.empty()) return;
    child_count_ = 0;
    for (size_t begin = 0; begin < entries.size();) {
      const char byte = entries[begin].first[work.depth];
      size_t end = begin + 1;
      while (end < entries.size() && entries[end].first[work.depth] == byte) ++end;
      bytes_[child_count_] = static_cast<uint8_t>(byte);
      parts_[child_count_++] = entries.subspan(begin, end - begin);
      begin = end;
    }
    const uint32_t base = FindBase();
    units_[work.node].base = base;
    for (size_t i = 0; i < child_count_; ++i) {
      const uint32_t child = base ^ bytes_[i];
      Take(child);
      units_[child].parent = work.node;
      stack.push_back({parts_[i], work.depth + 1, child});
    }
  }

  uint32_t FindBase() {
    for (uint32_t free = first_free_; free != kNone; free = next_[free]) {
      const uint32_t base = free ^ bytes_[0];
      const auto fits = [&](uint8_t byte) { return is_free_[base ^ byte]; };
      if (std::all_of(bytes_.begin(), bytes_.begin() + static_cast<ptrdiff_t>(child_count_),
                      fits)) {
        return base;
      }
    }
    return AddBlock() ^ bytes_[0];
  }

  // The first unit of a new block, which is free.
  uint32_t AddBlock() {
    const auto begin = static_cast<uint32_t>(units_.size());
    const uint32_t end = begin + PrefixTrie::kBlockUnits;
    units_.resize(end);
    is_free_.resize(end, true);
    next_.resize(end);
    previous_.resize(end);
    for (uint32_t unit = begin; unit < end; ++unit) {
      next_[unit] = unit + 1 < end ? unit + 1 : kNone;
      previous_[unit] = unit > begin ? unit - 1 : last_free_;
    }
    (last_free_ == kNone ? first_free_ : next_[last_free_]) = begin;
    last_free_ = end - 1;
    if (end > kOpenBlocks * PrefixTrie::kBlockUnits) {
      const uint32_t open = end - kOpenBlocks * PrefixTrie::kBlockUnits;
      while (first_free_ < open) Unlink(first_free_);
    }
    return begin;
  }

  void Take(uint32_t unit) {
    is_free_[unit] = false;
    Unlink(unit);
  }

  void Unlink(uint32_t unit) {
    const uint32_t before = previous_[unit];
    const uint32_t after = next_[unit];
    (before == kNone ? first_free_ : next_[before]) = after;
    (after == kNone ? last_free_ : previous_[after]) = before;
  }

  static constexpr uint32_t kNone = UINT32_MAX;
  std::vector<PrefixTrie::Unit>& units_;
  std::vector<bool> is_free_;
  std::vector<uint32_t> next_, previous_;
  uint32_t first_free_ = kNone, last_free_ = kNone;
  // Of the node that is being placed.
  std::array<uint8_t, 256> bytes_;
  std::array<std::span<const PrefixTrie::Entry>, 256> parts_;
  size_t child_count_ = 0;
};

PrefixTrie::PrefixTrie(std::vector<Entry> entries) {
  std::erase_if(entries, [](const Entry& entry) { return entry.first.empty(); });
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.first < b.first; });
  size_t kept = 0;
  for (const Entry& entry : entries) {
    if (kept > 0 && entries[kept - 1].first == entry.first) --kept;
    entries[kept++] = entry;
  }
  entries.resize(kept);
  PrefixTrieBuilder(units_).Build(entries);
}

int32_t PrefixTrie::Find(std::string_view text) const {
  uint32_t node = kRoot;
  for (const char byte : text) {
    if (!Step(node, byte)) return -1;
  }
  return Value(node);
}

}  // namespace weft
