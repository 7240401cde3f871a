#include "api/embedding_request.h"

#include <algorithm>
#include <utility>

#include "api/field_reader.h"
#include "api/ollama_request.h"

namespace weft::api {
namespace json = boost::json;

namespace {

constexpr int64_t kMostDimensions = 1 << 20;

constexpr RequestField kFields[] = {
    {"model", "OVSL", Handling::kDone, "", ""},
    {"input", "OVSL", Handling::kDone, "", ""},
    {"encoding_format", "OVSL", Handling::kDone, "\"float\", \"base64\"", ""},
    {"dimensions", "OVS", Handling::kDone, "", ""},
    {"prompt_name", "W", Handling::kDone, "", ""},
    {"user", "OVS", Handling::kIgnored, "", "who asks is told by the key and the address"},
    {"truncate_prompt_tokens", "V", Handling::kRefused, "", "an input is taken whole or refused"},
    {"add_special_tokens", "V", Handling::kRefused, "true", "the tokenizer says which there are"},
};

constexpr RequestField kEmbed[] = {
    {"model", "M", Handling::kDone, "", ""},
    {"input", "M", Handling::kDone, "", ""},
    {"truncate", "M", Handling::kDone, "", ""},
    {"dimensions", "M", Handling::kDone, "", ""},
    {"options", "M", Handling::kDone, "", ""},
    {"keep_alive", "M", Handling::kIgnored, "", "the model stays where it is"},
};

constexpr RequestField kEmbeddings[] = {
    {"model", "M", Handling::kDone, "", ""},
    {"prompt", "M", Handling::kDone, "", ""},
    {"options", "M", Handling::kDone, "", ""},
    {"keep_alive", "M", Handling::kIgnored, "", "the model stays where it is"},
};

bool IsTokenId(const json::value& value) {
  return value.is_int64() && value.get_int64() >= 0 && value.get_int64() <= INT32_MAX;
}

bool IsListOf(const json::value& value, bool (*is_one)(const json::value&)) {
  return value.is_array() && !value.get_array().empty() &&
         std::ranges::all_of(value.get_array(), is_one);
}

std::vector<int32_t> IdsOf(const json::value& list) {
  std::vector<int32_t> ids;
  for (const json::value& id : list.get_array())
    ids.push_back(static_cast<int32_t>(id.get_int64()));
  return ids;
}

// A text, a list of texts, the ids of one, or a list of such lists. Of OpenAI's forms none may be
// empty.
void ReadInput(FieldReader& fields, std::vector<EmbeddingInput>* inputs) {
  const std::string expected =
      "a text, a list of texts, a list of token ids or a list of such lists, none of them empty";
  const json::value* value = fields.Find("input");
  if (value == nullptr) return fields.FailMissing("input", expected);
  const auto take = [&](const json::value& one) {
    if (one.is_string() && !one.get_string().empty())
      inputs->emplace_back(std::string(one.get_string()));
    else if (IsListOf(one, IsTokenId))
      inputs->emplace_back(IdsOf(one));
    else
      fields.Fail("input", one, expected);
  };
  const bool is_one = value->is_string() || IsListOf(*value, IsTokenId);
  if (is_one) return take(*value);
  if (!value->is_array() || value->get_array().empty())
    return fields.Fail("input", *value, expected);
  if (value->get_array().size() > kMostEmbeddingInputs)
    return fields.Fail(RefuseField(
        "input", "'input' has " + std::to_string(value->get_array().size()) +
                     " entries; expected at most " + std::to_string(kMostEmbeddingInputs) + "."));
  for (const json::value& one : value->get_array()) take(one);
}

// Ollama's: a text or a list of texts; nothing to compute is no error.
void ReadOllamaInput(FieldReader& fields, const char* name, std::vector<EmbeddingInput>* inputs) {
  const json::value* value = fields.Find(name);
  if (value == nullptr || *value == "") return;
  const auto is_text = [](const json::value& one) { return one.is_string(); };
  if (value->is_string()) {
    inputs->emplace_back(std::string(value->get_string()));
  } else if (value->is_array() && std::ranges::all_of(value->get_array(), is_text)) {
    for (const json::value& one : value->get_array())
      inputs->emplace_back(std::string(one.get_string()));
  } else {
    return fields.Fail(name, *value, "a text or a list of texts");
  }
  if (inputs->size() > kMostEmbeddingInputs)
    fields.Fail(RefuseField(
        name, "'" + std::string(name) + "' has " + std::to_string(inputs->size()) +
                  " entries; expected at most " + std::to_string(kMostEmbeddingInputs) + "."));
}

void ReadDimensions(FieldReader& fields, EmbeddingRequest* request) {
  if (const auto columns = fields.Integer("dimensions", 1, kMostDimensions))
    request->dimensions = static_cast<uint32_t>(*columns);
}

// They say how tokens are chosen, and none are here.
void CheckOptions(FieldReader& fields) {
  const json::value* given = fields.Find("options");
  if (given == nullptr) return;
  if (!given->is_object()) return fields.Fail("options", *given, "an object");
  if (const auto error = RefuseFields(given->as_object(), OllamaOptions())) fields.Fail(*error);
}

ApiResult<EmbeddingRequest> ParseOllama(ByteSpan body, const FieldTable& table, const char* input) {
  auto parsed = ParseBody(AsText(body));
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  const json::object& object = std::get<json::object>(parsed);
  if (auto error = RefuseFields(object, table)) return *error;
  FieldReader fields(object);
  EmbeddingRequest request;
  request.model = fields.Model();
  ReadOllamaInput(fields, input, &request.inputs);
  request.truncates = fields.Bool("truncate", true);
  ReadDimensions(fields, &request);
  CheckOptions(fields);
  if (fields.error()) return *fields.error();
  return request;
}

}  // namespace

FieldTable EmbeddingFields() {
  return {kFields, "docs/api.md"};
}

FieldTable OllamaEmbedFields() {
  return {kEmbed, "docs/ollama.md"};
}

FieldTable OllamaEmbeddingsFields() {
  return {kEmbeddings, "docs/ollama.md"};
}

ApiResult<EmbeddingRequest> ParseEmbeddingRequest(ByteSpan body) {
  auto parsed = ParseBody(AsText(body));
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  const json::object& object = std::get<json::object>(parsed);
  if (auto error = RefuseFields(object, EmbeddingFields())) return *error;
  FieldReader fields(object);
  EmbeddingRequest request;
  request.model = fields.Model();
  ReadInput(fields, &request.inputs);
  ReadDimensions(fields, &request);
  if (const json::value* format = fields.Find("encoding_format"))
    request.base64 = *format == "base64";
  if (const json::value* name = fields.Find("prompt_name")) {
    if (name->is_string())
      request.prompt_name = std::string(name->get_string());
    else
      fields.Fail("prompt_name", *name, "the name of one of the model's prompts, or \"\"");
  }
  if (fields.error()) return *fields.error();
  return request;
}

ApiResult<EmbeddingRequest> ParseOllamaEmbed(ByteSpan body) {
  return ParseOllama(body, OllamaEmbedFields(), "input");
}

ApiResult<EmbeddingRequest> ParseOllamaEmbeddings(ByteSpan body) {
  return ParseOllama(body, OllamaEmbeddingsFields(), "prompt");
}

}  // namespace weft::api
