// POST /v1/embeddings, OpenAI's, and Ollama's /api/embed and /api/embeddings: the body, parsed and
// validated. docs/api.md and docs/ollama.md show every field.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/request_fields.h"
#include "base/bytes.h"

namespace weft::api {

// What becomes one vector: a text, or its tokens.
using EmbeddingInput = std::variant<std::string, std::vector<int32_t>>;

struct EmbeddingRequest {
  std::string model;
  std::vector<EmbeddingInput> inputs;      // Ollama's may be none
  bool base64 = false;                     // vectors as the bytes of f32, little-endian
  std::optional<uint32_t> dimensions;      // the first columns alone
  std::optional<std::string> prompt_name;  // which of the model's prompts stands in front; "": none
  bool truncates = false;                  // what is too long is cut, not refused
};

// As OpenAI has it.
inline constexpr size_t kMostEmbeddingInputs = 2048;

FieldTable EmbeddingFields();
FieldTable OllamaEmbedFields();
FieldTable OllamaEmbeddingsFields();

ApiResult<EmbeddingRequest> ParseEmbeddingRequest(ByteSpan body);
ApiResult<EmbeddingRequest> ParseOllamaEmbed(ByteSpan body);
// The older form: one prompt.
ApiResult<EmbeddingRequest> ParseOllamaEmbeddings(ByteSpan body);

}  // namespace weft::api
