// What each family's config.json says, as the Hugging Face Hub's files and as transformers 5 write
// it.
#include "convert/model/families.h"
#include "convert/model/model_config_testing.h"
#include "convert/model/parse_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

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
  EXPECT_TRUE(config->norms_add_one);
  EXPECT_EQ(config->norms.mlp_out, "post_feedforward_layernorm");
  EXPECT_EQ(config->qk_norm, QkNorm::kNone);
  EXPECT_FLOAT_EQ(config->embedding_scale, std::sqrt(96.0f));
  EXPECT_FLOAT_EQ(config->attention_scale, 1.0f / 8);
  EXPECT_EQ(config->attention_softcap, 50);
  EXPECT_EQ(config->final_softcap, 30);
  EXPECT_EQ(config->activation, Activation::kGeluTanh);
  EXPECT_THAT(OfLayers(*config, &LayerConfig::window), ElementsAre(16, 0, 16, 0));
  const json::array types = {"full_attention", "full_attention", "full_attention",
                             "sliding_attention"};
  EXPECT_THAT(OfLayers(*Gemma2({{"layer_types", types}}), &LayerConfig::window),
              ElementsAre(0, 0, 0, 16));
}

TEST(Families, Gemma3) {
  const auto config = Gemma3();
  ASSERT_TRUE(config.ok()) << config.error().ToString();
  EXPECT_EQ(config->qk_norm, QkNorm::kHead);
  EXPECT_THAT(OfLayers(*config, &LayerConfig::window), ElementsAre(16, 0, 16, 0));
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
              HasSubstr("'Gemma3ForCausalLM' is not supported"));
}

