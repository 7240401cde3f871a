// The sections "model" and "added_tokens" of a tokenizer.json.
#include "text/tokenizer/json_model.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <unordered_map>

namespace weft {
namespace {

constexpr size_t kMaxAddedTokenBytes = 1024;
// Of Unigram vocabularies; real ones have up to 300,000 tokens of at most 48 bytes.
constexpr size_t kMaxPieces = 1 << 24;
constexpr size_t kMaxPieceBytes = 1024;
constexpr size_t kMaxAllPieceBytes = size_t{64} << 20;

Result<AddedToken> AddedTokenFromJson(const JsonFields& fields) {
  AddedToken token;
  ASSIGN_OR_RETURN(token.content, fields.String("content"));
  if (token.content.size() > kMaxAddedTokenBytes) {
    return Error(ErrorCode::kInvalidData, fields.Place("content") + " has " +
                                              std::to_string(token.content.size()) +
                                              " bytes, but an added token must have at most " +
                                              std::to_string(kMaxAddedTokenBytes) + ".");
  }
  ASSIGN_OR_RETURN(const int64_t id, fields.Integer("id", -1, 0, INT32_MAX - 1));
  if (id < 0) return fields.Wrong("id", "an integer");
  token.id = static_cast<int32_t>(id);
  ASSIGN_OR_RETURN(token.special, fields.Bool("special", false));
  ASSIGN_OR_RETURN(token.normalized, fields.Bool("normalized", !token.special));
  ASSIGN_OR_RETURN(token.left_strip, fields.Bool("lstrip", false));
  ASSIGN_OR_RETURN(token.right_strip, fields.Bool("rstrip", false));
  ASSIGN_OR_RETURN(token.single_word, fields.Bool("single_word", false));
  return token;
}

// What the model itself has; the texts lie in the document.
struct ModelTokens {
  std::string where;
  std::vector<Vocabulary::Entry> entries;
  std::function<std::optional<int64_t>(std::string_view)> id_of;
};

// As the library has it: an empty token is none, and of several with one text the first counts.
// Where such were left out, or two have one id, the ids of the file do not tell its places: the
// others are those of the model that they name, or follow behind it. Else a file's ids are kept.
std::vector<AddedToken> WithoutRepeats(std::vector<AddedToken> tokens, const ModelTokens& model) {
  std::set<std::string> texts;
  std::set<int32_t> ids;
  const size_t count = tokens.size();
  bool are_distinct = true;
  std::erase_if(tokens, [&](const AddedToken& token) {
    return token.content.empty() || !texts.insert(token.content).second;
  });
  for (const AddedToken& token : tokens) {
    are_distinct = ids.insert(token.id).second && are_distinct;
  }
  if (tokens.size() == count && are_distinct) return tokens;
  auto next = static_cast<int64_t>(model.entries.size());
  for (AddedToken& token : tokens) {
    const int64_t id = model.id_of(token.content).value_or(next);
    if (id >= next) next = id + 1;
    token.id = static_cast<int32_t>(id);
  }
  return tokens;
}

// The model's tokens and the added tokens in one vocabulary. An added token may name again a token
// of the model.
Result<Vocabulary> VocabularyFromJson(const JsonFields& root, const ModelTokens& model,
                                      std::vector<AddedToken>& added_tokens) {
  std::vector<Vocabulary::Entry> entries;
  entries.reserve(model.entries.size());
  std::set<int64_t> added_ids;
  if (root.Find("added_tokens") != nullptr) {
    ASSIGN_OR_RETURN(const auto* added, root.Array("added_tokens"));
    for (size_t i = 0; i < added->size(); ++i) {
      ASSIGN_OR_RETURN(
          const JsonFields fields,
          JsonFields::Of((*added)[i], root.Place("added_tokens") + "[" + std::to_string(i) + "]"));
      ASSIGN_OR_RETURN(AddedToken token, AddedTokenFromJson(fields));
      added_tokens.push_back(std::move(token));
    }
    added_tokens = WithoutRepeats(std::move(added_tokens), model);
  }
  for (const AddedToken& token : added_tokens) {
    added_ids.insert(token.id);
    entries.push_back({token.content, token.id});
  }
  for (const Vocabulary::Entry& entry : model.entries) {
    if (!added_ids.contains(entry.id)) entries.push_back(entry);
  }
  return std::move(Vocabulary::Build(entries)).Context("While reading " + model.where);
}

// "left right" or ["left", "right"].
using MergeTexts = std::pair<std::string_view, std::string_view>;
std::optional<MergeTexts> MergeTextsOf(const boost::json::value& value) {
  if (value.is_string()) {
    const std::string_view text = value.get_string();
    const size_t space = text.find(' ');
    if (space == std::string_view::npos || space == 0 || space + 1 == text.size()) return {};
    return MergeTexts(text.substr(0, space), text.substr(space + 1));
  }
  if (!value.is_array() || value.get_array().size() != 2) return {};
  const boost::json::array& pair = value.get_array();
  if (!pair[0].is_string() || !pair[1].is_string()) return {};
  return MergeTexts(pair[0].get_string(), pair[1].get_string());
}

Result<std::vector<BpeMerge>> MergesFromJson(const JsonFields& model,
                                             const Vocabulary& vocabulary) {
  ASSIGN_OR_RETURN(const auto* values, model.Array("merges"));
  std::vector<BpeMerge> merges;
  merges.reserve(values->size());
  std::string merged_text;
  for (size_t i = 0; i < values->size(); ++i) {
    const auto where = [&] { return model.Place("merges") + "[" + std::to_string(i) + "]"; };
    const auto texts = MergeTextsOf((*values)[i]);
    if (!texts) {
      return Error(ErrorCode::kInvalidData,
                   where() + " must be two tokens, \"left right\" or [left, right].");
    }
    const auto& [left_text, right_text] = *texts;
    merged_text.assign(left_text).append(right_text);
    const auto left = vocabulary.Find(left_text);
    const auto right = vocabulary.Find(right_text);
    const auto merged = vocabulary.Find(merged_text);
    if (!left || !right || !merged) {
      const std::string_view missing =
          !left ? left_text : (!right ? right_text : std::string_view(merged_text));
      return Error(ErrorCode::kInvalidData, where() + " needs the token \"" + std::string(missing) +
                                                "\", which is not in the vocabulary.");
    }
    merges.push_back({*left, *right, *merged, static_cast<uint32_t>(i)});
  }
  return merges;
}

Result<BpeModel> BpeFromJson(const JsonFields& model, const Vocabulary& vocabulary) {
  BpeModel::Options options;
  ASSIGN_OR_RETURN(options.byte_fallback, model.Bool("byte_fallback", false));
  ASSIGN_OR_RETURN(options.fuse_unknown, model.Bool("fuse_unk", false));
  ASSIGN_OR_RETURN(options.ignore_merges, model.Bool("ignore_merges", false));
  for (const std::string_view affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    ASSIGN_OR_RETURN(const std::string text, model.String(affix, ""));
    if (!text.empty()) {
      return Error(ErrorCode::kUnsupported, model.Place(affix) + " is \"" + text +
                                                "\"; weft supports none but the empty one.");
    }
  }
  if (model.Find("unk_token") != nullptr) {
    ASSIGN_OR_RETURN(const std::string unknown, model.String("unk_token"));
    const auto id = vocabulary.Find(unknown);
    if (!id) {
      return Error(ErrorCode::kInvalidData, model.Place("unk_token") + " is \"" + unknown +
                                                "\", which is not in the vocabulary.");
    }
    options.unknown_id = *id;
  }
  ASSIGN_OR_RETURN(const std::vector<BpeMerge> merges, MergesFromJson(model, vocabulary));
  return BpeModel::Build(vocabulary, merges, options);
}

// {"token": id}
Result<ModelTokens> TokensByText(const JsonFields& model) {
  ASSIGN_OR_RETURN(const JsonFields vocab, model.Object("vocab"));
  ModelTokens tokens{.where = vocab.where(), .entries = {}, .id_of = {}};
  tokens.entries.reserve(vocab.object().size());
  for (const auto& [text, id] : vocab.object()) {
    if (!id.is_int64()) {
      return Error(ErrorCode::kInvalidData, vocab.where() + " gives the token \"" +
                                                std::string(text) + "\" an id that is no integer.");
    }
    tokens.entries.push_back({std::string_view(text), id.get_int64()});
  }
  tokens.id_of = [object = &vocab.object()](std::string_view text) -> std::optional<int64_t> {
    const boost::json::value* id = object->if_contains(text);
    if (id == nullptr || !id->is_int64()) return std::nullopt;
    return id->get_int64();
  };
  return tokens;
}

Status AddBpe(const JsonFields& root, const JsonFields& model, TokenizerData& data) {
  ASSIGN_OR_RETURN(const ModelTokens tokens, TokensByText(model));
  ASSIGN_OR_RETURN(data.vocabulary, VocabularyFromJson(root, tokens, data.added_tokens));
  ASSIGN_OR_RETURN(data.model, BpeFromJson(model, data.vocabulary));
  return OkStatus();
}

// [["token", score], ...], ids by place.
Result<std::vector<UnigramModel::Piece>> PiecesFromJson(const JsonFields& model) {
  ASSIGN_OR_RETURN(const auto* vocab, model.Array("vocab"));
  const auto wrong = [&](size_t i, const std::string& what) {
    return Error(ErrorCode::kInvalidData,
                 model.Place("vocab") + "[" + std::to_string(i) + "] " + what);
  };
  if (vocab->size() > kMaxPieces) {
    return wrong(kMaxPieces, "is one more token than weft takes.");
  }
  std::vector<UnigramModel::Piece> pieces;
  pieces.reserve(vocab->size());
  size_t byte_count = 0;
  for (size_t i = 0; i < vocab->size(); ++i) {
    const boost::json::value& value = (*vocab)[i];
    const boost::json::array* pair = value.if_array();
    if (pair == nullptr || pair->size() != 2 || !(*pair)[0].is_string() ||
        !(*pair)[1].is_number()) {
      return wrong(i, "must be a token and its score, [\"token\", -1.5].");
    }
    const std::string_view text = (*pair)[0].get_string();
    const auto score = (*pair)[1].to_number<double>();
    if (!std::isfinite(score)) return wrong(i, "has a score that is not finite.");
    byte_count += text.size();
    if (text.size() > kMaxPieceBytes || byte_count > kMaxAllPieceBytes) {
      return wrong(i, "has " + std::to_string(text.size()) + " bytes; the limits are " +
                          std::to_string(kMaxPieceBytes) + " for a token and " +
                          std::to_string(kMaxAllPieceBytes) + " for all.");
    }
    pieces.push_back({text, score});
  }
  return pieces;
}

Result<UnigramModel::Options> UnigramOptions(const JsonFields& model, size_t piece_count) {
  UnigramModel::Options options;
  ASSIGN_OR_RETURN(options.byte_fallback, model.Bool("byte_fallback", false));
  const auto last = static_cast<int64_t>(piece_count) - 1;
  ASSIGN_OR_RETURN(const int64_t unknown, model.Integer("unk_id", -1, 0, last));
  options.unknown_id = static_cast<int32_t>(unknown);
  // Of GGUF files (vocabulary_spec.cc); the library has no such fields.
  if (const boost::json::value* score = model.Find("unknown_score")) {
    if (!score->is_number()) return model.Wrong("unknown_score", "a number");
    options.unknown_score = score->to_number<double>();
  }
  if (model.Find("unmatched") != nullptr) {
    ASSIGN_OR_RETURN(const auto* ids, model.Array("unmatched"));
    for (const boost::json::value& id : *ids) {
      if (!id.is_int64() || id.get_int64() < 0 || id.get_int64() > last) {
        return model.Wrong("unmatched", "a list of the vocabulary's ids");
      }
      options.unmatched.push_back(static_cast<int32_t>(id.get_int64()));
    }
  }
  return options;
}

Status AddUnigram(const JsonFields& root, const JsonFields& model, TokenizerData& data) {
  ASSIGN_OR_RETURN(const std::vector<UnigramModel::Piece> pieces, PiecesFromJson(model));
  ModelTokens tokens{.where = model.Place("vocab"), .entries = {}, .id_of = {}};
  std::unordered_map<std::string_view, int64_t> ids;
  for (const UnigramModel::Piece& piece : pieces) {
    const auto id = static_cast<int64_t>(tokens.entries.size());
    tokens.entries.push_back({piece.text, id});
    ids[piece.text] = id;  // the last one counts
  }
  tokens.id_of = [&ids](std::string_view text) -> std::optional<int64_t> {
    const auto found = ids.find(text);
    if (found == ids.end()) return std::nullopt;
    return found->second;
  };
  ASSIGN_OR_RETURN(data.vocabulary, VocabularyFromJson(root, tokens, data.added_tokens));
  ASSIGN_OR_RETURN(UnigramModel::Options options, UnigramOptions(model, pieces.size()));
  UnigramModel unigram = UnigramModel::Build(pieces, std::move(options));
  std::vector<int32_t> control;
  for (const AddedToken& token : data.added_tokens) {
    if (token.is_control()) control.push_back(token.id);
  }
  unigram.SetControl(control);
  data.model = std::move(unigram);
  return OkStatus();
}

}  // namespace

Status AddModel(const JsonFields& root, TokenizerData& data) {
  ASSIGN_OR_RETURN(const JsonFields model, root.Object("model"));
  // Files of the oldest kind have no type; only BPE has merges, and only Unigram a list of tokens.
  const boost::json::value* vocab = model.Find("vocab");
  const bool is_list = vocab != nullptr && vocab->is_array();
  ASSIGN_OR_RETURN(
      const std::string type,
      model.String("type",
                   model.Find("merges") != nullptr ? "BPE" : (is_list ? "Unigram" : "unknown")));
  if (type == "BPE") return AddBpe(root, model, data);
  if (type == "Unigram") return AddUnigram(root, model, data);
  return Error(ErrorCode::kUnsupported, model.Place("type") + " is \"" + type +
                                            "\"; weft supports BPE (byte-level, or "
                                            "SentencePiece-style with byte fallback) and Unigram.");
}

}  // namespace weft
