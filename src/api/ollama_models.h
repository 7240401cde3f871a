// What Ollama's API tells of models: the one that is served.
#pragma once

#include <cstdint>
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
std::string OllamaTagsJson(const OllamaModel& model);
// POST /api/show
std::string OllamaShowJson(const OllamaModel& model);
// GET /api/ps. `held_bytes`: of weights in the memory of devices, those of graphics processors
// among them; nothing is held: no model is there.
std::string OllamaPsJson(const OllamaModel& model, uint64_t held_bytes, uint64_t gpu_bytes);

}  // namespace weft::api
