// What an ONNX folder says about its model beside the graph: Hugging Face's config.json or
// onnxruntime-genai's genai_config.json.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "convert/source/source.h"

namespace weft::convert {

struct OnnxConfig {
  std::string architecture;     // "qwen3", "llama", ...; "unknown" when the files do not tell
  uint32_t context_length = 0;  // positions
  uint32_t vocabulary = 0;      // 0 when the files do not tell
};

// Reads what there is in `folder` of the files that a package takes over. JSON is parsed already
// here. Without generation_config.json the ids that end an answer are those of genai_config.json.
// Errors name the file.
Result<TextFiles> ReadOnnxTexts(const std::filesystem::path& folder);

// Errors: kNotFound when `files` has neither config, kInvalidData for values out of range.
Result<OnnxConfig> ReadOnnxConfig(const TextFiles& files);

}  // namespace weft::convert
