// The engine against Hugging Face transformers: programs built by hand from tiny checkpoints must
// give the logits and the greedy continuation that transformers computed in f32.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "base/data_testing.h"
#include "engine/engine.h"
#include "engine/test_model.h"
#include "engine/test_oracle.h"
#include "engine/test_safetensors.h"
#include "engine/test_shards.h"

namespace weft::engine {
namespace {

using StepRun = Run;  // inside a test, Run is gtest's

struct Checkpoint {
  std::string folder;
  ModelSpec spec;
};

std::vector<Checkpoint> Checkpoints() {
  ModelSpec base;
  base.layers = 4;
  base.width = 160;
  base.vocabulary = 512;

  ModelSpec qwen3 = base;
  qwen3.head_columns = 32;
  qwen3.qk_norm = true;
  qwen3.rope_theta = 1e6f;

  ModelSpec qwen3_untied = qwen3;
  qwen3_untied.tied = false;

  ModelSpec llama3 = base;
  llama3.rope_theta = 5e5f;
  llama3.llama3_rope = true;

  ModelSpec qwen2 = base;
  qwen2.attention_bias = true;

  ModelSpec mistral = base;
  mistral.windows.assign(4, 16);
  mistral.tied = false;

  ModelSpec gemma2 = base;
  gemma2.head_columns = 32;
  gemma2.gemma = true;
  gemma2.attention_softcap = 50;
  gemma2.final_softcap = 30;
  gemma2.windows = {16, 0, 16, 0};
  gemma2.activation = program::Activation::kGeluTanh;

  ModelSpec qwen3_moe = base;
  qwen3_moe.head_columns = 32;
  qwen3_moe.qk_norm = true;
  qwen3_moe.tied = false;
  qwen3_moe.width = 64;
  qwen3_moe.experts = 8;
  qwen3_moe.top_k = 2;

  ModelSpec mixtral = base;
  mixtral.epsilon = 1e-5f;
  mixtral.rope_theta = 1e6f;
  mixtral.tied = false;
  mixtral.experts = 4;
  mixtral.top_k = 2;
  return {{"qwen3", qwen3},         {"qwen3-untied", qwen3_untied},
          {"llama3", llama3},       {"qwen2", qwen2},
          {"mistral", mistral},     {"gemma2", gemma2},
          {"qwen3-moe", qwen3_moe}, {"mixtral", mixtral}};
}

// Our tensor names in terms of the checkpoint's.
TensorGetter CheckpointTensors(const Checkpoint& checkpoint, const TestSafetensors& file) {
  return [&](const std::string& name, const std::vector<uint64_t>&) {
    const bool gemma = checkpoint.spec.gemma;
    const std::map<std::string, std::string> top = {{"embed", "model.embed_tokens.weight"},
                                                    {"head", "lm_head.weight"},
                                                    {"final_norm", "model.norm.weight"}};
    const std::map<std::string, std::string> inner = {
        {"input_norm", "input_layernorm.weight"},
        {"q", "self_attn.q_proj.weight"},
        {"k", "self_attn.k_proj.weight"},
        {"v", "self_attn.v_proj.weight"},
        {"q.bias", "self_attn.q_proj.bias"},
        {"k.bias", "self_attn.k_proj.bias"},
        {"v.bias", "self_attn.v_proj.bias"},
        {"q_norm", "self_attn.q_norm.weight"},
        {"k_norm", "self_attn.k_norm.weight"},
        {"o", "self_attn.o_proj.weight"},
        {"post_attention_norm", "post_attention_layernorm.weight"},
        {"feed_forward_norm",
         gemma ? "pre_feedforward_layernorm.weight" : "post_attention_layernorm.weight"},
        {"post_feed_forward_norm", "post_feedforward_layernorm.weight"},
        {"down", "mlp.down_proj.weight"},
    };
    const auto append = [&](std::vector<float>& to, const std::string& tensor) {
      const std::vector<float> values = file.Floats(tensor);
      to.insert(to.end(), values.begin(), values.end());
    };
    std::vector<float> values;
    if (top.contains(name)) {
      values = file.Floats(top.at(name));
    } else {
      const size_t dot = name.find('.', 7);
      const std::string prefix = "model." + name.substr(0, dot + 1);
      const std::string rest = name.substr(dot + 1);
      const bool mixtral = file.Has(prefix + "block_sparse_moe.gate.weight");
      const std::string moe = prefix + (mixtral ? "block_sparse_moe." : "mlp.");
      if (rest == "gate_up") {
        append(values, prefix + "mlp.gate_proj.weight");
        append(values, prefix + "mlp.up_proj.weight");
      } else if (rest == "router") {
        values = file.Floats(moe + "gate.weight");
      } else if (rest.starts_with("experts.")) {
        for (uint32_t e = 0; e < checkpoint.spec.experts; ++e) {
          const std::string expert = moe + "experts." + std::to_string(e) + ".";
          if (rest == "experts.gate_up") {
            append(values, expert + (mixtral ? "w1.weight" : "gate_proj.weight"));
            append(values, expert + (mixtral ? "w3.weight" : "up_proj.weight"));
          } else {
            append(values, expert + (mixtral ? "w2.weight" : "down_proj.weight"));
          }
        }
      } else {
        values = file.Floats(prefix + inner.at(rest));
      }
    }
    if (gemma && name.find("norm") != std::string::npos) {
      for (float& value : values) value += 1;
    }
    return values;
  };
}

std::vector<float> Flat(const Oracle::Matrix& matrix) {
  std::vector<float> values;
  for (const auto& row : matrix) {
    for (const double value : row) values.push_back(static_cast<float>(value));
  }
  return values;
}

float WorstDifference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  float worst = 0;
  for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::fabs(a[i] - b[i]));
  return worst;
}

