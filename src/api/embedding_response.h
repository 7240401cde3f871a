// What the APIs of embeddings answer. Numbers are the shortest that give the same f32 again.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace weft::api {

using Vectors = std::vector<std::vector<float>>;  // finite

// OpenAI's list; with `base64` each vector is the base64 of its f32, little-endian.
std::string EmbeddingsJson(const std::string& model, const Vectors& vectors, bool base64,
                           uint64_t prompt_tokens);
// POST /api/embed. Times in nanoseconds.
std::string OllamaEmbedJson(const std::string& model, const Vectors& vectors,
                            uint64_t prompt_tokens, int64_t total_ns, int64_t load_ns);
// POST /api/embeddings: of one prompt, or of none.
std::string OllamaEmbeddingsJson(const Vectors& vectors);

// With "=" at the end, as RFC 4648 has it.
std::string Base64(std::span<const uint8_t> bytes);

}  // namespace weft::api
