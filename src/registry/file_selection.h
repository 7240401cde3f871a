// Which files of a repository weft downloads, and how the package is made from them. Only names:
// no network, no disk.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weft::registry {

struct Selection {
  std::vector<std::string> files;  // to download, small ones first
  // Where the weights are: "" = in the folder itself (safetensors), else the GGUF file (the first
  // one of a split file) or the ONNX file in it.
  std::string model_file;
  // An index that must be read first: it names the files (FilesOfIndex), which are not in
  // `files`.
  std::string index_file;
  std::string quantisation = "keep";  // for the conversion: keep, f32, f16, q8 or q4
};

// `form` is what followed ':': f32, f16, q8, q4 choose our own conversion; another name chooses a
// GGUF file that has it in its name (Q4_K_M), or an ONNX model (onnx_selection.h); "" takes the
// only possibility. Safetensors come before GGUF before ONNX. Errors: kNotFound or kInvalidArgument
// with what there is. Pickles (.bin, .pt) are never chosen.
Result<Selection> SelectFiles(const std::vector<std::string>& names, const std::string& form,
                              const std::string& repository);

// The files that a model.safetensors.index.json names; each must be in `names`.
Result<std::vector<std::string>> FilesOfIndex(std::string_view index_json,
                                              const std::vector<std::string>& names);

}  // namespace weft::registry
