#include "api/text_request.h"

#include <algorithm>
#include <utility>

#include "api/field_reader.h"
#include "api/sampling_fields.h"

namespace weft::api {
namespace json = boost::json;

namespace {

constexpr uint32_t kDefaultTokens = 16;
constexpr int64_t kMostLogprobs = 20;

constexpr RequestField kOwnFields[] = {
    {"model", "OVSLT", Handling::kDone, "", ""},
    {"prompt", "OVSLT", Handling::kDone, "", ""},
    {"max_tokens", "OVSLT", Handling::kDone, "", ""},
    {"frequency_penalty", "OVSLT", Handling::kDone, "", ""},
    {"presence_penalty", "OVSLT", Handling::kDone, "", ""},
    {"logit_bias", "OVSL", Handling::kDone, "", ""},
    {"logprobs", "OVSL", Handling::kDone, "", ""},
    {"seed", "OVSLT", Handling::kDone, "", ""},
    {"stop", "OVSLT", Handling::kDone, "", ""},
    {"stream", "OVSLT", Handling::kDone, "", ""},
    {"stream_options", "OVSLT", Handling::kDone, "", ""},
    {"temperature", "OVSLT", Handling::kDone, "", ""},
    {"top_p", "OVSLT", Handling::kDone, "", ""},
    {"top_k", "VSL", Handling::kDone, "", ""},
    {"min_p", "VSL", Handling::kDone, "", ""},
    {"repetition_penalty", "VS", Handling::kDone, "", ""},
    {"ignore_eos", "VSL", Handling::kDone, "", ""},
    {"cache_salt", "VS", Handling::kDone, "", ""},
    {"response_format", "VS", Handling::kDone, "", ""},
    {"structured_outputs", "V", Handling::kDone, "", ""},
    {"grammar", "L", Handling::kDone, "", ""},
    {"n", "OVSLT", Handling::kDone, "1", "send it again with another seed"},
    {"best_of", "OV", Handling::kDone, "1", "send it again with another seed"},
    {"echo", "OVS", Handling::kRefused, "false", "the prompt is not repeated"},
    {"suffix", "OVST", Handling::kRefused, "\"\"",
     "write the model's own marks for what stands behind a gap into 'prompt'"},
    {"add_special_tokens", "V", Handling::kRefused, "true", "the tokenizer says which there are"},
};

// What chats have and texts have not is refused; what they refuse or ignore is so here.
std::vector<RequestField> MergeFields() {
  std::vector<RequestField> fields(TextFields().begin(), TextFields().end());
  for (RequestField field : RequestFields()) {
    const auto is_own = [&](const RequestField& own) { return own.name == field.name; };
    if (std::ranges::any_of(TextFields(), is_own)) continue;
    if (field.handling == Handling::kDone) {
      field.handling = Handling::kRefused;
      field.neutral = "";
      field.why = "it is a field of chats: POST /v1/chat/completions";
    }
    fields.push_back(field);
  }
  return fields;
}

bool IsTokenId(const json::value& value) {
  return value.is_int64() && value.get_int64() >= 0 && value.get_int64() <= INT32_MAX;
}

// A text, a list of token ids, or a list of one of either.
void ReadPrompt(FieldReader& fields, TextPrompt* prompt) {
  const json::value* value = fields.Find("prompt");
  if (value == nullptr)
    return fields.Fail(RefuseField("prompt", "'prompt' is missing; expected a text."));
  if (value->is_array() && value->as_array().size() > 1 && !IsTokenId(value->as_array()[0])) {
    return fields.Fail(RefuseField(
        "prompt", "'prompt' has " + std::to_string(value->as_array().size()) +
                      " entries; weft takes one text, or the ids of one. Send one request for "
                      "each: they are computed together."));
  }
  if (value->is_array() && value->as_array().size() == 1 && !IsTokenId(value->as_array()[0]))
    value = value->as_array().data();
  if (value->is_string() && !value->as_string().empty()) {
    *prompt = std::string(value->as_string());
    return;
  }
  if (!value->is_array() || value->as_array().empty() ||
      !std::ranges::all_of(value->as_array(), IsTokenId))
    return fields.Fail("prompt", *value, "a text, or a list of token ids, that is not empty");
  std::vector<int32_t> ids;
  for (const json::value& id : value->as_array())
    ids.push_back(static_cast<int32_t>(id.get_int64()));
  *prompt = std::move(ids);
}

}  // namespace

std::span<const RequestField> TextFields() {
  return kOwnFields;
}

FieldTable AllTextFields() {
  static const std::vector<RequestField> fields = MergeFields();
  return {fields, "docs/api.md"};
}

ApiResult<TextRequest> ParseTextRequest(ByteSpan body, const sampling::Parameters& defaults) {
  auto parsed = ParseBody(AsText(body));
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  const json::object& object = std::get<json::object>(parsed);
  if (auto error = RefuseFields(object, AllTextFields())) return *error;
  FieldReader fields(object);
  TextRequest request;
  ChatRequest& chat = request.chat;
  chat.splits_thinking = false;  // all of it is text
  chat.sampling = defaults;
  chat.model = fields.Model();
  ReadPrompt(fields, &request.prompt);
  chat.stop = fields.Stop("stop");
  if (auto error = ReadLogitBias(fields.Find("logit_bias"), &chat.sampling)) return *error;
  ReadSampling(fields, &chat.sampling);
  const auto count = fields.Integer("max_tokens", 1, kMostTokens);
  chat.max_tokens = static_cast<uint32_t>(count.value_or(kDefaultTokens));
  chat.stream = fields.Bool("stream", false);
  chat.include_usage = ReadIncludeUsage(fields);
  chat.ignore_eos = fields.Bool("ignore_eos", false);
  chat.cache_salt = ReadCacheSalt(fields);
  if (const auto top = fields.Integer("logprobs", 0, kMostLogprobs)) {
    chat.logprobs = true;
    chat.top_logprobs = static_cast<uint32_t>(*top);
  }
  if (fields.error()) return *fields.error();
  auto form = ReadRequestedForm(object);
  if (auto* error = std::get_if<ApiError>(&form)) return std::move(*error);
  chat.form = std::get<std::optional<AnswerForm>>(std::move(form));
  return request;
}

}  // namespace weft::api
