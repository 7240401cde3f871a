// The sections "model" and "added_tokens" of a tokenizer.json.
#include "text/tokenizer/json_model.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace weft {
namespace {

constexpr size_t kMaxAddedTokenBytes = 1024;

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

// As the library has it: an empty token is none, and of several with one text the first counts.
// Where such were left out, or two have one id, the ids of the file do not tell its places: the
// others are those of the model that they name, or follow behind it. Else a file's ids are kept.
std::vector<AddedToken> WithoutRepeats(std::vector<AddedToken> tokens,
                                       const boost::json::object& vocab) {
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
  auto next = static_cast<int64_t>(vocab.size());
  for (AddedToken& token : tokens) {
    const auto* own = vocab.if_contains(token.content);
    const int64_t id = own != nullptr && own->is_int64() ? own->get_int64() : next;
    if (id >= next) next = id + 1;
    token.id = static_cast<int32_t>(id);
  }
  return tokens;
}

// The model's tokens and the added tokens in one vocabulary. An added token may name again a token
// of the model.
Result<Vocabulary> VocabularyFromJson(const JsonFields& model, const JsonFields& root,
                                      std::vector<AddedToken>& added_tokens) {
  ASSIGN_OR_RETURN(const JsonFields vocab, model.Object("vocab"));
  std::vector<Vocabulary::Entry> entries;
  entries.reserve(vocab.object().size());
  std::map<int64_t, std::string_view> added_ids;
  if (root.Find("added_tokens") != nullptr) {
    ASSIGN_OR_RETURN(const auto* added, root.Array("added_tokens"));
    for (size_t i = 0; i < added->size(); ++i) {
      ASSIGN_OR_RETURN(
          const JsonFields fields,
          JsonFields::Of((*added)[i], root.Place("added_tokens") + "[" + std::to_string(i) + "]"));
      ASSIGN_OR_RETURN(AddedToken token, AddedTokenFromJson(fields));
      added_tokens.push_back(std::move(token));
    }
    added_tokens = WithoutRepeats(std::move(added_tokens), vocab.object());
  }
  for (const AddedToken& token : added_tokens) {
    added_ids[token.id] = token.content;
    entries.push_back({token.content, token.id});
  }
  for (const auto& [text, id] : vocab.object()) {
    if (!id.is_int64()) {
      return Error(ErrorCode::kInvalidData, vocab.where() + " gives the token \"" +
                                                std::string(text) + "\" an id that is no integer.");
    }
    const auto added = added_ids.find(id.get_int64());
    if (added == added_ids.end()) entries.push_back({std::string_view(text), id.get_int64()});
  }
  return std::move(Vocabulary::Build(entries)).Context("While reading " + vocab.where());
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

Result<BpeModel> ModelFromJson(const JsonFields& model, const Vocabulary& vocabulary) {
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

}  // namespace

Status AddModel(const JsonFields& root, TokenizerData& data) {
  ASSIGN_OR_RETURN(const JsonFields model, root.Object("model"));
  // Files of the oldest kind have no type; only BPE has merges.
  ASSIGN_OR_RETURN(const std::string type,
                   model.String("type", model.Find("merges") != nullptr ? "BPE" : "unknown"));
  if (type != "BPE") {
    return Error(ErrorCode::kUnsupported, model.Place("type") + " is \"" + type +
                                              "\"; weft supports BPE (byte-level, or "
                                              "SentencePiece-style with byte fallback).");
  }
  ASSIGN_OR_RETURN(data.vocabulary, VocabularyFromJson(model, root, data.added_tokens));
  ASSIGN_OR_RETURN(data.model, ModelFromJson(model, data.vocabulary));
  return OkStatus();
}

}  // namespace weft
