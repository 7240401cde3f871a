// What each family's config.json says, as the hub's files and as transformers 5 write it.
#include "convert/model/families.h"
#include "convert/model/parse_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft::convert {
namespace {

namespace json = boost::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<ModelConfig> Parse(json::object config, const json::object& changes) {
  for (const auto& [key, value] : changes) config[key] = value;
  return ParseModelConfig(json::serialize(config));
}

json::object Config(const char* model_type, const char* architecture) {
  return {{"architectures", {architecture}}, {"model_type", model_type}, {"hidden_size", 96},
          {"intermediate_size", 160},        {"num_hidden_layers", 4},   {"num_attention_heads", 4},
          {"num_key_value_heads", 2},        {"head_dim", 16},           {"vocab_size", 512},
          {"max_position_embeddings", 512},  {"sliding_window", 16}};
}

Result<ModelConfig> Gemma2(const json::object& changes = {}) {
  json::object config = Config("gemma2", "Gemma2ForCausalLM");
  config["hidden_act"] = "gelu_pytorch_tanh";
  config["hidden_activation"] = "gelu_pytorch_tanh";
  config["query_pre_attn_scalar"] = 64;
  config["attn_logit_softcapping"] = 50.0;
  config["final_logit_softcapping"] = 30.0;
  return Parse(config, changes);
}

Result<ModelConfig> Gemma3(const json::object& changes = {}) {
  json::object config = Config("gemma3_text", "Gemma3ForCausalLM");
  config["hidden_activation"] = "gelu_pytorch_tanh";
  config["sliding_window_pattern"] = 2;
  return Parse(config, changes);
}

Result<ModelConfig> Qwen3Moe(const json::object& changes = {}) {
  json::object config = Config("qwen3_moe", "Qwen3MoeForCausalLM");
  config["num_experts"] = 8;
  config["num_experts_per_tok"] = 2;
  config["moe_intermediate_size"] = 32;
  return Parse(config, changes);
}

Result<ModelConfig> GptOss(const json::object& changes = {}) {
  json::object config = Config("gpt_oss", "GptOssForCausalLM");
  config["num_local_experts"] = 4;
  config["num_experts_per_tok"] = 2;
  config["quantization_config"] = json::object{{"quant_method", "mxfp4"}};
  return Parse(config, changes);
}

TEST(Families, Gemma2) {
  const auto config = Gemma2();
  ASSERT_TRUE(config.ok()) << config.error().ToString();
  EXPECT_TRUE(config->tied_embeddings);  // what its files leave out
  EXPECT_TRUE(config->norms_add_one && config->post_norms);
  EXPECT_FALSE(config->qk_norm);
  EXPECT_FLOAT_EQ(config->embedding_scale, std::sqrt(96.0f));
  EXPECT_FLOAT_EQ(config->attention_scale, 1.0f / 8);
  EXPECT_EQ(config->attention_softcap, 50);
  EXPECT_EQ(config->final_softcap, 30);
  EXPECT_EQ(config->activation, Activation::kGeluTanh);
  EXPECT_THAT(config->windows, ElementsAre(16, 0, 16, 0));
  const json::array types = {"full_attention", "full_attention", "full_attention",
                             "sliding_attention"};
  EXPECT_THAT(Gemma2({{"layer_types", types}})->windows, ElementsAre(0, 0, 0, 16));
}

TEST(Families, Gemma3) {
  const auto config = Gemma3();
  ASSERT_TRUE(config.ok()) << config.error().ToString();
  EXPECT_TRUE(config->qk_norm);
  EXPECT_THAT(config->windows, ElementsAre(16, 0, 16, 0));
  EXPECT_EQ(config->rope.theta, 1e6);
  ASSERT_TRUE(config->local_rope);
  EXPECT_EQ(config->local_rope->theta, 1e4);
  EXPECT_EQ(config->attention_softcap, 0);
  const auto other = Gemma3({{"rope_theta", 5e5}, {"rope_local_base_freq", 2e4}});
  EXPECT_EQ(other->rope.theta, 5e5);
  EXPECT_EQ(other->local_rope->theta, 2e4);
  EXPECT_THAT(Gemma3({{"use_bidirectional_attention", true}}).error().message(),
              HasSubstr("use_bidirectional_attention"));
  EXPECT_THAT(Gemma3({{"model_type", "gemma3"}}).error().message(),
              HasSubstr("'gemma3' is not supported"));
}

TEST(Families, Qwen3MoeHasDenseLayersAmongSparseOnes) {
  const auto config = Qwen3Moe({{"norm_topk_prob", true}});
  ASSERT_TRUE(config.ok()) << config.error().ToString();
  EXPECT_EQ(config->experts.count, 8u);
  EXPECT_EQ(config->experts.chosen, 2u);
  EXPECT_EQ(config->experts.columns, 32u);
  EXPECT_EQ(config->mlp_columns, 160u);
  EXPECT_TRUE(config->experts.normalized);
  EXPECT_THAT(config->sparse, ElementsAre(true, true, true, true));
  EXPECT_FALSE(Qwen3Moe()->experts.normalized);
  EXPECT_THAT(Qwen3Moe({{"decoder_sparse_step", 2}})->sparse,
              ElementsAre(false, true, false, true));
  EXPECT_THAT(Qwen3Moe({{"mlp_only_layers", {0, 3}}})->sparse,
              ElementsAre(false, true, true, false));
}

TEST(Families, Mixtral) {
  json::object mixtral = Config("mixtral", "MixtralForCausalLM");
  mixtral["num_local_experts"] = 4;
  mixtral["num_experts_per_tok"] = 2;
  const auto config = Parse(mixtral, {{"sliding_window", nullptr}});
  ASSERT_TRUE(config.ok()) << config.error().ToString();
  EXPECT_EQ(config->experts.columns, 160u);
  EXPECT_TRUE(config->experts.normalized);
  EXPECT_THAT(config->windows, ElementsAre(0, 0, 0, 0));
}

TEST(Families, GptOss) {
  const auto config = GptOss();
  ASSERT_TRUE(config.ok()) << config.error().ToString();
  EXPECT_TRUE(config->sinks && config->qkv_bias && config->output_bias);
  EXPECT_TRUE(config->experts.bias && config->experts.router_bias);
  EXPECT_EQ(config->activation, Activation::kSwigluOai);
  EXPECT_THAT(config->windows, ElementsAre(16, 0, 16, 0));
  EXPECT_THAT(GptOss({{"swiglu_limit", 6.0}}).error().message(), HasSubstr("weft converts 7"));
}

TEST(Families, NameWhatTheyRefuse) {
  EXPECT_THAT(Qwen3Moe({{"num_experts", 0}}).error().message(), HasSubstr("'num_experts'"));
  EXPECT_THAT(Qwen3Moe({{"num_experts", 100000}}).error().message(), HasSubstr("4096"));
  EXPECT_THAT(Qwen3Moe({{"num_experts", 4096}, {"num_hidden_layers", 20}}).error().message(),
              HasSubstr("20 layers of 4096 experts; at most 2^16 experts in all"));
  EXPECT_THAT(Qwen3Moe({{"num_experts_per_tok", 9}}).error().message(), HasSubstr("from 1 to 8"));
  EXPECT_THAT(Qwen3Moe({{"mlp_only_layers", {4}}}).error().message(),
              HasSubstr("names the layer 4; expected 0 to 3"));
  EXPECT_THAT(Qwen3Moe({{"mlp_only_layers", {"a"}}}).error().message(), HasSubstr("\"a\""));
  EXPECT_THAT(Qwen3Moe({{"moe_intermediate_size", nullptr}}).error().message(),
              HasSubstr("has no 'moe_intermediate_size'"));
  const json::array types = {"full_attention", "linear_attention", "full_attention",
                             "full_attention"};
  EXPECT_THAT(Gemma2({{"layer_types", types}}).error().message(),
              HasSubstr("names \"linear_attention\""));
}

}  // namespace
}  // namespace weft::convert
