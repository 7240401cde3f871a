// config.json in both spellings, and every refusal with its reason.
#include "convert/model/parse_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convert/model/model_config_testing.h"
#include "convert/source/checkpoint_testing.h"
#include "convert/weights/weight_specs.h"

namespace weft::convert {
namespace {

namespace json = boost::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<ModelConfig> Parse(const json::object& config) {
  return ParseModelConfig(json::serialize(config));
}

json::object Llama(json::object changes = {}) {
  json::object config{{"architectures", {"LlamaForCausalLM"}},
                      {"model_type", "llama"},
                      {"hidden_size", 64},
                      {"intermediate_size", 160},
                      {"num_hidden_layers", 4},
                      {"num_attention_heads", 4},
                      {"vocab_size", 512},
                      {"max_position_embeddings", 512}};
  for (const auto& [key, value] : changes) config[key] = value;
  return config;
}

TEST(ModelConfig, FillsInWhatIsNotSaid) {
  const auto config = Parse(Llama({{"head_dim", nullptr}}));
  ASSERT_TRUE(config.ok()) << config.error().ToString();
  EXPECT_EQ(config->kv_heads, 4u);
  EXPECT_EQ(config->head_columns, 16u);
  EXPECT_EQ(config->rope.theta, 10000);
  EXPECT_FALSE(config->tied_embeddings);
  EXPECT_EQ(config->qk_norm, QkNorm::kNone);
  EXPECT_THAT(OfLayers(*config, &LayerConfig::window), ElementsAre(0, 0, 0, 0));
}

TEST(ModelConfig, ReadsBothSpellingsOfRope) {
  const json::object scaling{{"rope_type", "llama3"},
                             {"factor", 8.0},
                             {"low_freq_factor", 1.0},
                             {"high_freq_factor", 4.0},
                             {"original_max_position_embeddings", 128}};
  json::object parameters = scaling;
  parameters["rope_theta"] = 500000.0;
  const auto newer = Parse(Llama({{"rope_parameters", parameters}}));
  const auto older = Parse(Llama({{"rope_theta", 500000.0}, {"rope_scaling", scaling}}));
  ASSERT_TRUE(newer.ok() && older.ok());
  const std::vector<float> table = InverseFrequencies(newer->rope);
  EXPECT_EQ(table, InverseFrequencies(older->rope));
  // Computed with transformers' formula (modeling_rope_utils, _compute_llama3_parameters) in double
  // precision.
  const double expected[] = {1.0,
                             0.19112647581653072,
                             0.004700753866357992,
                             0.0009115830921521386,
                             0.00017677669529663688,
                             3.428102195952591e-05,
                             6.647869871181236e-06,
                             1.2891731721515574e-06};
  ASSERT_EQ(table.size(), 8u);
  for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(table[i], expected[i], expected[i] * 1e-6) << i;
}

TEST(ModelConfig, ReadsTheOldestSpellingAndLinearScaling) {
  const auto config =
      Parse(Llama({{"rope_scaling", json::object{{"type", "linear"}, {"factor", 4}}}}));
  ASSERT_TRUE(config.ok()) << config.error().ToString();
  const std::vector<float> table = InverseFrequencies(config->rope);
  EXPECT_FLOAT_EQ(table[0], 0.25f);
  EXPECT_FLOAT_EQ(table[1], 0.25f * std::pow(10000.0f, -2.0f / 16));
}

TEST(ModelConfig, ReadsWindows) {
  json::object qwen2 = Llama({{"model_type", "qwen2"}, {"sliding_window", 16}});
  qwen2["architectures"] = json::array{"Qwen2ForCausalLM"};
  EXPECT_THAT(OfLayers(*Parse(qwen2), &LayerConfig::window), ElementsAre(0, 0, 0, 0));
  qwen2["use_sliding_window"] = true;
  qwen2["max_window_layers"] = 3;
  EXPECT_THAT(OfLayers(*Parse(qwen2), &LayerConfig::window), ElementsAre(0, 0, 0, 16));
  qwen2["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention",
                          "full_attention"};
  EXPECT_THAT(OfLayers(*Parse(qwen2), &LayerConfig::window), ElementsAre(16, 0, 16, 0));
  qwen2["layer_types"] = json::array{"sliding_attention"};
  EXPECT_THAT(Parse(qwen2).error().message(), HasSubstr("has 1 entries for 4 layers"));
  json::object mistral = Llama({{"model_type", "mistral"}, {"sliding_window", 32}});
  mistral["architectures"] = json::array{"MistralForCausalLM"};
  EXPECT_THAT(OfLayers(*Parse(mistral), &LayerConfig::window), ElementsAre(32, 32, 32, 32));
}

TEST(ModelConfig, NamesWhatItRefuses) {
  const struct {
    json::object changes;
    std::string message;
    ErrorCode code;
  } cases[] = {
      {{{"model_type", "mamba"}},
       "'mamba' is not supported; weft converts cohere2, deepseek_v2, deepseek_v3, ernie4_5",
       ErrorCode::kUnsupported},
      {{{"model_type", nullptr}}, "has no 'model_type'", ErrorCode::kInvalidData},
      {{{"model_type", "../\n"}}, "'../?' is not supported", ErrorCode::kUnsupported},
      {{{"architectures", {"LlamaForSequenceClassification"}}},
       "'LlamaForSequenceClassification' is not supported",
       ErrorCode::kUnsupported},
      {{{"hidden_size", 0}}, "'hidden_size' in config.json is 0", ErrorCode::kInvalidData},
      {{{"hidden_size", -64}}, "'hidden_size' in config.json is -64", ErrorCode::kInvalidData},
      {{{"hidden_size", 1e30}}, "from 1 to 1048576", ErrorCode::kInvalidData},
      {{{"hidden_size", "64"}}, "'hidden_size' in config.json is \"64\"", ErrorCode::kInvalidData},
      {{{"hidden_size", nullptr}}, "has no 'hidden_size'", ErrorCode::kInvalidData},
      {{{"hidden_size", 66}}, "no multiple of its 4 heads", ErrorCode::kInvalidData},
      {{{"num_hidden_layers", 100000}}, "'num_hidden_layers'", ErrorCode::kInvalidData},
      {{{"num_key_value_heads", 3}}, "which do not divide", ErrorCode::kInvalidData},
      {{{"head_dim", 15}}, "a rotation of 15", ErrorCode::kUnsupported},
      {{{"rms_norm_eps", -1}}, "'rms_norm_eps'", ErrorCode::kInvalidData},
      {{{"tie_word_embeddings", 1}}, "expected true or false", ErrorCode::kInvalidData},
      {{{"hidden_act", "relu2"}}, "The activation 'relu2'", ErrorCode::kUnsupported},
      {{{"rope_scaling", json::object{{"rope_type", "mrope"}}}},
       "The rope type 'mrope' of 'rope_scaling' in config.json is not supported; weft converts "
       "models with the types default, linear, dynamic, llama3, yarn, longrope and "
       "proportional",
       ErrorCode::kUnsupported},
      {{{"rope_scaling", json::object{{"rope_type", "llama3"}}}},
       "has no 'factor'",
       ErrorCode::kInvalidData},
      {{{"rope_parameters", json::object{{"full_attention", json::object{}}}}},
       "has only one of 'full_attention' and 'sliding_attention'",
       ErrorCode::kInvalidData},
      {{{"rope_scaling", 7}}, "expected an object", ErrorCode::kInvalidData},
  };
  for (const auto& c : cases) {
    const auto config = Parse(Llama(c.changes));
    ASSERT_FALSE(config.ok()) << c.message;
    EXPECT_THAT(config.error().message(), HasSubstr(c.message));
    EXPECT_EQ(config.error().code(), c.code) << c.message;
  }
  EXPECT_FALSE(ParseModelConfig("").ok());
  EXPECT_FALSE(ParseModelConfig("[1]").ok());
  EXPECT_FALSE(ParseModelConfig(std::string(1 << 20, '[')).ok());
  EXPECT_THAT(ParseModelConfig(R"({"a":1,"a":2})").error().message(), HasSubstr("key 'a' twice"));
}

TEST(WeightSpecs, NamesTheTensorThatDoesNotFit) {
  const auto config = ParseModelConfig(json::serialize(testing::TinyQwen3Config()));
  ASSERT_TRUE(config.ok()) << config.error().ToString();
  const auto specs = SpecifyWeights(*config, {});
  ASSERT_EQ(specs.size(), 4u);
  EXPECT_EQ(specs.back().back().pieces[0].tensor, "model.embed_tokens.weight");  // tied
  const testing::FloatTensors whole = testing::TinyQwen3();
  const auto check = [&](const testing::FloatTensors& tensors) {
    const std::string file = testing::Safetensors(tensors);
    const auto parsed = ParseSafetensors(Slice(std::vector<uint8_t>(file.begin(), file.end())),
                                         "model.safetensors");
    return CheckWeights(specs, *parsed);
  };
  EXPECT_TRUE(check(whole).ok());
  testing::FloatTensors missing = whole;
  missing.erase("model.layers.1.mlp.up_proj.weight");
  EXPECT_THAT(check(missing).error().message(),
              HasSubstr("lacks the tensor 'model.layers.1.mlp.up_proj.weight' (expected shape "
                        "[96, 64] in F32, F16 or BF16)"));
  testing::FloatTensors turned = whole;
  turned["model.layers.1.mlp.up_proj.weight"].shape = {64, 96};
  EXPECT_THAT(check(turned).error().message(),
              HasSubstr("'model.layers.1.mlp.up_proj.weight' of 'model.safetensors' has shape "
                        "[64, 96] and dtype F32; expected shape [96, 64]"));
}

TEST(WeightSpecs, RefusesIntegerWeights) {
  const auto config = ParseModelConfig(json::serialize(testing::TinyQwen3Config()));
  const std::string file = testing::Safetensors(
      R"({"model.embed_tokens.weight":{"dtype":"I8","shape":[400,64],"data_offsets":[0,25600]}})",
      std::string(25600, '\1'));
  const auto parsed =
      ParseSafetensors(Slice(std::vector<uint8_t>(file.begin(), file.end())), "x.safetensors");
  EXPECT_THAT(CheckWeights(SpecifyWeights(*config, {}), *parsed).error().message(),
              HasSubstr("'model.embed_tokens.weight' of 'x.safetensors' has shape [400, 64] and "
                        "dtype I8"));
}

TEST(ModelConfig, KnownModelsAreRefusedWithWhatIsMissing) {
  const std::pair<const char*, const char*> known[] = {
      {"gemma3n", "four residual streams (AltUp)"},
      {"kimi_linear", "a delta rule with a decay for each column"},
      {"llama4", "windows in chunks"},
      {"falcon_h1", "attention and Mamba2 side by side"},
      {"deepseek_v4", "hyper-connections"},
      {"qwen4_exp", "hyper-connections"},
      {"muse_glimmer", "a gate on attention with a projection of its own"},
  };
  for (const auto& [model_type, lacks] : known) {
    const auto config = Parse(Llama({{"model_type", model_type}}));
    ASSERT_FALSE(config.ok()) << model_type;
    EXPECT_EQ(config.error().code(), ErrorCode::kUnsupported);
    EXPECT_THAT(config.error().message(), HasSubstr(std::string("'") + model_type + "' is not"));
    EXPECT_THAT(config.error().message(), HasSubstr(lacks));
  }
}

TEST(ModelConfig, AContextOfFewerPositionsCanBeAskedFor) {
  const std::string text = json::serialize(testing::TinyQwen3Config());
  EXPECT_EQ(ParseModelConfig(text)->context_length, 256u);
  EXPECT_EQ(ParseModelConfig(text, 100)->context_length, 100u);
  const auto beyond = ParseModelConfig(text, 257);
  ASSERT_FALSE(beyond.ok());
  EXPECT_THAT(beyond.error().message(), HasSubstr("A context of 257 positions was asked for"));
}

}  // namespace
}  // namespace weft::convert
