#include "text/tokenizer/unigram.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "text/tokenizer/byte_level.h"
#include "text/utf8.h"

namespace weft {
namespace {

// How much worse than the worst token an unknown character is.
constexpr double kUnknownPenalty = 10;

Error NoToken(std::string_view character) {
  return Error(ErrorCode::kInvalidArgument,
               "The vocabulary has no token for the character \"" + std::string(character) +
                   "\" and no unknown token (model.unk_id) that could stand for it.");
}

}  // namespace

UnigramModel UnigramModel::Build(std::span<const Piece> pieces, Options options) {
  UnigramModel model;
  model.unknown_id_ = options.unknown_id;
  model.byte_fallback_ = options.byte_fallback;
  std::vector<bool> is_matched(pieces.size(), true);
  for (const int32_t id : options.unmatched) is_matched[static_cast<size_t>(id)] = false;
  std::vector<PrefixTrie::Entry> entries;
  entries.reserve(pieces.size());
  model.scores_.reserve(pieces.size());
  double lowest = std::numeric_limits<double>::infinity();
  for (size_t id = 0; id < pieces.size(); ++id) {
    model.scores_.push_back(pieces[id].score);
    lowest = std::min(lowest, pieces[id].score);
    if (is_matched[id]) entries.emplace_back(pieces[id].text, static_cast<int32_t>(id));
  }
  model.trie_ = PrefixTrie(std::move(entries));
  model.finds_runs_ = !options.unknown_score.has_value();
  model.unknown_score_ = options.unknown_score.value_or(lowest - kUnknownPenalty);
  for (size_t byte = 0; byte < 256; ++byte) {
    char fallback[8];
    std::snprintf(fallback, sizeof(fallback), "<0x%02X>", static_cast<unsigned>(byte));
    model.fallback_bytes_[byte] = model.trie_.Find(fallback);
  }
  return model;
}

void UnigramModel::SetControl(std::span<const int32_t> ids) {
  for (const int32_t id : ids) {
    const auto at = static_cast<size_t>(id);
    if (at >= control_.size()) control_.resize(at + 1);
    control_[at] = true;
  }
}

// The best paths of one piece, from the left. nodes[i] is the best path that ends i bytes behind
// `base_`:
//   nodes[end] = max over the tokens t that end there of nodes[begin of t] + score(t)
// Where no token spans a place, every path leads through it: the best one up to there is given out,
// and the nodes begin anew with its sum. With tokens a, b, ab, c the text "abc" has such places
// behind b and behind c.
class UnigramModel::Run {
 public:
  Run(const UnigramModel& model, std::string_view piece, bool allow_control, Scratch& scratch,
      std::vector<int32_t>& ids)
      : model_(model),
        piece_(piece),
        allow_control_(allow_control),
        nodes_(scratch.nodes),
        path_(scratch.path),
        ids_(ids) {}

  Status Encode() {
    nodes_.assign(1, {});
    for (size_t at = 0; at < piece_.size();) {
      if (at == base_ + nodes_.size() - 1) GiveOut(at);
      const size_t after = at + utf8::LengthOf(piece_[at]);
      if (!AddTokens(at, after)) TRY(AddUnknown(at, after));
      at = after;
    }
    GiveOut(piece_.size());
    GiveOutUnknown(piece_.size());
    return OkStatus();
  }

 private:
  // The tokens that begin at `at`; whether one of them is the character that ends at `after`.
  bool AddTokens(size_t at, size_t after) {
    const double score = nodes_[at - base_].score;
    bool is_spelt = false;
    uint32_t node = PrefixTrie::kRoot;
    for (size_t end = at; end < piece_.size() && model_.trie_.Step(node, piece_[end]);) {
      ++end;
      const int32_t id = model_.trie_.Value(node);
      if (id < 0 || (!allow_control_ && model_.IsControl(id))) continue;
      is_spelt = is_spelt || end == after;
      Scratch::Node& target = NodeAt(end);
      const double sum = model_.scores_[static_cast<size_t>(id)] + score;
      if (IsBetter(sum, target)) target = {sum, id, static_cast<uint32_t>(at)};
    }
    return is_spelt;
  }

  Status AddUnknown(size_t at, size_t after) {
    const double sum = model_.unknown_score_ + nodes_[at - base_].score;
    Scratch::Node& target = NodeAt(after);
    if (!IsBetter(sum, target)) return OkStatus();
    if (model_.unknown_id_ < 0) return NoToken(piece_.substr(at, after - at));
    target = {sum, model_.unknown_id_, static_cast<uint32_t>(at)};
    return OkStatus();
  }

  static bool IsBetter(double sum, const Scratch::Node& than) {
    return than.begin == Scratch::kUnreached || sum > than.score;
  }

  Scratch::Node& NodeAt(size_t end) {
    const size_t index = end - base_;
    if (index >= nodes_.size()) nodes_.resize(index + 1);
    return nodes_[index];
  }

  // The best path from `base_` to `at`, through which all others lead.
  void GiveOut(size_t at) {
    path_.clear();
    for (size_t end = at; end > base_;) {
      const Scratch::Node& node = nodes_[end - base_];
      path_.push_back({node.begin, static_cast<uint32_t>(end), node.id});
      end = node.begin;
    }
    for (size_t i = path_.size(); i-- > 0;) {
      const Scratch::Token& token = path_[i];
      if (token.id == model_.unknown_id_) {
        if (!has_unknown_) unknown_begin_ = token.begin;
        has_unknown_ = true;
        continue;
      }
      GiveOutUnknown(token.begin);
      ids_.push_back(token.id);
    }
    const double score = nodes_.back().score;
    nodes_.assign(1, {.score = score});
    base_ = at;
  }

  // Unknown characters beside each other are one unknown token.
  void GiveOutUnknown(size_t end) {
    if (!has_unknown_) return;
    has_unknown_ = false;
    model_.EncodeUnknown(piece_.substr(unknown_begin_, end - unknown_begin_), allow_control_, ids_);
  }

  const UnigramModel& model_;
  std::string_view piece_;
  bool allow_control_;
  std::vector<Scratch::Node>& nodes_;
  std::vector<Scratch::Token>& path_;
  std::vector<int32_t>& ids_;
  size_t base_ = 0;
  size_t unknown_begin_ = 0;
  bool has_unknown_ = false;
};

// A run of unknown characters that is a token after all (scores above twenty make two unknown
// characters likelier than it), else its bytes, else the unknown token.
void UnigramModel::EncodeUnknown(std::string_view text, bool allow_control,
                                 std::vector<int32_t>& ids) const {
  const int32_t whole = finds_runs_ ? trie_.Find(text) : -1;
  if (whole >= 0 && (allow_control || !IsControl(whole))) {
    ids.push_back(whole);
    return;
  }
  const auto fallback = [&](char c) { return fallback_bytes_[static_cast<uint8_t>(c)]; };
  if (byte_fallback_ &&
      std::all_of(text.begin(), text.end(), [&](char c) { return fallback(c) >= 0; })) {
    for (const char c : text) ids.push_back(fallback(c));
    return;
  }
  ids.push_back(unknown_id_);
}

Status UnigramModel::Encode(std::string_view piece, bool as_bytes, bool allow_control,
                            Scratch& scratch, std::vector<int32_t>& ids) const {
  if (as_bytes) {
    scratch.text.clear();
    AppendByteLevel(piece, scratch.text);
    piece = scratch.text;
  }
  return Run(*this, piece, allow_control, scratch, ids).Encode();
}

}  // namespace weft
