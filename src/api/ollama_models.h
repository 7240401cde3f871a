// What Ollama's API tells of models: those that are served.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace weft::api {

struct OllamaModel {
  std::string name;
  std::string digest;        // of the package, hexadecimal
  std::string architecture;  // "qwen3"
  std::string quantisation;  // "q4"
  std::string chat_template;
  std::vector<std::string> capabilities;  // ModelText::Capabilities
  int64_t changed_s = 0;                  // Unix time
  uint64_t byte_count = 0;
  uint32_t context_length = 0;
  uint32_t layer_count = 0;  // transformer layers
  uint32_t hidden_columns = 0;
};

// GET /api/tags
std::string OllamaTagsJson(std::span<const OllamaModel> models);
// POST /api/show
std::string OllamaShowJson(const OllamaModel& model);
// What devices hold of a model.
struct OllamaHeld {
  const OllamaModel* model = nullptr;
  uint64_t held_bytes = 0;            // weights in their memory
  uint64_t gpu_bytes = 0;             // of those: in that of graphics processors
  std::optional<int64_t> ends_at_us;  // Unix time, when it goes; nullopt: not by itself
};
// GET /api/ps. A model of which nothing is held is left out.
std::string OllamaPsJson(std::span<const OllamaHeld> models);

}  // namespace weft::api
