// Tokenizer::FromJson: reads the sections of a tokenizer.json.
#include <string>

#include "text/tokenizer/data.h"
#include "text/tokenizer/json_fields.h"
#include "text/tokenizer/json_model.h"
#include "text/tokenizer/tokenizer.h"

namespace weft {
namespace {

constexpr size_t kMaxFileBytes = size_t{512} << 20;
constexpr size_t kMaxTemplateItems = 64;

// What a post-processor puts around one text.
class PostProcessor {
 public:
  explicit PostProcessor(TokenizerData& data) : data_(data) {}

  Status Add(const JsonFields& fields, const std::string& type) {
    if (type == "ByteLevel") return OkStatus();  // about offsets only
    if (type == "TemplateProcessing") return AddTemplate(fields);
    if (type == "BertProcessing" || type == "RobertaProcessing") {
      ASSIGN_OR_RETURN(const int32_t first, NamedToken(fields, "cls"));
      ASSIGN_OR_RETURN(const int32_t last, NamedToken(fields, "sep"));
      data_.prefix_ids.insert(data_.prefix_ids.begin(), first);
      data_.suffix_ids.push_back(last);
      return OkStatus();
    }
    return UnknownType(fields, type);
  }

 private:
  Result<int32_t> CheckedId(const boost::json::value& id, const std::string& where) {
    if (!id.is_int64() || id.get_int64() < 0 || id.get_int64() >= data_.vocabulary.id_limit()) {
      return Error(ErrorCode::kInvalidData, where + " must be an id of the vocabulary, 0 to " +
                                                std::to_string(data_.vocabulary.id_limit() - 1) +
                                                ".");
    }
    return static_cast<int32_t>(id.get_int64());
  }

  // ["</s>", 2]
  Result<int32_t> NamedToken(const JsonFields& fields, std::string_view key) {
    ASSIGN_OR_RETURN(const auto* pair, fields.Array(key));
    if (pair->size() != 2) return fields.Wrong(key, "a token and its id");
    return CheckedId((*pair)[1], fields.Place(key));
  }

  Status AddTemplate(const JsonFields& fields) {
    ASSIGN_OR_RETURN(const auto* items, fields.Array("single"));
    if (items->size() > kMaxTemplateItems) {
      return fields.Wrong("single", "an array of at most 64 items");
    }
    std::vector<int32_t> before;
    std::vector<int32_t> after;
    bool seen_text = false;
    for (size_t i = 0; i < items->size(); ++i) {
      const std::string where = fields.Place("single") + "[" + std::to_string(i) + "]";
      ASSIGN_OR_RETURN(const JsonFields item, JsonFields::Of((*items)[i], where));
      if (item.Find("Sequence") != nullptr) {
        if (seen_text) return fields.Wrong("single", "a template with the text in it once");
        seen_text = true;
        continue;
      }
      ASSIGN_OR_RETURN(const JsonFields special, item.Object("SpecialToken"));
      ASSIGN_OR_RETURN(const std::string name, special.String("id"));
      ASSIGN_OR_RETURN(const JsonFields table, fields.Object("special_tokens"));
      ASSIGN_OR_RETURN(const JsonFields entry, table.Object(name));
      ASSIGN_OR_RETURN(const auto* ids, entry.Array("ids"));
      for (const boost::json::value& value : *ids) {
        ASSIGN_OR_RETURN(const int32_t id, CheckedId(value, entry.Place("ids")));
        (seen_text ? after : before).push_back(id);
      }
    }
    if (!seen_text) return fields.Wrong("single", "a template with the text in it once");
    data_.prefix_ids.insert(data_.prefix_ids.begin(), before.begin(), before.end());
    data_.suffix_ids.insert(data_.suffix_ids.end(), after.begin(), after.end());
    return OkStatus();
  }

  TokenizerData& data_;
};

Status Fill(const JsonFields& root, TokenizerData& data) {
  TRY(AddModel(root, data));
  const auto section = [&](std::string_view key) -> const boost::json::value& {
    static const boost::json::value kNull;
    const boost::json::value* value = root.Find(key);
    return value == nullptr ? kNull : *value;
  };
  ASSIGN_OR_RETURN(data.normalizer,
                   Normalizer::FromJson(section("normalizer"), root.Place("normalizer")));
  ASSIGN_OR_RETURN(data.pre_tokenizer,
                   PreTokenizer::FromJson(section("pre_tokenizer"), root.Place("pre_tokenizer")));
  ASSIGN_OR_RETURN(data.decoder, DecoderChain::FromJson(section("decoder"), root.Place("decoder")));
  if (const boost::json::value* post = root.Find("post_processor")) {
    PostProcessor processor(data);
    TRY(ForEachStep(*post, root.Place("post_processor"), "processors",
                    [&](const JsonFields& step, const std::string& kind) {
                      return processor.Add(step, kind);
                    }));
  }
  return data.IndexAddedTokens();
}

}  // namespace

Result<Tokenizer> Tokenizer::FromJson(ByteSpan tokenizer_json) {
  if (tokenizer_json.size() > kMaxFileBytes) {
    return Error(ErrorCode::kInvalidData,
                 "tokenizer.json has " + std::to_string(tokenizer_json.size()) +
                     " bytes; the limit is " + std::to_string(kMaxFileBytes) + ".");
  }
  ASSIGN_OR_RETURN(const boost::json::value document, ParseJson(tokenizer_json, "tokenizer.json"));
  ASSIGN_OR_RETURN(const JsonFields root, JsonFields::Of(document, "tokenizer.json"));
  auto data = std::make_shared<TokenizerData>();
  TRY(Fill(root, *data));
  return Tokenizer(std::move(data));
}

}  // namespace weft
