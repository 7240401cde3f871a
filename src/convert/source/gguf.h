// Reads GGUF files, versions 2 and 3: a header with typed metadata and the tensors' names, shapes
// and places, then the tensors' bytes, each aligned. A model may be split into several files
// ("x-00001-of-00003.gguf"). Nothing is copied: values and tensors are views of the mapped files.
// What the metadata means for a model is gguf_config.h's business.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "convert/source/gguf_metadata.h"
#include "convert/source/source_tensor.h"

namespace weft::convert {

struct GgufModel {
  std::string file;  // name of the (first) file, for messages
  GgufMetadata metadata;
  TensorMap tensors;  // by GGUF's names, shapes outermost dimension first
  // What the metadata views; the tensors hold their own files.
  Slice bytes;
};

// One file, given as bytes; `file` names it in errors. kInvalidData names file, key or tensor,
// value and limit; kUnsupported names the version. A tensor of a type that weft does not convert
// has no format and no bytes.
Result<GgufModel> ParseGguf(const Slice& bytes, const std::string& file);

// A file, or all files of a split model, of which `path` may be any.
Result<GgufModel> OpenGguf(const std::filesystem::path& path);

// "Q8_0, Q4_0, ...": the types that are converted.
std::string SupportedGgufTypes();

// The name of a model's file without ".gguf" and the number of the part.
std::string GgufStem(const std::filesystem::path& path);

}  // namespace weft::convert
