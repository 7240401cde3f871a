// Reads safetensors files: an 8-byte little-endian header length, a JSON header {name: {dtype,
// shape, data_offsets}}, then the tensors' bytes without gaps. Nothing is copied: a tensor's bytes
// are a slice of the mapped file. https://github.com/huggingface/safetensors (the format's own
// rules: no duplicate keys, no holes, no overlaps).
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "tensor/dtype.h"

namespace weft::convert {

struct SourceTensor {
  std::string file;            // name of the file, for messages
  std::string version;         // changes when the file does: its length and time of change
  std::string dtype_name;      // "F32", "BF16", "F8_E4M3", ...
  std::optional<DType> dtype;  // nullopt: a type that weft has no tensors of
  std::vector<uint64_t> shape;
  Slice bytes;
};

using TensorMap = std::map<std::string, SourceTensor, std::less<>>;

// The header and tensors of one file, given as bytes. `file` names it in errors. kInvalidData names
// file, tensor, value and limit.
Result<TensorMap> ParseSafetensors(const Slice& bytes, const std::string& file);

// model.safetensors of a checkpoint folder, or the shards that model.safetensors.index.json names.
// kNotFound when there is neither.
Result<TensorMap> OpenSafetensors(const std::filesystem::path& folder);

// "[2, 3]"
std::string ShapeText(const std::vector<uint64_t>& shape);

}  // namespace weft::convert
