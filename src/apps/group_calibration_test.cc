// weft-tiny in neuron groups: the package that `weft groups` writes has the weights of the dense
// one, group by group, and answers as transformers does (models/weft-tiny/expected.json).
#include "apps/group_calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft_source_dir.h>
#include <algorithm>
#include <boost/json/parse.hpp>
#include <filesystem>
#include <set>

#include "apps/local_swarm.h"
#include "apps/model_info.h"
#include "apps/predictor_training.h"
#include "base/file.h"
#include "base/random.h"
#include "convert/convert.h"
#include "convert/package/group_package.h"
#include "program/shards.h"
#include "worker/layer_loader.h"
#include "worker/package_source.h"

namespace weft::apps {
namespace {

namespace fs = std::filesystem;
using GroupPrograms = std::vector<program::Program>;
using testing::HasSubstr;

constexpr uint32_t kColumns = 64;

fs::path ModelFolder() {
  return fs::path(WEFT_SOURCE_DIR) / "models" / "weft-tiny";
}

std::vector<int32_t> IdsOf(const boost::json::value& list) {
  std::vector<int32_t> ids;
  for (const auto& id : list.as_array()) ids.push_back(id.to_number<int32_t>());
  return ids;
}

std::vector<uint8_t> BytesOf(const std::vector<program::Part>& parts, worker::LayerLoader& loader) {
  std::vector<uint8_t> bytes;
  for (const program::Part& part : parts) {
    const auto piece = loader.Read(part);
    EXPECT_TRUE(piece.ok()) << piece.error().ToString();
    bytes.insert(bytes.end(), piece->bytes().begin(), piece->bytes().end());
  }
  return bytes;
}

class GroupPackageTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("weft-groups-" + SecureRandomHex(6));
    convert::ConvertOptions options;
    options.source = ModelFolder();
    options.package = folder_ / "dense";
    fs::create_directories(folder_);
    const auto report = convert::ConvertCheckpoint(options, [](const convert::ConvertProgress&) {});
    ASSERT_TRUE(report.ok()) << report.error().ToString();
    dense_ = package::Package::Open(folder_ / "dense").value();
    const auto text = ReadTextFile(ModelFolder() / "expected.json");
    ASSERT_TRUE(text.ok());
    expected_ = boost::json::parse(*text);
    loader_ = LoaderOf(dense_);
    programs_ = AllPrograms(*loader_);
    auto made = convert::GroupPackage::Make(dense_, InGroups(programs_, kColumns).value(),
                                            folder_ / "groups", false);
    ASSERT_TRUE(made.ok()) << made.error().ToString();
    const auto weights = LoaderOf(made->weights());
    GroupCalibration calibration(dense_.manifest, made->programs(), *weights, 2);
    ASSERT_TRUE(calibration.Load().ok());
    Documents documents;
    for (const auto& entry : expected_.at("cases").as_array())
      documents.push_back(IdsOf(entry.at("prompt_ids")));
    ASSERT_TRUE(calibration.Run(documents).ok());
    grouped_ = InGroups(programs_, kColumns, calibration.Grids()).value();
    const Status written = made->Finish(dense_, calibration.Grids(), calibration.Norms());
    ASSERT_TRUE(written.ok()) << written.error().ToString();
    groups_ = package::Package::Open(folder_ / "groups").value();
  }
  void TearDown() override { fs::remove_all(folder_); }

  static std::unique_ptr<worker::LayerLoader> LoaderOf(const package::Package& package) {
    return std::make_unique<worker::LayerLoader>(package.manifest,
                                                 worker::MakeLocalSource(package));
  }
  static GroupPrograms AllPrograms(worker::LayerLoader& loader) {
    return loader.Programs(0, static_cast<uint32_t>(loader.manifest().layers.size())).value();
  }

  fs::path folder_;
  boost::json::value expected_;
  package::Package dense_, groups_;
  std::unique_ptr<worker::LayerLoader> loader_;
  GroupPrograms programs_, grouped_;
};

