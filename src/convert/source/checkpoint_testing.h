// For tests: tiny checkpoints written byte by byte.
#pragma once

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/file_testing.h"
#include "base/random.h"
#include "convert/source/safetensors.h"
#include "tensor/blocks.h"

namespace weft::convert::testing {

inline void Write(const std::filesystem::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
}

inline std::string Read(const std::filesystem::path& path) {
  auto text = ReadTextFile(path);
  EXPECT_TRUE(text.ok()) << path;
  return text.ok() ? *text : "";
}

// A safetensors file from a header text and data.
inline std::string Safetensors(std::string_view header, std::string_view data) {
  std::string file(8, '\0');
  const uint64_t length = header.size();
  std::memcpy(file.data(), &length, 8);
  return file.append(header).append(data);
}

struct FloatTensor {
  std::vector<uint64_t> shape;
  std::vector<float> values;
};
using FloatTensors = std::map<std::string, FloatTensor>;

inline std::string Safetensors(const FloatTensors& tensors, DType dtype = DType::kF32) {
  boost::json::object header;
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const size_t begin = data.size();
    data.resize(begin + tensor.values.size() * static_cast<size_t>(ElementBytes(dtype)));
    FromF32(tensor.values, dtype, reinterpret_cast<uint8_t*>(data.data() + begin));
    const char* type = dtype == DType::kF32 ? "F32" : dtype == DType::kF16 ? "F16" : "BF16";
    header[name] = {{"dtype", type},
                    {"shape", boost::json::value_from(tensor.shape)},
                    {"data_offsets", {begin, data.size()}}};
  }
  return Safetensors(boost::json::serialize(header), data);
}

inline FloatTensor RandomTensor(SeededRandom* random, std::vector<uint64_t> shape) {
  uint64_t count = 1;
  for (const uint64_t dimension : shape) count *= dimension;
  FloatTensor tensor{std::move(shape), std::vector<float>(count)};
  for (float& value : tensor.values) value = static_cast<float>(random->Uniform() - 0.5);
  return tensor;
}

// A Qwen3 of two layers: hidden 64, 4 heads of 16 with 2 kv heads, mlp 96, vocabulary 400, tied
// embeddings.
inline FloatTensors TinyQwen3() {
  SeededRandom random(7);
  FloatTensors tensors;
  const auto add = [&](const std::string& name, std::vector<uint64_t> shape) {
    tensors[name] = RandomTensor(&random, std::move(shape));
  };
  add("model.embed_tokens.weight", {400, 64});
  add("model.norm.weight", {64});
  for (const std::string prefix : {"model.layers.0.", "model.layers.1."}) {
    add(prefix + "input_layernorm.weight", {64});
    add(prefix + "self_attn.q_proj.weight", {64, 64});
    add(prefix + "self_attn.k_proj.weight", {32, 64});
    add(prefix + "self_attn.v_proj.weight", {32, 64});
    add(prefix + "self_attn.q_norm.weight", {16});
    add(prefix + "self_attn.k_norm.weight", {16});
    add(prefix + "self_attn.o_proj.weight", {64, 64});
    add(prefix + "post_attention_layernorm.weight", {64});
    add(prefix + "mlp.gate_proj.weight", {96, 64});
    add(prefix + "mlp.up_proj.weight", {96, 64});
    add(prefix + "mlp.down_proj.weight", {64, 96});
  }
  return tensors;
}

inline boost::json::object TinyQwen3Config() {
  return {{"architectures", {"Qwen3ForCausalLM"}},
          {"model_type", "qwen3"},
          {"hidden_size", 64},
          {"intermediate_size", 96},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"head_dim", 16},
          {"vocab_size", 400},
          {"max_position_embeddings", 256},
          {"rms_norm_eps", 1e-6},
          {"rope_theta", 10000},
          {"tie_word_embeddings", true},
          {"hidden_act", "silu"}};
}

// The smallest tokenizer.json that is one.
inline constexpr char kTokenizer[] =
    R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}})";

// Writes a complete checkpoint folder.
inline void WriteCheckpoint(const std::filesystem::path& folder, const FloatTensors& tensors,
                            const boost::json::object& config, DType dtype = DType::kF32) {
  std::filesystem::create_directories(folder);
  Write(folder / "config.json", boost::json::serialize(config));
  Write(folder / "tokenizer.json", kTokenizer);
  Write(folder / "model.safetensors", Safetensors(tensors, dtype));
}

}  // namespace weft::convert::testing
