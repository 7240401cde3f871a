// `weft convert` over ONNX folders: what is refused and how, what is kept when a layer cannot be
// lowered. That imported models compute what they should is tested in apps/onnx_import_test.cc.
#include "convert/onnx_import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convert/checkpoint_testing.h"
#include "onnx/layers.h"
#include "onnx/load.h"
#include "onnx/onnx_testing.h"
#include "onnx/write.h"
#include "package/package.h"

namespace weft::convert {
namespace {

namespace fs = std::filesystem;

using onnx::ElementType;
using onnx::Tensor;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kConfig[] =
    R"({"model_type": "llama", "max_position_embeddings": 128, "vocab_size": 16})";

// A folder with a decoder whose layers are wired as real ones, but compute something else.
class OnnxFolder : public ::testing::Test {
 protected:
  OnnxFolder() : model_(onnx::testing::MakeDecoder({})) {
    fs::create_directories(folder());
    testing::Write(folder() / "config.json", kConfig);
  }
  fs::path folder() const { return temporary_.path() / "model"; }
  fs::path package() const { return temporary_.path() / "package"; }

  void Save() { ASSERT_TRUE(onnx::SaveModel(model_, folder() / "model.onnx").ok()); }
  Result<ConvertReport> Convert(ConvertOptions options = {}) {
    options.source = folder();
    options.package = package();
    return ConvertCheckpoint(options, [](const ConvertProgress&) {});
  }
  // The refusal, after which nothing has the package's name.
  std::string Refusal(ConvertOptions options = {}) {
    const auto report = Convert(std::move(options));
    EXPECT_FALSE(report.ok());
    EXPECT_FALSE(fs::exists(package()));
    return report.ok() ? "" : report.error().ToString();
  }

  testing::TemporaryFolder temporary_;
  onnx::Model model_;
};

TEST_F(OnnxFolder, ALayerThatCannotBeLoweredIsServedAsOnnxAndNamed) {
  Save();
  const auto report = Convert();
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_FALSE(report->lowered);
  EXPECT_THAT(report->why_not_lowered, AllOf(HasSubstr("node"), HasSubstr("layer 1")));
  EXPECT_THAT(report->warnings, ::testing::Contains(HasSubstr("no tokenizer.json")));
  EXPECT_EQ(report->transformer_layers, 3u);

  const auto opened = package::Package::Open(package());
  ASSERT_TRUE(opened.ok()) << opened.error().ToString();
  EXPECT_FALSE(opened->manifest.lowered);
  EXPECT_EQ(opened->manifest.architecture, "llama");
  EXPECT_EQ(opened->manifest.context_length, 128u);
  EXPECT_EQ(opened->manifest.layers.size(), 5u);
  auto graph = onnx::LoadModel(package() / "model.onnx", {.resolve_external = false});
  ASSERT_TRUE(graph.ok()) << graph.error().ToString();
  EXPECT_TRUE(onnx::FindLayers(std::move(graph).value()).ok());
}

TEST_F(OnnxFolder, DataOutsideTheFolderIsRefused) {
  testing::Write(temporary_.path() / "secret", std::string(64 * 4, 'x'));
  model_.graph.AddInitializer("table", Tensor::At(ElementType::kFloat, {16, 4}, "../secret", 0));
  Save();
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("../secret"), HasSubstr("model.onnx")));
}

TEST_F(OnnxFolder, MissingAndShortDataIsNamed) {
  model_.graph.AddInitializer("table", Tensor::At(ElementType::kFloat, {16, 4}, "gone.data", 0));
  Save();
  EXPECT_THAT(Refusal(), HasSubstr("gone.data"));
  testing::Write(folder() / "gone.data", std::string(100, 'x'));
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("table"), HasSubstr("100")));
}

TEST_F(OnnxFolder, ATruncatedModelIsRefused) {
  Save();
  const std::string bytes = testing::Read(folder() / "model.onnx");
  testing::Write(folder() / "model.onnx", bytes.substr(0, bytes.size() / 2));
  EXPECT_THAT(Refusal(), HasSubstr("model.onnx"));
}

TEST_F(OnnxFolder, ACyclicGraphIsRefused) {
  model_.graph.AddNode("Add", {"b", "b"}, {"a"}, {}, "", "first");
  model_.graph.AddNode("Add", {"a", "a"}, {"b"}, {}, "", "second");
  Save();
  EXPECT_THAT(Refusal(), HasSubstr("cycle"));
}

TEST_F(OnnxFolder, AFolderMustSayForHowManyPositionsItIs) {
  Save();
  fs::remove(folder() / "config.json");
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("config.json"), HasSubstr("genai_config.json")));
  testing::Write(folder() / "genai_config.json", R"({"model": {"context_length": 0}})");
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("genai_config.json"), HasSubstr("context_length")));
  testing::Write(folder() / "genai_config.json", R"([1])");
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("genai_config.json"), HasSubstr("object")));
  testing::Write(folder() / "genai_config.json",
                 R"({"model": {"context_length": 64, "type": "qwen3", "eos_token_id": [2, 7]}})");
  ASSERT_TRUE(Convert().ok());
  EXPECT_EQ(testing::Read(package() / "generation_config.json"), R"({"eos_token_id":[2,7]})");
}

TEST_F(OnnxFolder, WeightsAreTakenAsTheyAre) {
  Save();
  EXPECT_THAT(Refusal({.quantisation = DType::kQ4}), HasSubstr("--quant"));
}

TEST_F(OnnxFolder, AnExistingPackageIsKeptUnlessForced) {
  Save();
  ASSERT_TRUE(Convert().ok());
  EXPECT_EQ(Convert().error().code(), ErrorCode::kAlreadyExists);
  EXPECT_TRUE(Convert({.force = true}).ok());
}

TEST_F(OnnxFolder, AGraphWithoutLayersIsRefused) {
  model_.graph.outputs.resize(1);
  Save();
  EXPECT_THAT(Refusal(), HasSubstr("model.onnx"));
}

}  // namespace
}  // namespace weft::convert
