// weft.json: what a model package holds. The package is a folder:
//   weft.json                this manifest; its own SHA-256 is the package's digest
//   model.onnx               the graph, weights as external data named by blob digest
//   blobs/<sha256>           weights and programs, content-addressed, immutable
//   tokenizer.json, tokenizer_config.json, generation_config.json, config.json as they came
//
// Layer 0 is the embedding, 1..n are transformer layers, n + 1 is the output head.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/layer_range.h"
#include "base/result.h"
#include "package/digest.h"
#include "package/embedding.h"
#include "tensor/dtype.h"

namespace weft::package {

// A manifest with a newer format is refused with both numbers. Format 2 has packages that make
// embeddings, and weights in superblocks. (A weft from before takes rows of embeddings for logits.)
// All others still have the oldest format, for older readers.
inline constexpr uint32_t kPackageFormat = 2;
inline constexpr uint32_t kOldestPackageFormat = 1;
inline constexpr uint64_t kChunkBytes = 1 << 20;

// The length of a blob and the SHA-256 of each of its 1 MiB chunks (the last may be shorter). With
// them ranges and interrupted downloads are verified chunk by chunk.
struct BlobInfo {
  uint64_t byte_count = 0;
  std::vector<Sha256Digest> chunks;
};

struct LayerInfo {
  uint32_t index = 0;
  std::string kind;  // "embedding", "transformer" or "head"
  Digest program;    // blob with the encoded program (program/codec.h); zero if `lowered` is false
  std::vector<Digest> blobs;  // every weight blob that the layer's program or ONNX part reads
  // Bytes of the tensors that the layer reads. A tensor that two layers read counts in both.
  uint64_t weight_bytes = 0;
  // Bytes of weights read for one token: an embedding reads one row, a mixture its active experts.
  uint64_t read_bytes_per_token = 0;
  uint64_t kv_bytes_per_position = 0;  // keys and values in KvDType(); 0 without attention
  uint64_t state_bytes = 0;            // recurrent state of a session, whatever its length
  // The blob that predicts the norms of the layer's neuron groups (package/group_predictor.h), zero
  // without one. It is not among `blobs`: the layer runs without it.
  Digest predictor;
};

// Tells whether a package of this quantisation has weights that format 1 had not.
inline bool IsNewQuantisation(std::string_view quantisation) {
  return quantisation == "q4s" || quantisation == "mixed-k";
}

struct Manifest {
  std::string name;
  std::string architecture;            // "qwen3", "llama", ...
  std::string quantisation;            // "f32", "f16", "q8", "q4", "q4s"
  DType boundary_dtype = DType::kF16;  // of the residual stream on the wire: f16, bf16 or f32
  uint32_t hidden_columns = 0;
  uint32_t vocabulary = 0;
  uint32_t context_length = 0;  // positions the model was made for
  bool lowered = true;          // false: no programs, only onnxruntime-web workers can serve it
  bool has_onnx = true;  // false: the graph has operators of our own, which onnxruntime cannot run
  // Tells that the package makes embeddings and writes no text.
  std::optional<Embedding> embedding;
  std::vector<LayerInfo> layers;
  // Ranges of two layers or more that run on one device, since more than the residual stream goes
  // from layer to layer in them. The ranges ascend and lie apart from each other.
  std::vector<LayerRange> keep_together;
  std::map<Digest, BlobInfo> blobs;
  std::map<std::string, Digest> files;  // "model.onnx", "tokenizer.json", ...: SHA-256 of each

  // The format that it is written in, and what a worker has to know to compute it.
  uint32_t format() const {
    return embedding || IsNewQuantisation(quantisation) ? kPackageFormat : kOldestPackageFormat;
  }
  // Gives the columns of what the last layer gives: logits, or the rows that become an embedding.
  uint32_t head_columns() const { return embedding ? hidden_columns : vocabulary; }
};

// Tells whether `files` may hold the name: no separators, no leading dot, not weft.json itself.
bool IsPackageFileName(std::string_view name);

// Gives the form in which native workers keep keys and values. It is f32 where the weights are f32,
// so that such a package gives the logits of its reference; else it is f16.
inline DType KvDType(std::string_view quantisation) {
  return quantisation == "f32" ? DType::kF32 : DType::kF16;
}

// Gives the number of chunks of a blob of `byte_count` bytes.
uint64_t ChunkCount(uint64_t byte_count);
// Gives the length and chunk hashes of bytes in memory.
BlobInfo MakeBlobInfo(ByteSpan bytes);

// The keys of the JSON object are the names of the fields above; digests are hexadecimal, `program`
// is absent when `lowered` is false. Equal manifests give equal bytes.
std::string ToJson(const Manifest& manifest);
// Validates everything: ranges, layer order, digests that are not in `blobs`, chunk counts that do
// not fit lengths.
Result<Manifest> ParseManifest(ByteSpan json);

// Gives the bytes of the blobs that predict norms of neuron groups, 0 without `weft profile`.
uint64_t PredictorBytes(const Manifest& manifest);

// Weight blobs that a layer shares with an earlier one, as tied embeddings are shared.
struct SharedBlobs {
  int with = -1;            // the earlier layer; -1: none
  uint64_t byte_count = 0;  // at most the later layer's weight_bytes
};
// Gives them for every layer. A device that has both layers holds these bytes once.
std::vector<SharedBlobs> FindSharedBlobs(const Manifest& manifest);

// Gives the bytes of distinct blobs that the layers [first, end) need, programs included.
uint64_t DownloadBytes(const Manifest& manifest, uint32_t first, uint32_t end);

}  // namespace weft::package
