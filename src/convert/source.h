// What a conversion starts from: a model's configuration, texts and tensors, in the form of a
// Hugging Face checkpoint whatever the files on disk are.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "convert/source_folder.h"
#include "convert/source_tensor.h"

namespace weft::convert {

struct Source {
  std::string name;   // of the model, unless the user gives another
  TextFiles files;    // config.json, and what there is of tokenizer.json and the like
  TensorMap tensors;  // under the names of Hugging Face
  std::vector<std::string> warnings;  // sentences
};

// Opens the folder of a checkpoint (config.json, *.safetensors), a GGUF file, any part of a split
// one, or a folder that holds one. Errors name the file and what is wrong with it.
Result<Source> OpenSource(const std::filesystem::path& path);

}  // namespace weft::convert