// Whether the scalar kernels run, and what KV is kept in.
class CheckpointTest : public testing::TestWithParam<std::tuple<bool, DType>> {};

TEST_P(CheckpointTest, LogitsAndGreedyIdsAreThoseOfTransformers) {
  const auto data = TestDataFolder();
  WEFT_NEED_DATA(data);
  const auto [reference_kernels, kv_dtype] = GetParam();
  const bool f16 = kv_dtype == DType::kF16;
  for (const Checkpoint& checkpoint : Checkpoints()) {
    SCOPED_TRACE(checkpoint.folder);
    const auto folder = data / "checkpoints" / checkpoint.folder;
    const TestSafetensors weights(folder / "model.safetensors");
    const TestSafetensors reference(folder / "reference.safetensors");
    MemorySource source;
    const auto programs =
        ModelBuilder(checkpoint.spec, CheckpointTensors(checkpoint, weights), source).Build();

    const auto engine = MakeNativeEngine(
        {.thread_count = 2, .reference_kernels = reference_kernels, .kv_dtype = kv_dtype});
    ASSERT_TRUE(engine->Load(programs, source).ok());
    const LayerRange all = {0, checkpoint.spec.layers + 2};

    const std::vector<int64_t> input_ids = reference.Ints("input_ids");
    const std::vector<int32_t> ids(input_ids.begin(), input_ids.end());
    const auto count = static_cast<uint32_t>(ids.size());
    const StepRun evaluation = {1, 0, 0, count, {OutputKind::kLogits}};
    const auto evaluated = engine->Step({all, {&evaluation, 1}, ids, {}});
    ASSERT_TRUE(evaluated.ok()) << evaluated.error().ToString();
    if (checkpoint.spec.experts > 0) {
      SplitModel split(
          programs, source,
          {.thread_count = 2, .reference_kernels = reference_kernels, .kv_dtype = kv_dtype}, 3);
      const auto apart = split.Step({all, {&evaluation, 1}, ids, {}});
      ASSERT_TRUE(apart.ok()) << apart.error().ToString();
      EXPECT_EQ(apart->logits, evaluated->logits) << "with its experts elsewhere";
    }
    const std::vector<float> expected = reference.Floats("logits");
    ASSERT_EQ(evaluated->logits.size(), expected.size());
    // The only thing that the engine may round is the KV, to f16: without that rounding oracle and
    // engine are the reference's to f32 accuracy, and with it the engine is the oracle's, but for a
    // value between two halves that the other one rounds the other way.
    const TensorGetter tensors = CheckpointTensors(checkpoint, weights);
    const std::vector<float> exact = Flat(Oracle(checkpoint.spec, tensors, false).Run(ids, 99));
    const std::vector<float> same_kv = Flat(Oracle(checkpoint.spec, tensors, f16).Run(ids, 99));
    EXPECT_LE(WorstDifference(exact, expected), 1e-4f);
    EXPECT_LE(WorstDifference(evaluated->logits, same_kv), f16 ? 1e-3f : 5e-5f);
    EXPECT_LE(WorstDifference(evaluated->logits, expected), f16 ? 1e-2f : 1e-4f);
    std::printf("%-12s KV %s, worst logit difference: to transformers %.2e, to the oracle %.2e\n",
                checkpoint.folder.c_str(), f16 ? "f16" : "f32",
                WorstDifference(evaluated->logits, expected),
                WorstDifference(evaluated->logits, same_kv));

    const std::vector<int64_t> greedy = reference.Ints("greedy_ids");
    const std::vector<float> margins = reference.Floats("greedy_margin");
    std::vector<int32_t> next = ids;
    uint32_t position = 0;
    for (size_t i = 0; i < greedy.size(); ++i) {
      const StepRun run = {
          2, 0, position, static_cast<uint32_t>(next.size()), {OutputKind::kArgmax}};
      const auto step = engine->Step({all, {&run, 1}, next, {}});
      ASSERT_TRUE(step.ok()) << step.error().ToString();
      const auto& candidates = step->selections.at(0).candidates;
      EXPECT_NEAR(candidates[0].logit - candidates[1].logit, margins[i], 2e-3f);
      if (candidates[0].token_id != greedy[i]) {
        EXPECT_LT(margins[i], 1e-3f) << "token " << i;
        break;
      }
      position += run.count;
      next = {candidates[0].token_id};
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, CheckpointTest,
                         testing::Combine(testing::Bool(),
                                          testing::Values(DType::kF16, DType::kF32)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param) ? "Reference" : "Fast") +
                                  "_kv_" + std::string(DTypeName(std::get<1>(test.param)));
                         });

}  // namespace
}  // namespace weft::engine
