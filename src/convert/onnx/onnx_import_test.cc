// `weft convert` over ONNX folders: what is refused and how, what is kept when a layer cannot be
// lowered. That imported models compute what they should is tested in apps/onnx_import_test.cc.
#include "convert/onnx/onnx_import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

#include "convert/convert.h"
#include "convert/source/checkpoint_testing.h"
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

  TemporaryFolder temporary_;
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

TEST_F(OnnxFolder, AMergedDecoderWhoseMaskIsUnknownIsRefused) {
  model_ = onnx::testing::Merged(std::move(model_));
  Save();
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("is a merged decoder ('use_cache_branch')"),
                               HasSubstr("layer 1"), HasSubstr("Export one graph")));
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

// Path -> contents of all files below a folder.
std::map<std::string, std::string> FilesBelow(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    files[entry.path().lexically_relative(folder).string()] = testing::Read(entry.path());
  }
  return files;
}

// A decoder with two tables of 256 KiB in a file beside it.
class InterruptedImport : public OnnxFolder {
 protected:
  InterruptedImport() {
    std::string bytes(2 * kTableBytes, '\0');
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 2654435761u >> 13);
    testing::Write(Data(), bytes);
    model_.graph.AddInitializer("table", Tensor::At(ElementType::kFloat, {1 << 14, 4}, "data", 0));
    model_.graph.AddInitializer("head",
                                Tensor::At(ElementType::kFloat, {4, 1 << 14}, "data", kTableBytes));
    model_.graph.outputs.clear();
    for (const onnx::ValueInfo& output : onnx::testing::MakeDecoder({}).graph.outputs) {
      if (output.name != "logits") model_.graph.outputs.push_back(output);
    }
    model_.graph.AddOutput(
        "logits", ElementType::kFloat,
        {onnx::Dim::Of("batch_size"), onnx::Dim::Of("sequence_length"), onnx::Dim::Of(1 << 14)});
    Save();
  }
  fs::path Data() const { return folder() / "data"; }

  // Converts in a process of its own, which the signal ends after the first table.
  void ConvertUntil(int signal) {
    const auto convert = [&] {
      std::signal(signal, SIG_DFL);  // shells start jobs in the background without SIGINT
      uint64_t calls = 0;
      (void)ConvertCheckpoint({.source = folder(), .package = package()},
                              [&](const ConvertProgress& progress) {
                                if (progress.done_bytes > kTableBytes) raise(signal);
                                ++calls;
                              });
      std::_Exit(calls > 0 ? 0 : 1);
    };
    EXPECT_EXIT(convert(), ::testing::KilledBySignal(signal), "");
    EXPECT_FALSE(fs::exists(package()));
  }

  static constexpr uint64_t kTableBytes = 256 << 10;
};

TEST_F(InterruptedImport, GoesOnWithWhatWasFinished) {
  ASSERT_TRUE(Convert().ok());
  const auto whole = FilesBelow(package());
  fs::remove_all(package());
  for (const int signal : {SIGINT, SIGKILL, SIGTERM}) {
    ConvertUntil(signal);
    const auto report = Convert();
    ASSERT_TRUE(report.ok()) << report.error().ToString();
    EXPECT_EQ(report->kept_bytes, kTableBytes);
    EXPECT_EQ(report->source_bytes, 2 * kTableBytes);
    EXPECT_EQ(FilesBelow(package()), whole);
    EXPECT_FALSE(fs::exists(package().string() + ".partial"));
    fs::remove_all(package());
  }
}

TEST_F(InterruptedImport, KeepsNothingOfAModelThatChanged) {
  ConvertUntil(SIGKILL);
  std::string bytes = testing::Read(Data());
  bytes[100] ^= 1;
  testing::Write(Data(), bytes);
  fs::last_write_time(Data(), fs::last_write_time(Data()) + std::chrono::seconds(5));
  const auto report = Convert();
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_EQ(report->kept_bytes, 0u);
  const package::Digest table = package::Digest::Of(AsBytes(bytes).first(kTableBytes));
  EXPECT_TRUE(fs::exists(package() / "blobs" / table.ToHex()));
}

TEST_F(InterruptedImport, MakesAgainWhatWasDamaged) {
  ASSERT_TRUE(Convert().ok());
  const auto whole = FilesBelow(package());
  fs::remove_all(package());
  ConvertUntil(SIGKILL);
  for (const auto& entry : fs::directory_iterator(package().string() + ".partial/blobs")) {
    std::string bytes = testing::Read(entry.path());
    if (bytes.empty()) continue;  // of the table that was begun
    bytes.back() ^= 1;
    testing::Write(entry.path(), bytes);
  }
  const auto report = Convert();
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_EQ(report->kept_bytes, 0u);
  EXPECT_EQ(FilesBelow(package()), whole);
}

TEST_F(OnnxFolder, AGraphWithoutLayersIsRefused) {
  model_.graph.outputs.resize(1);
  Save();
  EXPECT_THAT(Refusal(), HasSubstr("model.onnx"));
}

}  // namespace
}  // namespace weft::convert
