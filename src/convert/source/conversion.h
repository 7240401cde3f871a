// What is asked of a conversion, how far it is, and what came of it. Only types, for checkpoints
// and ONNX folders.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "package/embedding.h"
#include "tensor/dtype.h"

namespace weft::convert {

// Whether the package is to make embeddings, where the checkpoint does not say or says otherwise.
struct EmbeddingOptions {
  std::optional<package::Pooling> pooling;
  bool matryoshka = false;  // the first columns of a vector are an embedding, too
  bool none = false;        // it writes text, whatever the checkpoint says
};

struct ConvertOptions {
  // Folder with config.json, *.safetensors and, to chat, tokenizer.json; or a GGUF file.
  std::filesystem::path source;
  std::filesystem::path package;  // folder to make
  // Dtype of the matrices; nullopt keeps each as the checkpoint has it, or in the nearest dtype
  // that is at least as wide. Norms and biases are f32 always. With q4 the embedding table and the
  // output head are q8. They are read by row or decide the token, and a q4 table costs more quality
  // than the bytes it saves.
  std::optional<DType> quantisation;
  // Where that is nullopt: matrices in Q4_K, Q5_K and Q6_K stay what they are, which onnxruntime
  // does not compute; else they become q8.
  bool keeps_k_quants = false;
  // Of the rows that cross the network between layers: f16, bf16 for models whose rows overflow
  // f16, or f32. nullopt: f32 when `quantisation` is f32, else f16.
  std::optional<DType> boundary_dtype;
  // Positions to make the package for, at most the model's; nullopt: all of them, but for longrope,
  // whose shorter table is for its original context. Checkpoints and GGUF files only.
  std::optional<uint32_t> context_length;
  std::string name;    // of the model; empty: the source's name
  bool force = false;  // replace an existing package
  EmbeddingOptions embedding;
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
  std::string pooling;         // of a package that makes embeddings; "": it writes text
  bool lowered = false;
  std::string why_not_lowered;
  std::vector<std::string> warnings;  // sentences
};

}  // namespace weft::convert
