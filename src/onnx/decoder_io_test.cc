// Which layer a cache is of, by the names that exporters give it.
#include "onnx/decoder_io.h"

#include <gtest/gtest.h>

namespace weft::onnx {
namespace {

ValueInfo Value(std::string name, ElementType type = ElementType::kFloat) {
  ValueInfo value;
  value.name = std::move(name);
  value.type = type;
  return value;
}

// "0 0 1 1": the layers of the inputs, in their order.
std::string Layers(const std::vector<std::string>& inputs,
                   const std::vector<std::string>& outputs) {
  Graph graph;
  graph.inputs.push_back(Value("input_ids", ElementType::kInt64));
  graph.outputs.push_back(Value("logits"));
  for (const std::string& name : inputs) graph.inputs.push_back(Value(name));
  for (const std::string& name : outputs) graph.outputs.push_back(Value(name));
  const auto io = FindDecoderIo(graph);
  if (!io.ok()) return io.error().message();
  std::string layers;
  for (const std::string& name : inputs) {
    layers += (layers.empty() ? "" : " ") + std::to_string(io->state_layers.at(name));
  }
  return layers;
}

TEST(DecoderIo, LayersStandInNames) {
  EXPECT_EQ(Layers({"past_key_values.0.key", "past_key_values.0.value", "past_key_values.1.key",
                    "past_key_values.1.value"},
                   {"present.0.key", "present.0.value", "present.1.key", "present.1.value"}),
            "0 0 1 1");
  EXPECT_EQ(Layers({"past_0", "past_1"}, {"present_0", "present_1"}), "0 1");
}

TEST(DecoderIo, OtherDigitsMayStandBeforeThem) {
  EXPECT_EQ(Layers({"past_fp16.0.key", "past_fp16.1.key", "past_fp16.2.key"},
                   {"present_fp16.0.key", "present_fp16.1.key", "present_fp16.2.key"}),
            "0 1 2");
  EXPECT_EQ(Layers({"qwen2_5.past.10.k", "qwen2_5.past.0.k", "qwen2_5.past.3.k"},
                   {"qwen2_5.present.10.k", "qwen2_5.present.0.k", "qwen2_5.present.3.k"}),
            "10 0 3");
  EXPECT_EQ(Layers({"cache2_k_0", "cache2_k_1", "cache2_v_0", "cache2_v_1"},
                   {"updated2_k_0", "updated2_k_1", "updated2_v_0", "updated2_v_1"}),
            "0 1 0 1");
  // One layer alone.
  EXPECT_EQ(Layers({"past_fp16.0.key"}, {"present_fp16.0.key"}), "0");
}

TEST(DecoderIo, OtherDigitsMayStandBehindThem) {
  EXPECT_EQ(Layers({"past.0.0", "past.0.1", "past.1.0", "past.1.1", "past.2.0", "past.2.1"},
                   {"present.0.0", "present.0.1", "present.1.0", "present.1.1", "present.2.0",
                    "present.2.1"}),
            "0 0 1 1 2 2");
  EXPECT_EQ(Layers({"past.0.0", "past.0.1", "past.1.0", "past.1.1"},
                   {"present.0.0", "present.0.1", "present.1.0", "present.1.1"}),
            "0 0 1 1");
  EXPECT_EQ(Layers({"past.0.key.v2", "past.1.key.v2"}, {"present.0.key.v2", "present.1.key.v2"}),
            "0 1");
}

TEST(DecoderIo, ANumberThatIsNoLayersIsAPartOfTheName) {
  EXPECT_EQ(Layers({"past_99999999999.0", "past_99999999999.1"}, {"present.0", "present.1"}),
            "0 1");
}

}  // namespace
}  // namespace weft::onnx
