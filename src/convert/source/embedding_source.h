// A checkpoint tells of its embeddings in the files of sentence-transformers (modules.json and
// those that it names), or in a GGUF file's pooling type.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "convert/source/conversion.h"
#include "convert/source/source.h"
#include "package/embedding.h"

namespace weft::convert {

// Those of sentence-transformers that are there, "1_Pooling/config.json" and the like under their
// paths in the folder. Errors name the file.
Result<TextFiles> ReadEmbeddingFiles(const std::filesystem::path& folder);

struct FoundEmbedding {
  package::Embedding embedding;
  std::optional<uint32_t> token_limit;  // of an input, where the checkpoint has one
};

// nullopt: the model writes text. What is asked counts before what the files say. kUnsupported for
// what weft cannot compute, by its name.
Result<std::optional<FoundEmbedding>> FindEmbedding(const Source& source,
                                                    const EmbeddingOptions& asked);

}  // namespace weft::convert
