// ONNX model files from outside: never a crash, what is accepted can be written and read again, and
// looking for layers in it ends in layers or in a sentence.
#include "onnx/extract.h"
#include "onnx/layers.h"
#include "onnx/load.h"
#include "onnx/write.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t byte_count) {
  using weft::Slice;
  auto model = weft::onnx::LoadModelFromBytes(Slice(std::vector<uint8_t>(data, data + byte_count)));
  if (!model.ok()) return 0;
  if (const auto bytes = weft::onnx::SerializeModel(*model); bytes.ok()) {
    const weft::ByteSpan span = weft::AsBytes(*bytes);
    const auto again =
        weft::onnx::LoadModelFromBytes(Slice(std::vector<uint8_t>(span.begin(), span.end())));
    CHECK(again.ok(), again.error().ToString());
    CHECK(again->graph.nodes.size() == model->graph.nodes.size());
  }
  const auto layered = weft::onnx::FindLayers(std::move(model).value());
  if (layered.ok()) (void)weft::onnx::CheckCuts(*layered).ok();
  return 0;
}
