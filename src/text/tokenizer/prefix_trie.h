// Which texts of a set are prefixes of a text, shortest first: a double array of bytes.
//
//   uint32_t node = PrefixTrie::kRoot;
//   for (size_t at = 0; at < text.size() && trie.Step(node, text[at]); ++at) {
//     if (trie.Value(node) >= 0) ...  // text[0, at] is in the set
//   }
//
// Immutable once built; threads may share it.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace weft {

class PrefixTrie {
 public:
  using Entry = std::pair<std::string_view, int32_t>;  // a text and its value, not below zero
  static constexpr uint32_t kRoot = 0;

  PrefixTrie() : units_(kBlockUnits) {}  // no text at all
  // Of equal texts the last one's value counts. Empty texts are prefixes of nothing: left out.
  explicit PrefixTrie(std::vector<Entry> entries);

  // The child of `node` for `byte`; false, with `node` unchanged, when there is none.
  bool Step(uint32_t& node, char byte) const {
    const uint32_t child = units_[node].base ^ static_cast<uint8_t>(byte);
    if (units_[child].parent != node) return false;
    node = child;
    return true;
  }
  // -1 where no text of the set ends.
  int32_t Value(uint32_t node) const { return units_[node].value; }
  // The value of the text as a whole, or -1.
  int32_t Find(std::string_view text) const;

 private:
  static constexpr uint32_t kBlockUnits = 256;
  static constexpr uint32_t kNoParent = UINT32_MAX;
  friend class PrefixTrieBuilder;

  // Children of a node lie at base ^ byte and name it as their parent. A base is below the count of
  // units, which is a multiple of 256, so that every byte leads to a unit.
  struct Unit {
    uint32_t base = 0;
    uint32_t parent = kNoParent;
    int32_t value = -1;
  };
  std::vector<Unit> units_;
};

}  // namespace weft