TEST_F(GroupPackageTest, HasTheSameWeightsInABlobForEachGroup) {
  const auto loader = LoaderOf(groups_);
  const GroupPrograms read = AllPrograms(*loader);
  size_t layers = 0;
  for (size_t i = 0; i < read.size(); ++i) {
    ASSERT_EQ(read[i].weights.size(), grouped_[i].weights.size());
    for (size_t w = 0; w < read[i].weights.size(); ++w)
      for (const auto array :
           {&program::Weight::data, &program::Weight::scale, &program::Weight::zero})
        EXPECT_EQ(BytesOf(read[i].weights[w].*array, *loader),
                  BytesOf(grouped_[i].weights[w].*array, *loader_));
    if (!program::HasGroups(read[i])) continue;
    ++layers;
    const program::MoeExperts& experts = *program::FindExperts(read[i]);
    const std::vector<program::Part>& gate_up = read[i].weights[experts.gate_up].data;
    const std::vector<program::Part>& down = read[i].weights[experts.down].data;
    ASSERT_EQ(gate_up.size(), experts.experts);
    std::set<Sha256Digest> blobs;
    for (uint32_t group = 0; group < experts.experts; ++group) {
      EXPECT_EQ(gate_up[group].digest, down[group].digest);
      blobs.insert(gate_up[group].digest);
    }
    EXPECT_EQ(blobs.size(), experts.experts);
  }
  EXPECT_EQ(layers + 2, read.size());
  EXPECT_FALSE(groups_.manifest.has_onnx);
  EXPECT_TRUE(groups_.manifest.files.contains("tokenizer.json"));
  EXPECT_FALSE(groups_.manifest.files.contains("model.onnx"));
  const swarm::ModelInfo info = ModelInfoOf(groups_);
  EXPECT_TRUE(info.is_in_groups());
  ASSERT_EQ(info.layers[1].group_norms.size(), info.layers[1].expert_count);
  for (const float norm : info.layers[1].group_norms) EXPECT_GT(norm, 0);
  EXPECT_TRUE(info.layers[0].group_norms.empty());
  EXPECT_EQ(info.layers[1].weight_bytes, dense_.manifest.layers[1].weight_bytes);
  EXPECT_FALSE(ModelInfoOf(dense_).is_in_groups());
}

TEST_F(GroupPackageTest, AnswersAsTransformersDoes) {
  for (const uint32_t workers : {1u, 3u}) {
    LocalSwarmOptions options;
    options.worker_count = workers;
    LocalSwarm swarm(groups_, options);
    for (const auto& entry : expected_.at("cases").as_array()) {
      swarm::Request request;
      request.prompt_ids = IdsOf(entry.at("prompt_ids"));
      const auto greedy = IdsOf(entry.at("greedy_ids"));
      request.max_tokens = static_cast<uint32_t>(greedy.size());
      request.sampling.temperature = 0;
      const auto answer = swarm.Run(std::move(request));
      ASSERT_TRUE(answer.ok()) << answer.error().ToString();
      ASSERT_EQ(answer->output_ids.size(), greedy.size());
      const auto [got, wanted] =
          std::mismatch(answer->output_ids.begin(), answer->output_ids.end(), greedy.begin());
      if (wanted == greedy.end()) continue;
      const auto step = static_cast<size_t>(wanted - greedy.begin());
      EXPECT_LT(entry.at("greedy_margin").as_array()[step].to_number<double>(), 0.02)
          << workers << " workers, step " << step;
    }
  }
}

TEST_F(GroupPackageTest, ShowsRowsAndNormsToAnObserverOnGridsToo) {
  const auto loader = LoaderOf(groups_);
  GroupCalibration calibration(groups_.manifest, AllPrograms(*loader), *loader, 2);
  ASSERT_TRUE(calibration.Load().ok());
  PredictorCollector collector(1000);
  calibration.Observe(
      [&collector](const engine::SlotRequest& request, std::span<const float> norms) {
        collector.Add(request, norms);
      });
  const Documents documents = {IdsOf(expected_.at("cases").as_array().front().at("prompt_ids"))};
  const std::vector<int32_t>& ids = documents.front();
  ASSERT_TRUE(calibration.Run(documents).ok());
  const package::GroupNorms means = calibration.Norms();
  ASSERT_EQ(collector.layers().size(), groups_.manifest.layers.size() - 2);
  for (const PredictorRows& rows : collector.layers()) {
    EXPECT_EQ(rows.reads, std::max(1u, rows.layer - 1));
    ASSERT_EQ(rows.count(), ids.size());
    EXPECT_EQ(rows.inputs.size(), ids.size() * groups_.manifest.hidden_columns);
    double sum = 0;
    for (size_t row = 0; row < rows.count(); ++row) sum += rows.norms[row * rows.groups];
    EXPECT_NEAR(sum / static_cast<double>(rows.count()), means[rows.layer][0], 1e-3);
  }
}

