// Reads safetensors files: an 8-byte little-endian header length, a JSON header {name: {dtype,
// shape, data_offsets}}, then the tensors' bytes without gaps. Nothing is copied: a tensor's bytes
// are a slice of the mapped file. https://github.com/huggingface/safetensors (the format's own
// rules: no duplicate keys, no holes, no overlaps).
#pragma once

#include <filesystem>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "convert/source/source_tensor.h"

namespace weft::convert {

// The header and tensors of one file, given as bytes. `file` names it in errors. kInvalidData names
// file, tensor, value and limit.
Result<TensorMap> ParseSafetensors(const Slice& bytes, const std::string& file);

// model.safetensors of a checkpoint folder, or the files that model.safetensors.index.json names.
// kNotFound when there is neither.
Result<TensorMap> OpenSafetensors(const std::filesystem::path& folder);

}  // namespace weft::convert
