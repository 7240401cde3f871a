#include "grammar/token_masks.h"

#include <bit>

namespace weft::grammar {
namespace {

// What is kept, at most; a vocabulary of 150,000 tokens takes 19 KB for each state.
constexpr size_t kMostKeptBytes = 8 << 20;

// Goes through nodes [first, end) of the trie, each from where its parent's byte has led;
// `begin` is where the parents of the first ones are. `see` is told of every node that the grammar
// goes on to, and where the text is then.
template <typename See>
void Walk(const TokenTrie& trie, uint32_t first, uint32_t end, size_t depth, const Items& begin,
          Stepper& stepper, std::vector<Items>& path, const See& see) {
  const auto nodes = trie.nodes();
  if (path.size() <= trie.max_depth()) path.resize(trie.max_depth() + 1);
  for (uint32_t at = first; at < end;) {
    const TokenTrie::Node& node = nodes[at];
    const Items& from = node.depth == depth + 1 ? begin : path[node.depth - 1u];
    Items& to = path[node.depth];
    stepper.Step(from, node.byte, to);
    if (to.is_dead()) {
      at = node.subtree_end;
      continue;
    }
    see(at, to);
    ++at;
  }
}

}  // namespace

size_t TokenMask::Count() const {
  size_t count = 0;
  for (const uint64_t word : words_) count += static_cast<size_t>(std::popcount(word));
  return count;
}

std::vector<int32_t> TokenMask::Ids() const {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < words_.size(); ++i)
    for (uint64_t word = words_[i]; word != 0; word &= word - 1)
      ids.push_back(static_cast<int32_t>(i * 64 + static_cast<size_t>(std::countr_zero(word))));
  return ids;
}

TokenMasks::TokenMasks(std::shared_ptr<const Automaton> automaton,
                       std::shared_ptr<const TokenTrie> trie)
    : automaton_(std::move(automaton)), trie_(std::move(trie)) {}

bool TokenMasks::Allows(const Matcher& matcher, int32_t id) const {
  if (trie_->is_end(id)) return matcher.CanEnd();
  const std::string_view bytes = trie_->bytes(id);
  return !bytes.empty() && matcher.Accepts(bytes);
}

void TokenMasks::AddEnds(const Matcher& matcher, TokenMask& out) const {
  if (!matcher.CanEnd()) return;
  for (const int32_t id : trie_->end_ids())
    if (id >= 0 && static_cast<size_t>(id) < trie_->vocabulary()) out.Set(id);
}

TokenMask TokenMasks::Mask(const Matcher& matcher) {
  TokenMask out(trie_->vocabulary());
  for (const Item& item : matcher.places().items) {
    const StateMask& mask = MaskOf(item.state, matcher.stepper());
    out.Add(mask.allowed);
    AddBehind(mask, *item.frame.get(), matcher.stepper(), out);
  }
  AddEnds(matcher, out);
  return out;
}

const TokenMasks::StateMask& TokenMasks::MaskOf(uint32_t state, Stepper& stepper) {
  if (const auto kept = kept_.find(state); kept != kept_.end()) return *kept->second;
  auto made = std::make_unique<StateMask>(StateMask{TokenMask(trie_->vocabulary()), {}});
  Items begin;
  FrameRef unknown = FrameRef::Make();
  unknown->kind = Frame::Kind::kUnknown;
  begin.items.push_back({state, std::move(unknown)});
  std::vector<Items> path;
  Walk(*trie_, 0, static_cast<uint32_t>(trie_->nodes().size()), 0, begin, stepper, path,
       [&](uint32_t node, const Items& at) {
         for (const int32_t id : trie_->ids(node)) made->allowed.Set(id);
         // Of those that go on behind this one, some may be allowed by what the rule is in.
         if (at.leaves_unknown && trie_->nodes()[node].subtree_end > node + 1)
           made->leaving.push_back(node);
       });
  const size_t bytes = trie_->vocabulary() / 8 + made->leaving.size() * sizeof(uint32_t);
  if (kept_bytes_ + bytes > kMostKeptBytes) {
    kept_.clear();
    kept_bytes_ = 0;
  }
  kept_bytes_ += bytes;
  return *(kept_[state] = std::move(made));
}

// A token that ends behind the call is allowed by then: whatever calls a rule can go on behind it.
void TokenMasks::AddBehind(const StateMask& mask, const Frame& frame, Stepper& stepper,
                           TokenMask& out) const {
  if (frame.kind != Frame::Kind::kCall || mask.leaving.empty()) return;
  Items behind;
  stepper.Return(frame, behind);
  if (behind.items.empty()) return;
  std::vector<Items> path;
  const auto nodes = trie_->nodes();
  for (const uint32_t node : mask.leaving) {
    Walk(*trie_, node + 1, nodes[node].subtree_end, nodes[node].depth, behind, stepper, path,
         [&](uint32_t at, const Items&) {
           for (const int32_t id : trie_->ids(at)) out.Set(id);
         });
  }
}

}  // namespace weft::grammar
