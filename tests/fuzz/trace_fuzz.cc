// A layer's graph from outside: tracing ends in a program that passes validation's shape or in a
// sentence, never in a crash, and does not take more memory than its limits say.
#include "lower/trace/trace_layer.h"
#include "onnx/load.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t byte_count) {
  using weft::Slice;
  const auto part =
      weft::onnx::LoadModelFromBytes(Slice(std::vector<uint8_t>(data, data + byte_count)));
  if (!part.ok()) return 0;
  const auto traced = weft::lower::TraceLayer(*part, 1, 512);
  if (traced.ok()) CHECK(traced->recipes.size() == traced->program.weights.size());
  return 0;
}
