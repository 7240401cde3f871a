#include "server/key_json.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/spelling.h"

namespace weft::server {
namespace json = boost::json;

namespace {

const std::vector<std::string>& FieldNames() {
  static const std::vector<std::string> names = {
      "name", "role", "per_minute", "tokens_per_day", "at_once", "models", "expires"};
  return names;
}

api::ApiError Refused(std::string message, std::string field) {
  return {400, std::move(message), "invalid_request_error", std::move(field), "invalid_key"};
}

// Reads fields of an object, and remembers the first that is wrong.
class Fields {
 public:
  explicit Fields(const json::object& object) : object_(object) {}

  std::optional<std::string> Text(const char* name) {
    const json::value* value = Find(name);
    if (value == nullptr) return std::nullopt;
    if (value->is_string()) return std::string(value->as_string());
    Fail(name, "a string");
    return std::nullopt;
  }

  template <typename Number>
  std::optional<Number> Limit(const char* name, uint64_t most) {
    const json::value* value = Find(name);
    if (value == nullptr) return std::nullopt;
    const auto* number = value->if_int64();
    if (number != nullptr && *number >= 1 && static_cast<uint64_t>(*number) <= most)
      return static_cast<Number>(*number);
    Fail(name, "a whole number from 1 to " + std::to_string(most));
    return std::nullopt;
  }

  std::vector<std::string> Texts(const char* name) {
    std::vector<std::string> texts;
    const json::value* value = Find(name);
    if (value == nullptr) return texts;
    const json::array* array = value->if_array();
    if (array == nullptr) Fail(name, "an array of strings");
    for (size_t i = 0; array != nullptr && i < array->size(); ++i) {
      if (!(*array)[i].is_string()) {
        Fail(name, "an array of strings");
        break;
      }
      texts.emplace_back((*array)[i].as_string());
    }
    return texts;
  }

  void Fail(const char* name, const std::string& expected) {
    if (!error_) error_ = Refused(std::string("'") + name + "' must be " + expected + ".", name);
  }
  void Fail(const char* name, const Error& error) {
    if (!error_) error_ = Refused(error.message(), name);
  }
  const std::optional<api::ApiError>& error() const { return error_; }

 private:
  // nullptr: it is not there, or null.
  const json::value* Find(const char* name) const {
    const json::value* value = object_.if_contains(name);
    return value == nullptr || value->is_null() ? nullptr : value;
  }

  const json::object& object_;
  std::optional<api::ApiError> error_;
};

std::optional<api::ApiError> FindUnknownField(const json::object& object) {
  const auto& names = FieldNames();
  for (const auto& [name, value] : object) {
    const std::string text(std::string_view(name).substr(0, 64));
    if (std::find(names.begin(), names.end(), text) != names.end()) continue;
    return Refused("A key has no field '" + text + "'." + DidYouMean(text, names), text);
  }
  return std::nullopt;
}

json::value TimeOrNull(const std::optional<int64_t>& time_ms) {
  return time_ms ? json::value(store::TimeText(*time_ms)) : json::value(nullptr);
}

template <typename Number>
json::value NumberOrNull(const std::optional<Number>& number) {
  return number ? json::value(static_cast<int64_t>(*number)) : json::value(nullptr);
}

}  // namespace

api::ApiResult<store::NewKey> ParseNewKey(std::string_view body, int64_t now_ms) {
  boost::system::error_code failed;
  const json::value value = json::parse(json::string_view(body.data(), body.size()), failed);
  const json::object* object = failed ? nullptr : value.if_object();
  if (object == nullptr)
    return Refused("Expected a JSON object such as {\"name\": \"maths\", \"per_minute\": 60}.", "");
  if (auto unknown = FindUnknownField(*object)) return std::move(*unknown);
  Fields fields(*object);
  store::NewKey key;
  key.name = fields.Text("name").value_or("");
  if (const auto role = fields.Text("role")) {
    const auto parsed = store::ParseRole(*role);
    if (parsed.ok())
      key.role = parsed.value();
    else
      fields.Fail("role", parsed.error());
  }
  key.limits.per_minute = fields.Limit<uint32_t>("per_minute", store::kMostPerMinute);
  key.limits.tokens_per_day = fields.Limit<uint64_t>("tokens_per_day", store::kMostTokensPerDay);
  key.limits.at_once = fields.Limit<uint32_t>("at_once", store::kMostAtOnce);
  key.models = fields.Texts("models");
  if (const auto expires = fields.Text("expires")) {
    const auto parsed = store::ParseExpiry(*expires, now_ms);
    if (parsed.ok())
      key.expires_ms = parsed.value();
    else
      fields.Fail("expires", parsed.error());
  }
  if (fields.error()) return *fields.error();
  const Status checked = store::CheckNewKey(key, now_ms);
  if (!checked.ok()) return Refused(checked.error().message(), "");
  return key;
}

json::object KeyJson(const store::Key& key, const store::Usage& today, int64_t now_ms) {
  json::array models;
  for (const std::string& model : key.models) models.emplace_back(model);
  const char* state = key.ended_ms ? "ended" : key.IsExpired(now_ms) ? "expired" : "active";
  return {{"id", key.id},
          {"name", key.name},
          {"role", std::string(store::RoleName(key.role))},
          {"state", state},
          {"models", std::move(models)},
          {"per_minute", NumberOrNull(key.limits.per_minute)},
          {"tokens_per_day", NumberOrNull(key.limits.tokens_per_day)},
          {"at_once", NumberOrNull(key.limits.at_once)},
          {"created", store::TimeText(key.created_ms)},
          {"expires", TimeOrNull(key.expires_ms)},
          {"ended", TimeOrNull(key.ended_ms)},
          {"today", json::object{{"requests", today.requests},
                                 {"prompt_tokens", today.prompt_tokens},
                                 {"cached_prompt_tokens", today.cached_tokens},
                                 {"completion_tokens", today.generated_tokens},
                                 {"counted_tokens", today.counted_tokens()}}}};
}

}  // namespace weft::server
