#include "text/tokenizer/tokenizer.h"

#include <algorithm>

#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/data.h"
#include "text/utf8.h"

namespace weft {
namespace {

// One Encode call.
class Encoder {
 public:
  Encoder(const TokenizerData& data, bool parse_special, std::vector<int32_t>& ids)
      : data_(data), parse_special_(parse_special), ids_(ids) {}

  Status Run(std::string_view text, std::span<const TextRange> quoted) {
    bool first = true;
    quoted_ = quoted;
    whole_ = text;
    for (const auto& section : data_.raw_matcher.Split(text, parse_special_, quoted)) {
      if (section.token != nullptr) {
        ids_.push_back(section.token->id);
      } else {
        TRY(EncodeText(section.text, first));
      }
      first = false;
    }
    return OkStatus();
  }

 private:
  Status EncodeText(std::string_view text, bool starts_input) {
    ASSIGN_OR_RETURN(const std::string normalized, data_.normalizer.Apply(text));
    bool first = starts_input;
    const bool allow_control = parse_special_ && !HoldsQuoted(text);
    for (const auto& section : data_.normalized_matcher.Split(normalized, allow_control)) {
      if (section.token != nullptr) {
        ids_.push_back(section.token->id);
      } else {
        TRY(EncodeNormalized(section.text, first, allow_control));
      }
      first = false;
    }
    return OkStatus();
  }

  // Whether part of a section of the text is quoted. Tokens of normalised text have no place in
  // the raw one: where some of a section is quoted, it has no control tokens.
  bool HoldsQuoted(std::string_view section) const {
    const auto begin = static_cast<size_t>(section.data() - whole_.data());
    const auto range = std::ranges::partition_point(
        quoted_, [begin](const TextRange& before) { return before.end <= begin; });
    return range != quoted_.end() && range->begin < begin + section.size();
  }

  Status EncodeNormalized(std::string_view text, bool starts_input, bool allow_control) {
    tokens_.text = text;
    tokens_.starts_input = starts_input;
    tokens_.as_bytes = false;
    TRY(data_.pre_tokenizer.Apply(tokens_));
    ids_.reserve(ids_.size() + tokens_.pieces.size());
    if (const auto* unigram = std::get_if<UnigramModel>(&data_.model)) {
      for (const PreTokens::Piece piece : tokens_.pieces) {
        TRY(unigram->Encode(tokens_.View(piece), tokens_.as_bytes, allow_control, unigram_scratch_,
                            ids_));
      }
      return OkStatus();
    }
    const auto& bpe = std::get<BpeModel>(data_.model);
    for (const PreTokens::Piece piece : tokens_.pieces) {
      bpe.Encode(tokens_.View(piece), tokens_.as_bytes, bpe_scratch_, ids_);
    }
    return OkStatus();
  }

  const TokenizerData& data_;
  bool parse_special_;
  std::span<const TextRange> quoted_;
  std::string_view whole_;
  std::vector<int32_t>& ids_;
  PreTokens tokens_;
  BpeModel::Scratch bpe_scratch_;
  UnigramModel::Scratch unigram_scratch_;
};

}  // namespace

Status TokenizerData::IndexAddedTokens() {
  added_by_id.assign(static_cast<size_t>(vocabulary.id_limit()), nullptr);
  for (const AddedToken& token : added_tokens) {
    added_by_id[static_cast<size_t>(token.id)] = &token;
    if (token.content.empty()) continue;
    if (!token.normalized) {
      raw_matcher.Add(token.content, &token);
      continue;
    }
    ASSIGN_OR_RETURN(const std::string content, normalizer.Apply(token.content));
    if (!content.empty()) normalized_matcher.Add(content, &token);
  }
  return OkStatus();
}

Result<std::vector<int32_t>> Tokenizer::Encode(std::string_view text, bool add_special_tokens,
                                               bool parse_special) const {
  return EncodePieces(text, add_special_tokens, parse_special, {});
}

Result<std::vector<int32_t>> Tokenizer::Encode(const QuotedText& text) const {
  return EncodePieces(text.text, /*add_special_tokens=*/false, /*parse_special=*/true, text.quoted);
}

Result<std::vector<int32_t>> Tokenizer::EncodePieces(std::string_view text, bool add_special_tokens,
                                                     bool parse_special,
                                                     std::span<const TextRange> quoted) const {
  if (text.size() > kMaxTextBytes) {
    return Error(ErrorCode::kInvalidArgument, "A text of " + std::to_string(text.size()) +
                                                  " bytes is over the limit of " +
                                                  std::to_string(kMaxTextBytes) + " bytes.");
  }
  if (const size_t bad = utf8::FindInvalid(text); bad != std::string_view::npos) {
    return Error(ErrorCode::kInvalidArgument,
                 "The text is not valid UTF-8 at byte " + std::to_string(bad) + ".");
  }
  std::vector<int32_t> ids;
  if (add_special_tokens) ids = data_->prefix_ids;
  TRY(Encoder(*data_, parse_special, ids).Run(text, quoted));
  if (add_special_tokens) {
    ids.insert(ids.end(), data_->suffix_ids.begin(), data_->suffix_ids.end());
  }
  return ids;
}

std::string Tokenizer::Decode(std::span<const int32_t> ids, bool skip_special) const {
  Detokenizer detokenizer(*this, skip_special);
  std::string text;
  for (const int32_t id : ids) text += detokenizer.Push(id);
  return text + detokenizer.Flush();
}

std::string_view Tokenizer::TokenText(int32_t id) const {
  return data_->vocabulary.Text(id);
}

bool Tokenizer::IsControl(int32_t id) const {
  const AddedToken* const added = data_->AddedOf(id);
  return added != nullptr && added->is_control();
}

std::string Tokenizer::TokenBytes(int32_t id) const {
  const std::string_view text = TokenText(id);
  return data_->AddedOf(id) != nullptr ? std::string(text) : data_->decoder.TokenBytes(text);
}

std::optional<int32_t> Tokenizer::TokenId(std::string_view text) const {
  return data_->vocabulary.Find(text);
}

int32_t Tokenizer::vocab_count() const {
  return data_->vocabulary.id_limit();
}
std::span<const int32_t> Tokenizer::prefix_ids() const {
  return data_->prefix_ids;
}
std::span<const int32_t> Tokenizer::suffix_ids() const {
  return data_->suffix_ids;
}

Detokenizer::Detokenizer(Tokenizer tokenizer, bool skip_special, bool continues)
    : tokenizer_(std::move(tokenizer)),
      skip_special_(skip_special),
      out_(std::make_unique<std::string>()),
      stages_(tokenizer_.data_->decoder.MakeStages(out_.get(), continues)) {}

Detokenizer::~Detokenizer() = default;
Detokenizer::Detokenizer(Detokenizer&&) noexcept = default;
Detokenizer& Detokenizer::operator=(Detokenizer&&) noexcept = default;

std::string Detokenizer::Push(int32_t id) {
  const TokenizerData& data = *tokenizer_.data_;
  if (!data.vocabulary.Has(id)) return {};
  const AddedToken* added = data.AddedOf(id);
  if (skip_special_ && added != nullptr && added->special &&
      std::ranges::find(kept_, id) == kept_.end())
    return {};
  stages_.front()->Put({.text = data.vocabulary.Text(id), .is_added = added != nullptr});
  return std::exchange(*out_, {});
}

std::string Detokenizer::Flush() {
  stages_.front()->Flush();
  return std::exchange(*out_, {});
}

}  // namespace weft
