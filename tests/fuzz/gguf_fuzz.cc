// GGUF files from outside: never a crash, every tensor lies inside the file, every block type is
// read to its last byte, and what is accepted becomes a checkpoint that can be planned.
#include "convert/source/gguf.h"

#include <vector>

#include "convert/model/parse_config.h"
#include "convert/source/gguf_config.h"
#include "convert/source/gguf_tensors.h"
#include "convert/source/gguf_text.h"
#include "convert/weights/weight_specs.h"

namespace {

void BecomeCheckpoint(const weft::convert::GgufModel& model) {
  using namespace weft::convert;
  Source source;
  (void)AddGgufText(model.metadata, &source);
  const auto config = HuggingFaceConfig(model);
  if (!config.ok()) return;
  const std::string model_type(config->at("model_type").as_string());
  const auto tensors =
      HuggingFaceTensors(model, model_type, config->at("head_dim").to_number<uint64_t>());
  const auto parsed = ParseModelConfig(boost::json::serialize(*config));
  if (!tensors.ok() || !parsed.ok()) return;
  (void)CheckWeights(SpecifyWeights(*parsed, *tensors), *tensors);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t byte_count) {
  using namespace weft;
  const Slice file(std::vector<uint8_t>(data, data + byte_count));
  const auto model = convert::ParseGguf(file, "fuzz");
  if (!model.ok()) return 0;
  const ByteSpan whole = file.bytes();
  for (const auto& [name, tensor] : model->tensors) {
    const ByteSpan bytes = tensor.bytes.bytes();
    if (bytes.empty()) continue;
    CHECK(bytes.data() >= whole.data() &&
          bytes.data() + bytes.size() <= whole.data() + whole.size());
    std::vector<float> row(tensor.shape.back());
    CHECK(bytes.size() % convert::RowBytes(*tensor.format, row.size()) == 0);
    convert::ReadRow(*tensor.format, bytes.data(), row);
  }
  for (const char* key : {"general.architecture", "tokenizer.ggml.tokens", "llama.block_count"}) {
    (void)model->metadata.Texts(key);
    (void)model->metadata.Numbers(key);
    (void)model->metadata.Whole(key, 0, 100, 1);
    (void)model->metadata.Text(key, "");
  }
  BecomeCheckpoint(*model);
  return 0;
}
