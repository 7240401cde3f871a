#include "api/embedding_response.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <charconv>

#include "base/bytes.h"

namespace weft::api {
namespace json = boost::json;

namespace {

// "[0.25,-1e-05]"; a tree of so many numbers would take 16 bytes for each.
void AppendNumbers(const std::vector<float>& vector, std::string& out) {
  char digits[32];
  out += '[';
  for (size_t i = 0; i < vector.size(); ++i) {
    if (i > 0) out += ',';
    const auto end = std::to_chars(digits, digits + sizeof(digits), vector[i]).ptr;
    out.append(digits, end);
  }
  out += ']';
}

std::string BytesOf(const std::vector<float>& vector) {
  std::vector<uint8_t> bytes(vector.size() * sizeof(float));
  for (size_t i = 0; i < vector.size(); ++i) StoreLe(&bytes[i * sizeof(float)], vector[i]);
  return Base64(bytes);
}

std::string Quoted(const std::string& text) {
  return json::serialize(json::value(text));
}

}  // namespace

std::string Base64(std::span<const uint8_t> bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - at);
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i) bits = bits << 8 | (i < count ? bytes[at + i] : 0u);
    for (size_t i = 0; i < 4; ++i) out += i <= count ? kDigits[bits >> (18 - 6 * i) & 63] : '=';
  }
  return out;
}

std::string EmbeddingsJson(const std::string& model, const Vectors& vectors, bool base64,
                           uint64_t prompt_tokens) {
  std::string out = R"({"object":"list","data":[)";
  for (size_t i = 0; i < vectors.size(); ++i) {
    out += i > 0 ? "," : "";
    out += R"({"object":"embedding","index":)" + std::to_string(i) + R"(,"embedding":)";
    if (base64)
      out += '"' + BytesOf(vectors[i]) + '"';
    else
      AppendNumbers(vectors[i], out);
    out += '}';
  }
  const std::string count = std::to_string(prompt_tokens);
  return out + R"(],"model":)" + Quoted(model) + R"(,"usage":{"prompt_tokens":)" + count +
         R"(,"total_tokens":)" + count + "}}";
}

std::string OllamaEmbedJson(const std::string& model, const Vectors& vectors,
                            uint64_t prompt_tokens, int64_t total_ns, int64_t load_ns) {
  std::string out = R"({"model":)" + Quoted(model) + R"(,"embeddings":[)";
  for (size_t i = 0; i < vectors.size(); ++i) {
    out += i > 0 ? "," : "";
    AppendNumbers(vectors[i], out);
  }
  return out + R"(],"total_duration":)" + std::to_string(total_ns) + R"(,"load_duration":)" +
         std::to_string(load_ns) + R"(,"prompt_eval_count":)" + std::to_string(prompt_tokens) + "}";
}

std::string OllamaEmbeddingsJson(const Vectors& vectors) {
  std::string out = R"({"embedding":)";
  AppendNumbers(vectors.empty() ? std::vector<float>() : vectors[0], out);
  return out + "}";
}

}  // namespace weft::api
