// Checkpoints that make embeddings: what they say of it, and packages without an output head.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convert/convert.h"
#include "convert/source/checkpoint_testing.h"
#include "package/package.h"
#include "program/codec.h"

namespace weft::convert {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using ::testing::HasSubstr;

constexpr const char* kModules = R"([
  {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
  {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
  {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}
])";
constexpr const char* kLastToken =
    R"({"word_embedding_dimension": 64, "pooling_mode_cls_token": false,
        "pooling_mode_mean_tokens": false, "pooling_mode_lasttoken": true,
        "include_prompt": true})";

// As Qwen3-Embedding comes: no head, names without "model.".
class EmbeddingCheckpoint : public ::testing::Test {
 protected:
  EmbeddingCheckpoint() {
    testing::FloatTensors tensors;
    for (auto& [name, tensor] : testing::TinyQwen3())
      tensors.emplace(name.substr(std::string("model.").size()), tensor);
    json::object config = testing::TinyQwen3Config();
    config["architectures"] = {"Qwen3Model"};
    config["tie_word_embeddings"] = false;
    testing::WriteCheckpoint(source(), tensors, config);
    options_.source = source();
    options_.package = folder_.path() / "package";
    options_.force = true;
  }
  fs::path source() const { return folder_.path() / "tiny"; }
  void Write(const std::string& name, const std::string& text) const {
    fs::create_directories((source() / name).parent_path());
    testing::Write(source() / name, text);
  }
  void WriteSentenceTransformers() const {
    Write("modules.json", kModules);
    Write("1_Pooling/config.json", kLastToken);
  }
  Result<package::Package> Convert() const {
    TRY(ConvertCheckpoint(options_, [](const ConvertProgress&) {}));
    return package::Package::Open(options_.package);
  }
  std::string Refusal() const {
    const auto package = Convert();
    return package.ok() ? "it was converted" : package.error().message();
  }

  TemporaryFolder folder_;
  ConvertOptions options_;
};

TEST_F(EmbeddingCheckpoint, SaysHowItsRowsBecomeOne) {
  WriteSentenceTransformers();
  Write("config_sentence_transformers.json",
        R"({"prompts": {"query": "Instruct: find\nQuery:", "document": ""},
            "default_prompt_name": "query", "similarity_fn_name": "cosine"})");
  Write("sentence_bert_config.json", R"({"max_seq_length": 128, "do_lower_case": false})");
  const auto package = Convert();
  ASSERT_TRUE(package.ok()) << package.error().ToString();
  package::Embedding expected;
  expected.pooling = package::Pooling::kLast;
  expected.prompts = {{"query", "Instruct: find\nQuery:"}, {"document", ""}};
  expected.default_prompt = "query";
  EXPECT_EQ(package->manifest.embedding, expected);
  EXPECT_EQ(package->manifest.context_length, 128u);
  EXPECT_TRUE(package->manifest.lowered);
  // The head is a norm: its weight alone, and no matrix.
  const package::LayerInfo& head = package->manifest.layers.back();
  EXPECT_EQ(head.weight_bytes, 64u * 4);
  const auto bytes = package->blobs->Get(head.program, package->manifest.blobs.at(head.program));
  ASSERT_TRUE(bytes.ok());
  const auto program = program::Decode(bytes->bytes());
  ASSERT_TRUE(program.ok());
  ASSERT_EQ(program->ops.size(), 1u);
  EXPECT_EQ(program::OpName(program->ops[0]), "RmsNorm");
  EXPECT_EQ(program->buffers[program->output].columns, 64u);
}

TEST_F(EmbeddingCheckpoint, IsAskedHowWhereItDoesNotSay) {
  EXPECT_THAT(Refusal(), HasSubstr("'Qwen3Model', a model without an output head"));
  EXPECT_THAT(Refusal(), HasSubstr("--embedding mean or --embedding last"));
  options_.embedding.pooling = package::Pooling::kMean;
  options_.embedding.matryoshka = true;
  const auto package = Convert();
  ASSERT_TRUE(package.ok()) << package.error().ToString();
  EXPECT_EQ(package->manifest.embedding->pooling, package::Pooling::kMean);
  EXPECT_TRUE(package->manifest.embedding->normalize);
  EXPECT_TRUE(package->manifest.embedding->matryoshka);
}

