// What a conversion starts from: a model's configuration, texts and tensors, in the form of a
// Hugging Face checkpoint whatever the files on disk are.
#pragma once

#include <string>
#include <vector>

#include "convert/source/source_folder.h"
#include "convert/source/source_tensor.h"

namespace weft::convert {

struct Source {
  std::string name;           // of the model, unless the user gives another
  TextFiles files;            // config.json, and what there is of tokenizer.json and the like
  TensorMap tensors;          // under the names of Hugging Face
  TextFiles embedding_files;  // of sentence-transformers (embedding_source.h)
  std::vector<std::string> warnings;  // sentences
};

}  // namespace weft::convert