TEST(Families, Qwen3MoeHasDenseLayersAmongSparseOnes) {
  const auto config = Qwen3Moe({{"norm_topk_prob", true}});
  ASSERT_TRUE(config.ok()) << config.error().ToString();
  EXPECT_EQ(config->experts.count, 8u);
  EXPECT_EQ(config->experts.chosen, 2u);
  EXPECT_EQ(config->experts.columns, 32u);
  EXPECT_EQ(config->mlp_columns, 160u);
  EXPECT_TRUE(config->experts.normalized);
  EXPECT_THAT(OfLayers(*config, &LayerConfig::has_experts), ElementsAre(true, true, true, true));
  EXPECT_FALSE(Qwen3Moe()->experts.normalized);
  EXPECT_THAT(OfLayers(*Qwen3Moe({{"decoder_sparse_step", 2}}), &LayerConfig::has_experts),
              ElementsAre(false, true, false, true));
  EXPECT_THAT(OfLayers(*Qwen3Moe({{"mlp_only_layers", {0, 3}}}), &LayerConfig::has_experts),
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
  EXPECT_THAT(OfLayers(*config, &LayerConfig::window), ElementsAre(0, 0, 0, 0));
}

TEST(Families, GptOss) {
  const auto config = GptOss();
  ASSERT_TRUE(config.ok()) << config.error().ToString();
  EXPECT_TRUE(config->sinks && config->qkv_bias && config->output_bias);
  EXPECT_TRUE(config->experts.bias && config->experts.router_bias);
  EXPECT_EQ(config->activation, Activation::kSwigluOai);
  EXPECT_THAT(OfLayers(*config, &LayerConfig::window), ElementsAre(16, 0, 16, 0));
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

json::object Gemma4() {
  json::object config = Config("gemma4_text", "Gemma4ForCausalLM");
  config["hidden_size_per_layer_input"] = 0;
  config["attention_k_eq_v"] = true;
  config["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention",
                           "full_attention"};
  config["global_head_dim"] = 32;
  config["num_global_key_value_heads"] = 1;
  return config;
}

TEST(Families, Gemma4HasOtherHeadsInLayersWithoutAWindow) {
  const auto config = Parse(Gemma4(), {});
  ASSERT_TRUE(config.ok()) << config.error().ToString();
  EXPECT_THAT(OfLayers(*config, &LayerConfig::head_columns), ElementsAre(16, 32, 16, 32));
  EXPECT_THAT(OfLayers(*config, &LayerConfig::kv_heads), ElementsAre(2, 1, 2, 1));
  EXPECT_THAT(OfLayers(*config, &LayerConfig::keys_are_values),
              ElementsAre(false, true, false, true));
  EXPECT_THAT(OfLayers(*config, &LayerConfig::window), ElementsAre(16, 0, 16, 0));
  // A quarter of the 16 pairs of 32 columns turn, at frequencies of the whole head.
  const std::vector<float> full = InverseFrequencies(*config->layers[1].rope);
  ASSERT_EQ(full.size(), 16u);
  EXPECT_FLOAT_EQ(full[3], static_cast<float>(std::pow(1e6, -6.0 / 32)));
  EXPECT_EQ(full[4], 0.0f);
  EXPECT_EQ(InverseFrequencies(*config->layers[0].rope).size(), 8u);
  // The same in the form that transformers 5.17 writes.
  const auto newer = Parse(Gemma4(), {{"global_head_dim", nullptr},
                                      {"num_global_key_value_heads", nullptr},
                                      {"per_layer_config",
                                       {{"1", {{"head_dim", 32}, {"num_key_value_heads", 1}}},
                                        {"3", {{"head_dim", 32}, {"num_key_value_heads", 1}}}}}});
  ASSERT_TRUE(newer.ok()) << newer.error().ToString();
  for (const auto field : {&LayerConfig::head_columns, &LayerConfig::kv_heads})
    EXPECT_EQ(OfLayers(*newer, field), OfLayers(*config, field));
}

TEST(Families, Gemma4NamesWhatItRefuses) {
  const std::pair<json::object, const char*> cases[] = {
      {{{"use_bidirectional_attention", "all"}}, "decoders that look back only"},
      {{{"num_global_key_value_heads", 3}}, "Layer 1 of config.json has 3 key and value heads"},
      {{{"num_global_key_value_heads", 0}}, "'num_global_key_value_heads'"},
      {{{"global_head_dim", "wide"}}, "'global_head_dim'"},
      {{{"per_layer_config", {{"9", json::object{}}}}}, "has the entry '9'"},
      {{{"per_layer_config", {{"1", 7}}}}, "has the entry '1'"},
      {{{"per_layer_config", {{"1", {{"head_dim", 64}}}}}}, "others of its type"},
      {{{"per_layer_config", {{"1", {{"sliding_window", 64}}}}}}, "the key 'sliding_window'"},
      {{{"layer_types", {"full_attention"}}}, "has 1 entries for 4 layers"},
      {{{"layer_types",
         {"chunked_attention", "full_attention", "full_attention", "full_attention"}}},
       "names \"chunked_attention\""},
  };
  for (const auto& [changes, message] : cases) {
    const auto config = Parse(Gemma4(), changes);
    ASSERT_FALSE(config.ok()) << message;
    EXPECT_THAT(config.error().message(), HasSubstr(message));
  }
  EXPECT_TRUE(Parse(Gemma4(), {{"use_bidirectional_attention", "vision"}}).ok());
}

TEST(Families, Gemma4SharesKeysAndValuesAmongItsLastLayers) {
  const json::object changes = {{"num_hidden_layers", 6},
                                {"layer_types",
                                 {"sliding_attention", "full_attention", "sliding_attention",
                                  "sliding_attention", "sliding_attention", "full_attention"}},
                                {"num_kv_shared_layers", 2},
                                {"use_double_wide_mlp", true}};
  const auto shared = Parse(Gemma4(), changes);
  ASSERT_TRUE(shared.ok()) << shared.error().ToString();
  EXPECT_THAT(OfLayers(*shared, &LayerConfig::kv_from),
              ElementsAre(std::nullopt, std::nullopt, std::nullopt, std::nullopt, 3, 1));
  EXPECT_EQ(shared->layers[3].mlp_columns, shared->mlp_columns);
  EXPECT_EQ(shared->layers[4].mlp_columns, 2 * shared->mlp_columns);
  // From the layer after the embedding whose keys are read last, to the last layer.
  EXPECT_THAT(shared->KeptTogether(), ElementsAre(LayerRange{2, 7}));
  EXPECT_EQ(shared->BoundaryColumns(3), shared->hidden_columns);

  json::object inputs = changes;
  inputs["hidden_size_per_layer_input"] = 8;
  const auto own = Parse(Gemma4(), inputs);
  ASSERT_TRUE(own.ok()) << own.error().ToString();
  EXPECT_THAT(own->KeptTogether(), ElementsAre(LayerRange{0, 7}));
  EXPECT_EQ(own->BoundaryColumns(5), own->hidden_columns + 6 * 8);
  EXPECT_EQ(own->BoundaryColumns(6), own->hidden_columns);
  EXPECT_EQ(own->layer_inputs.vocabulary, 262144u);

  EXPECT_TRUE(Parse(Gemma4(), {})->KeptTogether().empty());
  EXPECT_THAT(Parse(Gemma4(), {{"num_kv_shared_layers", 4}}).error().message(),
              HasSubstr("Layer 0 of config.json shares the keys and values of an earlier layer"));
  EXPECT_THAT(
      Parse(Gemma4(), {{"hidden_size_per_layer_input", 8}, {"vocab_size_per_layer_input", 9}})
          .error()
          .message(),
      HasSubstr("'vocab_size_per_layer_input'"));
}

TEST(Families, AWrapperGivesItsDecoder) {
  json::object text = Gemma4();
  text.erase("architectures");
  const json::object wrapped = {{"model_type", "gemma4"},
                                {"architectures", {"Gemma4ForConditionalGeneration"}},
                                {"text_config", text},
                                {"vision_config", {{"hidden_size", 8}}}};
  const auto config = ParseModelConfig(json::serialize(wrapped));
  ASSERT_TRUE(config.ok()) << config.error().ToString();
  EXPECT_TRUE(config->wrapped);
  EXPECT_TRUE(config->tied_embeddings);
  EXPECT_EQ(config->architecture, "gemma4_text");
  EXPECT_THAT(Parse(wrapped, {{"text_config", nullptr}}).error().message(),
              HasSubstr("has no 'text_config'"));
  EXPECT_THAT(Parse(wrapped, {{"architectures", {"Gemma4Model"}}}).error().message(),
              HasSubstr("'Gemma4Model' is not supported"));
}

TEST(Families, LayersWithoutARotation) {
  const auto smollm = Parse(Config("smollm3", "SmolLM3ForCausalLM"), {});
  ASSERT_TRUE(smollm.ok()) << smollm.error().ToString();
  EXPECT_THAT(OfLayers(*smollm, &LayerConfig::rotates), ElementsAre(true, true, true, false));
  EXPECT_EQ(smollm->RotationOf(3), kNoRotation);
  const auto granite = Parse(Config("granite_swa", "GraniteSWAForCausalLM"),
                             {{"layer_rope_theta", {0, 10000, 500000, 10000}}});
  ASSERT_TRUE(granite.ok()) << granite.error().ToString();
  EXPECT_EQ(granite->RotationOf(0), kNoRotation);
  EXPECT_EQ(granite->Rotations().size(), 2u);
  EXPECT_EQ(granite->RotationOf(1), granite->RotationOf(3));
  EXPECT_NE(granite->RotationOf(1), granite->RotationOf(2));
  EXPECT_TRUE(granite->sinks);
  EXPECT_THAT(OfLayers(*granite, &LayerConfig::window), ElementsAre(0, 16, 16, 16));
  EXPECT_THAT(Parse(Config("smollm3", "SmolLM3ForCausalLM"), {{"no_rope_layers", {1, 0, 1, 2}}})
                  .error()
                  .message(),
              HasSubstr("'no_rope_layers' in config.json holds 2"));
  EXPECT_THAT(Parse(Config("granite_swa", "GraniteSWAForCausalLM"), {{"layer_rope_theta", {-1}}})
                  .error()
                  .message(),
              HasSubstr("has 1 entries for 4 layers"));
}

// Every layer is one block. Older files name them by letters, and leave nothing else to tell how
// many there are.
TEST(Families, NemotronHHasOneBlockInALayer) {
  json::object config = Config("nemotron_h", "NemotronHForCausalLM");
  config.erase("num_hidden_layers");
  for (const auto& [key, value] : json::object{{"hybrid_override_pattern", "ME*-"},
                                               {"mamba_num_heads", 4},
                                               {"mamba_head_dim", 16},
                                               {"n_groups", 2},
                                               {"ssm_state_size", 16},
                                               {"n_routed_experts", 8},
                                               {"num_experts_per_tok", 2},
                                               {"moe_intermediate_size", 32},
                                               {"moe_shared_expert_intermediate_size", 48},
                                               {"routed_scaling_factor", 2.5},
                                               {"moe_latent_size", nullptr},
                                               {"mlp_hidden_act", "relu2"},
                                               {"layer_norm_epsilon", 1e-5}})
    config[key] = value;
  const auto model = Parse(config, {});
  ASSERT_TRUE(model.ok()) << model.error().ToString();
  EXPECT_THAT(OfLayers(*model, &LayerConfig::mixer),
              ElementsAre(Mixer::kMamba2, Mixer::kNone, Mixer::kAttention, Mixer::kNone));
  EXPECT_THAT(OfLayers(*model, &LayerConfig::has_mlp), ElementsAre(false, true, false, true));
  EXPECT_THAT(OfLayers(*model, &LayerConfig::has_experts), ElementsAre(false, true, false, false));
  EXPECT_FALSE(model->has_gates());
  EXPECT_EQ(model->RotationOf(2), kNoRotation);
  EXPECT_EQ(model->mamba.norm_groups, 2u);
  EXPECT_EQ(model->experts.shared_columns, 48u);
  EXPECT_EQ(model->experts.scale, 2.5f);
  EXPECT_EQ(model->rms_epsilon, 1e-5f);
  EXPECT_FALSE(model->mamba.bias);
  EXPECT_EQ(model->mamba.dt_max, 0);
  const auto other = Parse(config, {{"use_bias", true},
                                    {"head_dim", nullptr},
                                    {"attention_head_dim", 48},
                                    {"time_step_limit", {1e-3, {{"__float__", "Infinity"}}}}});
  ASSERT_TRUE(other.ok()) << other.error().ToString();
  EXPECT_TRUE(other->mamba.bias);
  EXPECT_EQ(other->layers[2].head_columns, 48u);
  EXPECT_EQ(other->mamba.dt_min, 1e-3f);
  EXPECT_EQ(other->mamba.dt_max, 0);  // no limit

  const auto refusal = [&](const json::object& changes) {
    const auto refused = Parse(config, changes);
    EXPECT_FALSE(refused.ok());
    return refused.ok() ? "" : refused.error().message();
  };
  EXPECT_THAT(refusal({{"hybrid_override_pattern", "ME*X"}}), HasSubstr("has the letter 'X'"));
  EXPECT_THAT(refusal({{"hybrid_override_pattern", nullptr}, {"num_hidden_layers", 4}}),
              HasSubstr("neither 'layers_block_type' nor 'hybrid_override_pattern'"));
  EXPECT_THAT(refusal({{"layers_block_type", {"mamba", "moe", "attention", "conv"}}}),
              HasSubstr("'layers_block_type' in config.json names \"conv\""));
  EXPECT_THAT(refusal({{"num_hidden_layers", 5}}), HasSubstr("has 4 entries for 5 layers"));
  EXPECT_THAT(refusal({{"mlp_hidden_act", "silu"}}), HasSubstr("weft converts relu2"));
  EXPECT_THAT(refusal({{"moe_latent_size", 64}}), HasSubstr("'moe_latent_size'"));
  EXPECT_THAT(refusal({{"n_groups", 3}}), HasSubstr("3 groups"));
  EXPECT_THAT(refusal({{"moe_shared_expert_intermediate_size", 1 << 23}}),
              HasSubstr("'moe_shared_expert_intermediate_size'"));
}

TEST(Families, QueriesThatGrowLimitTheContext) {
  const auto config = Parse(Config("ministral3", "Ministral3ForCausalLM"),
                            {{"rope_parameters",
                              {{"rope_type", "yarn"},
                               {"factor", 16},
                               {"llama_4_scaling_beta", 0.1},
                               {"original_max_position_embeddings", 128}}}});
  ASSERT_TRUE(config.ok()) << config.error().ToString();
  EXPECT_EQ(config->context_length, 128u);
  EXPECT_EQ(config->notes.size(), 1u);
}

}  // namespace
}  // namespace weft::convert
