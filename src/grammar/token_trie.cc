#include "grammar/token_trie.h"

#include <algorithm>

namespace weft::grammar {

TokenTrie::TokenTrie(std::vector<std::string> tokens, std::vector<int32_t> end_ids)
    : tokens_(std::move(tokens)), end_ids_(std::move(end_ids)) {
  std::sort(end_ids_.begin(), end_ids_.end());
  for (const int32_t id : end_ids_)
    if (id >= 0 && static_cast<size_t>(id) < tokens_.size()) tokens_[static_cast<size_t>(id)] = "";
  for (size_t id = 0; id < tokens_.size(); ++id) {
    if (tokens_[id].size() > kMaxTokenBytes) tokens_[id] = "";
    if (!tokens_[id].empty()) ids_.push_back(static_cast<int32_t>(id));
  }
  // Sorted by bytes, tokens come in preorder.
  std::sort(ids_.begin(), ids_.end(), [this](int32_t a, int32_t b) {
    const int order = bytes(a).compare(bytes(b));
    return order != 0 ? order < 0 : a < b;
  });
  std::vector<uint32_t> path;  // nodes that are open, by depth
  std::string_view before;
  const auto close = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back())
      nodes_[path.back()].subtree_end = static_cast<uint32_t>(nodes_.size());
  };
  for (size_t i = 0; i < ids_.size(); ++i) {
    const std::string_view token = bytes(ids_[i]);
    const auto parted = std::ranges::mismatch(before, token).in2 - token.begin();
    close(static_cast<size_t>(parted));
    for (size_t depth = path.size(); depth < token.size(); ++depth) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      // Its tokens begin where the others' end; those on the way to this one have none.
      nodes_.push_back({0, static_cast<uint32_t>(i), static_cast<uint16_t>(depth + 1),
                        static_cast<uint8_t>(token[depth])});
    }
    max_depth_ = std::max(max_depth_, token.size());
    before = token;
  }
  close(0);
  Node end;
  end.subtree_end = static_cast<uint32_t>(nodes_.size());
  end.first_token = static_cast<uint32_t>(ids_.size());
  nodes_.push_back(end);
}

bool TokenTrie::is_end(int32_t id) const {
  return std::binary_search(end_ids_.begin(), end_ids_.end(), id);
}

}  // namespace weft::grammar
