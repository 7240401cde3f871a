// safetensors headers from outside: never a crash, and every tensor lies inside the file.
#include "convert/source/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t byte_count) {
  const weft::Slice file(std::vector<uint8_t>(data, data + byte_count));
  const auto tensors = weft::convert::ParseSafetensors(file, "fuzz");
  if (!tensors.ok()) return 0;
  const weft::ByteSpan whole = file.bytes();
  for (const auto& [name, tensor] : *tensors) {
    const weft::ByteSpan bytes = tensor.bytes.bytes();
    if (bytes.empty()) continue;
    CHECK(bytes.data() >= whole.data() &&
          bytes.data() + bytes.size() <= whole.data() + whole.size());
  }
  return 0;
}
