// GGUF files from outside: never a crash, every tensor lies inside the file, and every block type
// is read to its last byte.
#include "convert/gguf.h"

#include <vector>

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
  return 0;
}