// Qwen3-Embedding names the class with a head and has none.
TEST_F(EmbeddingCheckpoint, WithoutAHeadIsSeenByItsTensors) {
  Write("config.json", json::serialize(testing::TinyQwen3Config()));
  EXPECT_THAT(Refusal(), HasSubstr("The checkpoint has no output head"));
  WriteSentenceTransformers();
  EXPECT_TRUE(Convert().ok());
}

TEST_F(EmbeddingCheckpoint, WhatIsAskedCountsBeforeWhatItSays) {
  testing::WriteCheckpoint(source(), testing::TinyQwen3(), testing::TinyQwen3Config());
  WriteSentenceTransformers();
  EXPECT_EQ(Convert()->manifest.embedding->pooling, package::Pooling::kLast);
  options_.embedding.pooling = package::Pooling::kMean;
  EXPECT_EQ(Convert()->manifest.embedding->pooling, package::Pooling::kMean);
  options_.embedding = {.none = true};
  const auto package = Convert();
  ASSERT_TRUE(package.ok()) << package.error().ToString();
  EXPECT_FALSE(package->manifest.embedding.has_value());
  EXPECT_EQ(package->manifest.format(), package::kOldestPackageFormat);
  EXPECT_GT(package->manifest.layers.back().weight_bytes, 400u * 64 * 4);
}

TEST_F(EmbeddingCheckpoint, DimensionsAreReadAsOthersWriteThem) {
  WriteSentenceTransformers();
  json::object config = testing::TinyQwen3Config();
  config["matryoshka_dimensions"] = {32, 16};
  Write("config.json", json::serialize(config));
  const package::Embedding embedding = *Convert()->manifest.embedding;
  EXPECT_TRUE(embedding.matryoshka);
  EXPECT_EQ(embedding.dimensions, (std::vector<uint32_t>{16, 32}));
  config["matryoshka_dimensions"] = {"all"};
  Write("config.json", json::serialize(config));
  EXPECT_THAT(Refusal(), HasSubstr("'matryoshka_dimensions' in config.json holds \"all\""));
}

TEST_F(EmbeddingCheckpoint, WhatCannotBeComputedIsRefusedByName) {
  const auto with_pooling = [&](const std::string& text) {
    Write("1_Pooling/config.json", text);
    return Refusal();
  };
  WriteSentenceTransformers();
  EXPECT_THAT(with_pooling(R"({"pooling_mode_cls_token": true})"),
              HasSubstr("The pooling 'cls_token' in 1_Pooling/config.json is not supported"));
  EXPECT_THAT(with_pooling(R"({"pooling_mode": "max"})"), HasSubstr("The pooling 'max'"));
  EXPECT_THAT(with_pooling(R"({"pooling_mode_weightedmean_tokens": true})"),
              HasSubstr("The pooling 'weightedmean_tokens'"));
  EXPECT_THAT(with_pooling(R"({"pooling_mode_mean_tokens": true, "pooling_mode_lasttoken": true})"),
              HasSubstr("names 2 ways of pooling"));
  EXPECT_THAT(with_pooling("{}"), HasSubstr("names 0 ways of pooling"));
  EXPECT_THAT(with_pooling(R"({"pooling_mode_mean_tokens": true, "include_prompt": false})"),
              HasSubstr("leaves the rows of prompts out"));
  EXPECT_EQ(with_pooling(R"({"pooling_mode": "lasttoken"})"), "it was converted");
  Write("sentence_bert_config.json", R"({"do_lower_case": true})");
  EXPECT_THAT(Refusal(), HasSubstr("texts lower-cased"));
  fs::remove(source() / "sentence_bert_config.json");
  Write("modules.json", R"([{"path": "", "type": "x.Transformer"}, {"type": "x.Dense"}])");
  EXPECT_THAT(Refusal(), HasSubstr("a module 'Dense', which weft cannot run"));
  Write("modules.json", R"([{"path": "", "type": "x.Transformer"}])");
  EXPECT_THAT(Refusal(), HasSubstr("no module that pools rows"));
  Write("modules.json", R"({"a": 1})");
  EXPECT_THAT(Refusal(), HasSubstr("modules.json is no list"));
  Write("modules.json", R"([{"type": "x.Pooling", "path": "../1_Pooling"}])");
  EXPECT_THAT(Refusal(), HasSubstr("is not the plain name of a file"));
  WriteSentenceTransformers();
  json::object config = testing::TinyQwen3Config();
  config["is_causal"] = false;
  Write("config.json", json::serialize(config));
  EXPECT_THAT(Refusal(), HasSubstr("'is_causal' false"));
}

}  // namespace
}  // namespace weft::convert
