// `weft onnx-split DIR OUT`: cuts an ONNX decoder at its layers and writes the parts, for tools
// that run them with another engine (tools/onnx_check) and for people who want to look at them.
//   OUT/split.json            layers, boundaries, states and the list of parts
//   OUT/part_<first>_<end>.onnx   layers [first, end)
//   OUT/<sha-256>             the weights, shared by all parts
#pragma once

#include <filesystem>

#include "base/result.h"

namespace weft {

struct OnnxSplitOptions {
  std::filesystem::path model;  // a folder with one .onnx file, or the file
  std::filesystem::path out;    // created; files in it are replaced
  bool pairs = false;  // also the ranges between any two cuts, not only each layer and both sides
                       // of each cut
};

Status OnnxSplit(const OnnxSplitOptions& options);

}  // namespace weft
