#include "api/sampling_fields.h"

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <charconv>
#include <cmath>

#include "api/request_fields.h"

namespace weft::api {
namespace json = boost::json;

namespace {

constexpr size_t kMostSaltBytes = 256;

}  // namespace

std::optional<ApiError> ReadLogitBias(const json::value* bias, sampling::Parameters* sampling) {
  if (bias == nullptr) return std::nullopt;
  const json::object* object = bias->if_object();
  if (object == nullptr || object->size() > sampling::kMaxBiases) {
    return RefuseField("logit_bias", "'logit_bias' is " + ShownValue(*bias) +
                                         "; expected an object of at most " +
                                         std::to_string(sampling::kMaxBiases) + " token ids.");
  }
  constexpr sampling::Range kRange = sampling::kBiasRange;
  for (const auto& [key, value] : *object) {
    int32_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    const double amount = value.is_number() ? value.to_number<double>() : std::nan("");
    // "05" would be the same token twice.
    if (error != std::errc() || end != key.data() + key.size() || key != std::to_string(id) ||
        id < 0 || !(amount >= kRange.lowest && amount <= kRange.highest)) {
      return RefuseField("logit_bias", "'logit_bias' maps '" + std::string(key) + "' to " +
                                           ShownValue(value) + "; expected a token id and " +
                                           TextOf(kRange) + ".");
    }
    sampling->logit_bias.push_back({id, static_cast<float>(amount)});
  }
  return std::nullopt;
}

void ReadSampling(FieldReader& fields, sampling::Parameters* sampling) {
  const auto read = [&fields](const char* name, sampling::Range range, float* out) {
    if (const auto x = fields.Number(name, range)) *out = static_cast<float>(*x);
  };
  read("temperature", sampling::kTemperatureRange, &sampling->temperature);
  read("top_p", sampling::kTopPRange, &sampling->top_p);
  read("min_p", sampling::kMinPRange, &sampling->min_p);
  read("presence_penalty", sampling::kPenaltyRange, &sampling->presence_penalty);
  read("frequency_penalty", sampling::kPenaltyRange, &sampling->frequency_penalty);
  read("repetition_penalty", sampling::kRepetitionPenaltyRange, &sampling->repetition_penalty);
  if (const auto x = fields.Integer("top_k", -1, sampling::kMaxTopK)) {
    sampling->top_k = *x < 0 ? 0 : static_cast<int32_t>(*x);
  }
  if (const auto x = fields.Integer("seed", INT64_MIN, INT64_MAX)) {
    sampling->seed = static_cast<uint64_t>(*x);
  }
}

bool ReadIncludeUsage(FieldReader& fields) {
  const json::value* options = fields.Find("stream_options");
  if (options == nullptr) return false;
  if (!options->is_object()) {
    fields.Fail("stream_options", *options, "an object");
    return false;
  }
  FieldReader inner(options->as_object());
  const bool include_usage = inner.Bool("include_usage", false);
  if (inner.error()) fields.Fail(*inner.error());
  for (const auto& [key, value] : options->as_object()) {
    // Obfuscation hides lengths from who listens on the way; TLS and the answer are the same.
    if (key == "include_usage" || key == "include_obfuscation") continue;
    if (value.is_null() || value == false) continue;
    fields.Fail("stream_options." + std::string(key), value,
                "include_usage alone; others are not supported");
  }
  return include_usage;
}

std::string ReadCacheKey(FieldReader& fields) {
  const json::value* key = fields.Find("prompt_cache_key");
  if (key == nullptr) return "";
  if (key->is_string()) return std::string(key->as_string());
  fields.Fail("prompt_cache_key", *key, "a string");
  return "";
}

std::string ReadCacheSalt(FieldReader& fields) {
  const json::value* salt = fields.Find("cache_salt");
  if (salt == nullptr) return "";
  if (salt->is_string() && !salt->as_string().empty() && salt->as_string().size() <= kMostSaltBytes)
    return std::string(salt->as_string());
  fields.Fail("cache_salt", *salt, "a string of 1 to " + std::to_string(kMostSaltBytes) + " bytes");
  return "";
}

}  // namespace weft::api
