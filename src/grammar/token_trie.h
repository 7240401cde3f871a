// The tokens of a vocabulary by their bytes, as a tree. Tokens that begin alike share their
// beginning in it, and a mask is computed over it.
//
// Nodes stand in preorder, so that a subtree is a run of them. Tokens "a", "ab" and "b":
//
//   node  byte  depth  subtree_end  tokens
//   0     a     1      2            a
//   1     b     2      2            ab
//   2     b     1      3            b
//
// Immutable; any number of threads may read it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::grammar {

class TokenTrie {
 public:
  struct Node {
    uint32_t subtree_end = 0;  // the node behind all that begin so
    uint32_t first_token = 0;  // in ids(); the next node's are the end of its own
    uint16_t depth = 0;        // bytes, the first node's has 1
    uint8_t byte = 0;
  };

  // `tokens` by id; an empty one is no text, and never allowed: special tokens, and ids that stand
  // for nothing. `end_ids` end a text: they are allowed where it may end. Tokens longer than
  // kMaxTokenBytes are left out.
  TokenTrie(std::vector<std::string> tokens, std::vector<int32_t> end_ids);

  static constexpr size_t kMaxTokenBytes = 1024;

  std::span<const Node> nodes() const { return {nodes_.data(), nodes_.size() - 1}; }
  // Of the tokens that end at this node, mostly one or none.
  std::span<const int32_t> ids(uint32_t node) const {
    return {ids_.data() + nodes_[node].first_token, ids_.data() + nodes_[node + 1].first_token};
  }
  // "" for an id that is no text.
  std::string_view bytes(int32_t id) const {
    return id >= 0 && static_cast<size_t>(id) < tokens_.size()
               ? std::string_view(tokens_[static_cast<size_t>(id)])
               : std::string_view();
  }
  bool is_end(int32_t id) const;
  std::span<const int32_t> end_ids() const { return end_ids_; }
  size_t vocabulary() const { return tokens_.size(); }
  size_t max_depth() const { return max_depth_; }

 private:
  std::vector<std::string> tokens_;
  std::vector<int32_t> end_ids_;  // by rising id
  std::vector<Node> nodes_;       // and one more
  std::vector<int32_t> ids_;      // in the order of nodes
  size_t max_depth_ = 0;
};

}  // namespace weft::grammar
