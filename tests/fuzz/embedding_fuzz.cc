// What a checkpoint says of its embeddings (modules.json and what it names, config.json): never a
// crash, and what is taken is what a package can say.
#include <cstdlib>

#include "convert/source/embedding_source.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t byte_count) {
  const std::string text(weft::AsText({data, byte_count}));
  weft::convert::Source source;
  source.files["config.json"] = byte_count % 2 == 0 ? text : "{}";
  source.embedding_files["modules.json"] =
      byte_count % 3 == 0
          ? text
          : R"([{"type": "x.Transformer"}, {"type": "x.Pooling", "path": "1_Pooling"}])";
  for (const char* name :
       {"1_Pooling/config.json", "config_sentence_transformers.json", "sentence_bert_config.json"})
    source.embedding_files[name] = text;
  for (const bool asks : {false, true}) {
    weft::convert::EmbeddingOptions asked;
    if (asks) asked.pooling = weft::package::Pooling::kMean;
    const auto found = weft::convert::FindEmbedding(source, asked);
    if (!found.ok() || !*found) continue;
    const auto written = weft::package::ToJson((*found)->embedding);
    // Prompts and dimensions may be more than a package holds, which is refused when it is written.
    const auto read = weft::package::ParseEmbedding(written, 1 << 20);
    if (read.ok() && !(*read == (*found)->embedding)) std::abort();
  }
  return 0;
}
