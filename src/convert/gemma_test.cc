// What is special about Gemma, seen in the programs of its layers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "convert/convert.h"
#include "convert/source/checkpoint_testing.h"
#include "package/package.h"
#include "program/codec.h"

namespace weft::convert {
namespace {

namespace json = boost::json;
using ::testing::ElementsAre;
using testing::FloatTensors;

// Two layers; hidden 96, whose root 9.798 is 9.8125 in bf16.
json::object Config(const char* model_type, const char* architecture) {
  json::object config = testing::TinyQwen3Config();
  config["model_type"] = model_type;
  config["architectures"] = json::array{architecture};
  config["hidden_size"] = 96;
  config["hidden_activation"] = "gelu_pytorch_tanh";
  config["query_pre_attn_scalar"] = 64;
  config["sliding_window"] = 32;
  config["sliding_window_pattern"] = 2;
  config.erase("tie_word_embeddings");
  config.erase("rope_theta");
  return config;
}

FloatTensors Tensors(bool head_norms) {
  SeededRandom random(21);
  FloatTensors tensors;
  const auto add = [&](const std::string& name, std::vector<uint64_t> shape) {
    tensors[name] = testing::RandomTensor(&random, std::move(shape));
  };
  add("model.embed_tokens.weight", {400, 96});
  add("model.norm.weight", {96});
  for (const std::string prefix : {"model.layers.0.", "model.layers.1."}) {
    add(prefix + "self_attn.q_proj.weight", {64, 96});
    add(prefix + "self_attn.k_proj.weight", {32, 96});
    add(prefix + "self_attn.v_proj.weight", {32, 96});
    add(prefix + "self_attn.o_proj.weight", {96, 64});
    if (head_norms) {
      add(prefix + "self_attn.q_norm.weight", {16});
      add(prefix + "self_attn.k_norm.weight", {16});
    }
    for (const char* norm : {"input_layernorm", "post_attention_layernorm",
                             "pre_feedforward_layernorm", "post_feedforward_layernorm"}) {
      add(prefix + norm + ".weight", {96});
    }
    add(prefix + "mlp.gate_proj.weight", {96, 96});
    add(prefix + "mlp.up_proj.weight", {96, 96});
    add(prefix + "mlp.down_proj.weight", {96, 96});
  }
  return tensors;
}

class GemmaTest : public ::testing::Test {
 protected:
  std::vector<program::Program> Programs(const FloatTensors& tensors, const json::object& config,
                                         DType dtype) {
    testing::WriteCheckpoint(folder_.path() / "source", tensors, config, dtype);
    ConvertOptions options;
    options.source = folder_.path() / "source";
    options.package = folder_.path() / "package";
    options.force = true;
    const auto report = ConvertCheckpoint(options, [](const ConvertProgress&) {});
    EXPECT_TRUE(report.ok()) << report.error().ToString();
    EXPECT_TRUE(report->lowered) << report->why_not_lowered;
    package_.emplace(package::Package::Open(options.package).value());
    std::vector<program::Program> programs;
    for (const auto& layer : package_->manifest.layers) {
      programs.push_back(program::Decode(Blob(layer.program)).value());
    }
    return programs;
  }
  ByteSpan Blob(const package::Digest& digest) {
    held_.push_back(package_->blobs->Get(digest, package_->manifest.blobs.at(digest)).value());
    return held_.back().bytes();
  }
  std::vector<float> Values(const program::Weight& weight) {
    const program::Part& part = weight.data.at(0);
    std::vector<float> values(part.byte_count / 4);
    std::memcpy(values.data(), Blob(package::Digest(part.digest)).data() + part.offset,
                part.byte_count);
    return values;
  }
  static std::vector<std::string_view> OpNames(const program::Program& program) {
    std::vector<std::string_view> names;
    for (const program::Op& op : program.ops) names.push_back(program::OpName(op));
    return names;
  }

  TemporaryFolder folder_;
  std::optional<package::Package> package_;
  std::vector<Slice> held_;
};

TEST_F(GemmaTest, Gemma2HasCapsAndNormsAroundAttentionAndMlp) {
  json::object config = Config("gemma2", "Gemma2ForCausalLM");
  config["attn_logit_softcapping"] = 50.0;
  config["final_logit_softcapping"] = 30.0;
  const auto programs = Programs(Tensors(false), config, DType::kF32);
  ASSERT_EQ(programs.size(), 4u);
  EXPECT_FLOAT_EQ(std::get<program::Embed>(programs[0].ops[0]).scale, std::sqrt(96.0f));
  EXPECT_THAT(OpNames(programs[1]),
              ElementsAre("RmsNorm", "MatMul", "QkNormRope", "MatMul", "QkNormRope", "MatMul",
                          "Attention", "MatMul", "RmsNorm", "Add", "RmsNorm", "MatMul", "MatMul",
                          "GatedActivation", "MatMul", "RmsNorm", "Add"));
  const program::Attention& attention = *program::FindAttention(programs[1]);
  EXPECT_EQ(attention.softcap, 50);
  EXPECT_FLOAT_EQ(attention.scale, 1.0f / 8);
  EXPECT_EQ(attention.window, 32u);
  EXPECT_EQ(program::FindAttention(programs[2])->window, 0u);
  EXPECT_EQ(std::get<program::GatedActivation>(programs[1].ops[13]).kind,
            program::Activation::kGeluTanh);
  EXPECT_THAT(OpNames(programs[3]), ElementsAre("RmsNorm", "MatMul", "Softcap"));
  EXPECT_EQ(std::get<program::Softcap>(programs[3].ops[2]).cap, 30);
}

TEST_F(GemmaTest, NormsAreOnePlusTheCheckpointsWeights) {
  const FloatTensors tensors = Tensors(true);
  const auto programs = Programs(tensors, Config("gemma3_text", "Gemma3ForCausalLM"), DType::kF32);
  int seen = 0;
  for (const program::Program& program : programs) {
    for (const program::Weight& weight : program.weights) {
      if (weight.name.find("norm") == std::string::npos) continue;
      std::vector<float> expected = tensors.at(weight.name).values;
      for (float& value : expected) value += 1;
      EXPECT_EQ(Values(weight), expected) << weight.name;
      ++seen;
    }
  }
  EXPECT_EQ(seen, 2 * 6 + 1);
}

TEST_F(GemmaTest, LayersWithAWindowRotateByAnotherBase) {
  const auto programs =
      Programs(Tensors(true), Config("gemma3_text", "Gemma3ForCausalLM"), DType::kF32);
  const auto table = [&](const program::Program& program) {
    const auto& rope = *std::get<program::QkNormRope>(program.ops[2]).rope;
    return Values(program.weights[rope.inv_freq]);
  };
  const std::vector<float> local = table(programs[1]), global = table(programs[2]);
  EXPECT_EQ(program::FindAttention(programs[1])->window, 32u);
  EXPECT_EQ(program::FindAttention(programs[2])->window, 0u);
  EXPECT_FLOAT_EQ(local[4], 0.01f);    // 10,000^(-1/2)
  EXPECT_FLOAT_EQ(global[4], 0.001f);  // 1,000,000^(-1/2)
}

TEST_F(GemmaTest, TheEmbeddingFactorIsRoundedToTheTablesDtype) {
  const auto programs =
      Programs(Tensors(true), Config("gemma3_text", "Gemma3ForCausalLM"), DType::kBF16);
  EXPECT_EQ(std::get<program::Embed>(programs[0].ops[0]).scale, 9.8125f);
}

}  // namespace
}  // namespace weft::convert
