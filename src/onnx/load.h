// Reads ONNX model files. Everything in a file is hostile until checked. Sizes are compared with
// the file before anything is allocated. External data must lie in the model's own folder (openat2
// RESOLVE_BENEATH, no hard links from elsewhere; external_files.h). Names must be unique and the
// graph acyclic. Accepted although onnx.checker refuses them: nodes in any order (sorted here),
// SimplifiedLayerNormalization in the standard domain, initializers listed as inputs. Weights stay
// where they are: Tensor::data is a slice of the mapped file.
#pragma once

#include <filesystem>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "onnx/graph.h"

namespace weft::onnx {

struct LoadOptions {
  // Map external data files. False keeps Tensor::location and offset only (a package's graph-only
  // model.onnx, whose locations are blob digests).
  bool resolve_external = true;
  // Accept external data files that have more than one hard link.
  bool allow_hard_links = false;
  // When given: is told what changes when the model's file or its external data does.
  std::string* version = nullptr;
};

// Errors: kNotFound, kIo, kPermissionDenied (external path leaves the folder), kInvalidData (a
// sentence with file, tensor or node, value and limit), kUnsupported.
Result<Model> LoadModel(const std::filesystem::path& path, const LoadOptions& options = {});

// The same from bytes in memory; external data is never opened (as resolve_external = false).
// `label` names the source in errors.
Result<Model> LoadModelFromBytes(Slice bytes, std::string label = "model");

}  // namespace weft::onnx