// The layer with biases of its MLP: as there are none, numbers of its first norm stand for them.
void AddBiases(program::Program& layer) {
  const auto numbers = [&layer](uint32_t count) {
    const auto is_norm = [](const program::Op& op) {
      return std::holds_alternative<program::RmsNorm>(op);
    };
    const auto norm = std::ranges::find_if(layer.ops, is_norm);
    const program::Weight& weight = layer.weights[std::get<program::RmsNorm>(*norm).weight];
    program::Weight bias{weight.name + ".bias", weight.dtype, {count}, {}, {}, {}};
    for (uint64_t i = 0; i < count / weight.shape[0]; ++i)
      bias.data.insert(bias.data.end(), weight.data.begin(), weight.data.end());
    layer.weights.push_back(std::move(bias));
    return static_cast<program::WeightId>(layer.weights.size() - 1);
  };
  for (size_t i = 0; i < layer.ops.size(); ++i) {
    const auto* activation = std::get_if<program::GatedActivation>(&layer.ops[i]);
    if (activation == nullptr) continue;
    for (size_t k = 0; k <= i + 1; ++k) {
      auto* product = std::get_if<program::MatMul>(&layer.ops[k]);
      if (product == nullptr) continue;
      const bool is_down = k == i + 1;
      if (is_down || product->out.buffer == activation->gate.buffer ||
          product->out.buffer == activation->up.buffer)
        product->bias = numbers(product->out.columns);
    }
  }
}

TEST_F(GroupPackageTest, HasTheBiasesOfAGroupInItsBlob) {
  GroupPrograms biased = programs_;
  for (size_t i = 1; i + 1 < biased.size(); ++i) AddBiases(biased[i]);
  const GroupPrograms parts = InGroups(biased, kColumns).value();
  const auto made = convert::GroupPackage::Make(dense_, parts, folder_ / "biased", false);
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  const auto loader = LoaderOf(made->weights());
  const program::Program& layer = made->programs()[1];
  const program::MoeExperts& groups = *program::FindExperts(layer);
  const std::vector<program::Part>& up = layer.weights[groups.gate_up_bias.value()].data;
  const std::vector<program::Part>& down = layer.weights[groups.down_bias.value()].data;
  ASSERT_EQ(up.size(), groups.experts);
  ASSERT_EQ(down.size(), groups.experts);
  for (uint32_t group = 0; group < groups.experts; ++group) {
    const Sha256Digest& blob = layer.weights[groups.down].data[group].digest;
    EXPECT_EQ(up[group].digest, blob);
    EXPECT_EQ(down[group].digest, blob);
    const std::vector<uint8_t> bytes = BytesOf({down[group]}, *loader);
    const bool is_zero = std::ranges::all_of(bytes, [](uint8_t byte) { return byte == 0; });
    EXPECT_EQ(is_zero, group > 0);
  }
  EXPECT_EQ(BytesOf(up, *loader), BytesOf(parts[1].weights[*groups.gate_up_bias].data, *loader_));
  std::vector<uint8_t> first = BytesOf({down[0]}, *loader);
  EXPECT_EQ(first, BytesOf({parts[1].weights[*groups.down_bias].data.front()}, *loader_));
}

TEST_F(GroupPackageTest, IsMeasuredOnChatsToo) {
  const fs::path file = folder_ / "text.jsonl";
  std::string lines = "\"A fox.\"\n\"" + std::string(399, 'a') + "\u00e9\"\n";
  for (int i = 0; i < 10; ++i) lines += "\"More.\"\n";
  ASSERT_TRUE(WriteFileAtomically(file, AsBytes(lines)).ok());
  const api::ModelText text = LoadModelText(dense_).value();
  const Documents chats = ReadChats(file, text).value();
  EXPECT_EQ(chats.size(), 8u);
  api::ChatRequest chat;
  for (const char* role : {"user", "assistant", "user"})
    chat.messages.push_back({{"role", role}, {"content", "A fox."}});
  EXPECT_EQ(chats[0], text.EncodeChat(chat).value());
  for (auto& message : chat.messages) message.as_object()["content"] = std::string(399, 'a');
  EXPECT_EQ(chats[1], text.EncodeChat(chat).value()) << "half a character is left out";
}

TEST_F(GroupPackageTest, IsCutOnce) {
  const auto again = InGroups(AllPrograms(*LoaderOf(groups_)), kColumns);
  ASSERT_FALSE(again.ok());
  EXPECT_THAT(again.error().message(), HasSubstr("neuron groups already"));
  const auto twice = convert::GroupPackage::Make(dense_, InGroups(programs_, kColumns).value(),
                                                 folder_ / "groups", false);
  ASSERT_FALSE(twice.ok());
  EXPECT_EQ(twice.error().code(), ErrorCode::kAlreadyExists);
}

}  // namespace
}  // namespace weft::apps
