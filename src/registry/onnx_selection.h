// Which ONNX model of a repository weft takes. Repositories of exported models hold several forms
// of one graph: onnx/model.onnx, onnx/model_fp16.onnx, onnx/model_q4.onnx, ... Each has its weights
// in files beside it (model_q4.onnx_data), or each form has a folder.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace weft::registry {

struct OnnxModel {
  std::string file;                // "onnx/model_q4.onnx"
  std::string form;                // "q4"; "f32" for model.onnx; or the folder's name
  std::vector<std::string> files;  // the file and its weights
  std::string text_folder;         // where its configuration is: "" or a folder that ends in '/'
};

// The models among `names`, in their order. Graphs that are no whole decoder (encoders, embeddings,
// decoders for the first token alone) are left out.
std::vector<OnnxModel> OnnxModels(const std::vector<std::string>& names);

// The one with that form; without a form the best one that weft reads: 16 bits, else 32, else 4.
// kNotFound and kInvalidArgument list what there is. REQUIRES: `models` is not empty.
Result<OnnxModel> ChooseOnnxModel(const std::vector<OnnxModel>& models, const std::string& form,
                                  const std::string& repository);

}  // namespace weft::registry
