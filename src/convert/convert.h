// `weft convert`: a Hugging Face checkpoint folder or a GGUF file becomes a model package
// (package/manifest.h).
// Streams: peak memory is a few megabytes beside the graph, whatever the model's size. The package
// is written to "<package>.partial" and renamed when it is complete, so that what has the package's
// name is whole. After an interruption the same call goes on with what lies there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "tensor/dtype.h"

namespace weft::convert {

struct ConvertOptions {
  // Folder with config.json, *.safetensors and, to chat, tokenizer.json; or a GGUF file.
  std::filesystem::path source;
  std::filesystem::path package;  // folder to make
  // Dtype of the matrices; nullopt keeps each as the checkpoint has it, or in the nearest dtype
  // that is at least as wide. Norms and biases are f32 always. With q4 the embedding table and the
  // output head are q8: they are read by row or decide the token, and a q4 table costs more quality
  // than the bytes it saves.
  std::optional<DType> quantisation;
  // Of the rows that cross the network between layers: f16, bf16 for models whose rows overflow
  // f16, or f32. nullopt: f32 when `quantisation` is f32, else f16.
  std::optional<DType> boundary_dtype;
  // Positions to make the package for, at most the model's; nullopt: all of them, but for longrope,
  // whose shorter table is for its original context. Checkpoints and GGUF files only.
  std::optional<uint32_t> context_length;
  std::string name;                // of the model; empty: the source's name
  bool force = false;              // replace an existing package
  bool without_tokenizer = false;  // neither look at tokenizer.json nor warn when there is none
};

struct ConvertProgress {
  uint64_t done_bytes = 0;  // of the checkpoint's tensors
  uint64_t total_bytes = 0;
  uint64_t kept_bytes = 0;  // of those done: taken over from an interrupted run
};

struct ConvertReport {
  std::string name;
  std::string architecture;
  std::string quantisation;
  uint32_t transformer_layers = 0;
  uint64_t source_bytes = 0;   // of the checkpoint's tensors that are used
  uint64_t kept_bytes = 0;     // of them: taken over from an interrupted run
  uint64_t package_bytes = 0;  // of all blobs
  bool lowered = false;
  std::string why_not_lowered;
  std::vector<std::string> warnings;  // sentences
};

// Errors name the file, tensor, value and limit; kAlreadyExists when the package exists and `force`
// is false, kUnsupported for an architecture or feature that weft does not convert. After an error
// there is no package.
Result<ConvertReport> ConvertCheckpoint(
    const ConvertOptions& options, const std::function<void(const ConvertProgress&)>& progress);

}  // namespace weft::convert
