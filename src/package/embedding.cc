#include "package/embedding.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

namespace weft::package {
namespace json = boost::json;

namespace {

Error Wrong(const std::string& key, const json::value& value, const std::string& expected) {
  return Error(ErrorCode::kInvalidData,
               "The package manifest is not valid: '" + key + "' of 'embedding' is " +
                   json::serialize(value).substr(0, 80) + "; expected " + expected + ".");
}

Status ReadBool(const json::object& fields, const char* key, bool* out) {
  const json::value* value = fields.if_contains(key);
  if (value == nullptr) return OkStatus();
  if (!value->is_bool()) return Wrong(key, *value, "true or false");
  *out = value->get_bool();
  return OkStatus();
}

Status ReadDimensions(const json::object& fields, uint32_t hidden_columns,
                      std::vector<uint32_t>* out) {
  const json::value* value = fields.if_contains("dimensions");
  if (value == nullptr) return OkStatus();
  const Error wrong =
      Wrong("dimensions", *value, "rising whole numbers up to " + std::to_string(hidden_columns));
  if (!value->is_array()) return wrong;
  for (const json::value& entry : value->get_array()) {
    json::error_code failure;
    if (!entry.is_number()) return wrong;
    const auto columns = entry.to_number<uint32_t>(failure);
    if (failure || columns <= (out->empty() ? 0 : out->back()) || columns > hidden_columns)
      return wrong;
    out->push_back(columns);
  }
  return OkStatus();
}

Status ReadPrompts(const json::object& fields, std::map<std::string, std::string>* out) {
  const json::value* value = fields.if_contains("prompts");
  if (value == nullptr) return OkStatus();
  const Error wrong = Wrong("prompts", *value,
                            "at most " + std::to_string(kMaxPrompts) + " texts by names of 1 to " +
                                std::to_string(kMaxPromptNameBytes) + " bytes");
  if (!value->is_object() || value->get_object().size() > kMaxPrompts) return wrong;
  for (const auto& entry : value->get_object()) {
    const std::string name(entry.key());
    if (name.empty() || name.size() > kMaxPromptNameBytes || !entry.value().is_string() ||
        entry.value().get_string().size() > kMaxPromptBytes)
      return wrong;
    out->emplace(name, std::string(entry.value().get_string()));
  }
  return OkStatus();
}

}  // namespace

std::string_view PoolingName(Pooling pooling) {
  return pooling == Pooling::kMean ? "mean" : "last";
}

std::optional<Pooling> PoolingFromName(std::string_view name) {
  for (const Pooling pooling : {Pooling::kMean, Pooling::kLast})
    if (PoolingName(pooling) == name) return pooling;
  return std::nullopt;
}

json::object ToJson(const Embedding& embedding) {
  json::object out{{"pooling", json::string(PoolingName(embedding.pooling))},
                   {"normalize", embedding.normalize}};
  if (embedding.matryoshka) out["matryoshka"] = true;
  if (!embedding.dimensions.empty())
    out["dimensions"] = json::array(embedding.dimensions.begin(), embedding.dimensions.end());
  if (!embedding.prompts.empty()) {
    json::object prompts;
    for (const auto& [name, text] : embedding.prompts) prompts[name] = text;
    out["prompts"] = std::move(prompts);
  }
  if (!embedding.default_prompt.empty()) out["default_prompt"] = embedding.default_prompt;
  return out;
}

Result<Embedding> ParseEmbedding(const json::value& value, uint32_t hidden_columns) {
  if (!value.is_object())
    return Error(ErrorCode::kInvalidData,
                 "The package manifest is not valid: 'embedding' is not an object.");
  const json::object& fields = value.get_object();
  Embedding embedding;
  const json::value* pooling = fields.if_contains("pooling");
  const auto named = pooling != nullptr && pooling->is_string()
                         ? PoolingFromName(std::string_view(pooling->get_string()))
                         : std::nullopt;
  if (!named) return Wrong("pooling", pooling ? *pooling : json::value(), "\"mean\" or \"last\"");
  embedding.pooling = *named;
  TRY(ReadBool(fields, "normalize", &embedding.normalize));
  TRY(ReadBool(fields, "matryoshka", &embedding.matryoshka));
  TRY(ReadDimensions(fields, hidden_columns, &embedding.dimensions));
  TRY(ReadPrompts(fields, &embedding.prompts));
  const json::value* unasked = fields.if_contains("default_prompt");
  if (unasked == nullptr) return embedding;
  if (unasked->is_string()) embedding.default_prompt = std::string(unasked->get_string());
  if (!embedding.prompts.contains(embedding.default_prompt))
    return Wrong("default_prompt", *unasked, "the name of one of 'prompts'");
  return embedding;
}

}  // namespace weft::package
