// The real core with native workers in one process on weft-tiny: ids and margins that transformers
// computed (models/weft-tiny/expected.json), whatever the number of workers.
#include "apps/local_swarm.h"

#include <gtest/gtest.h>

#include <weft_source_dir.h>
#include <boost/json/parse.hpp>
#include <filesystem>

#include "apps/model_info.h"
#include "base/file.h"
#include "base/random.h"
#include "convert/convert.h"
#include "sampling/draw.h"
#include "text/test_data.h"

namespace weft::apps {
namespace {

class LocalSwarmTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::filesystem::temp_directory_path() / ("weft-local-swarm-" + SecureRandomHex(6));
    convert::ConvertOptions options;
    options.source = Model();
    options.package = folder_;
    const auto report = convert::ConvertCheckpoint(options, [](const convert::ConvertProgress&) {});
    ASSERT_TRUE(report.ok()) << report.error().ToString();
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder_); }
  static std::filesystem::path Model() {
    return std::filesystem::path(WEFT_SOURCE_DIR) / "models" / "weft-tiny";
  }

  static std::filesystem::path folder_;
};
std::filesystem::path LocalSwarmTest::folder_;

std::vector<int32_t> Ids(const boost::json::value& list) {
  std::vector<int32_t> ids;
  for (const auto& id : list.as_array()) ids.push_back(id.to_number<int32_t>());
  return ids;
}

TEST_F(LocalSwarmTest, AnswersAsTransformersDoesHoweverItIsCut) {
  const auto text = ReadTextFile(Model() / "expected.json");
  ASSERT_TRUE(text.ok());
  const auto expected = boost::json::parse(*text);
  const auto package = package::Package::Open(folder_);
  ASSERT_TRUE(package.ok()) << package.error().ToString();
  const auto model_text = LoadModelText(*package);
  ASSERT_TRUE(model_text.ok()) << model_text.error().ToString();
  for (const uint32_t workers : {1u, 3u, 10u}) {
    LocalSwarmOptions options;
    options.worker_count = workers;
    LocalSwarm swarm(*package, options);
    for (const auto& entry : expected.at("cases").as_array()) {
      swarm::Request request;
      request.prompt_ids = Ids(entry.at("prompt_ids"));
      EXPECT_EQ(*model_text->tokenizer().Encode(std::string(entry.at("prompt").as_string()), false),
                request.prompt_ids);
      const auto greedy = Ids(entry.at("greedy_ids"));
      request.max_tokens = static_cast<uint32_t>(greedy.size());
      request.sampling.temperature = 0;
      const auto answer = swarm.Run(std::move(request));
      ASSERT_TRUE(answer.ok()) << answer.error().ToString();
      ASSERT_EQ(answer->output_ids.size(), greedy.size());
      for (size_t i = 0; i < greedy.size(); ++i) {
        const double margin = entry.at("greedy_margin").as_array()[i].to_number<double>();
        if (answer->output_ids[i] != greedy[i]) {
          EXPECT_LT(margin, 0.01) << workers << " workers, step " << i;
          break;
        }
      }
    }
    EXPECT_EQ(swarm.snapshot().stages.size(), workers);
  }
}

// Every token that the swarm samples, by candidates or by the stage's draw, is the one that all
// logits of its position give.
TEST_F(LocalSwarmTest, SamplesFromAllLogits) {
  const auto package = package::Package::Open(folder_);
  ASSERT_TRUE(package.ok()) << package.error().ToString();
  const uint32_t vocabulary = package->manifest.vocabulary;
  const std::vector<int32_t> prompt = {5, 17, 300, 17};
  std::vector<sampling::Parameters> settings;
  for (const float temperature : {0.7f, 1.0f, 1.5f, 2.0f})
    settings.push_back({.temperature = temperature});
  settings.push_back({.temperature = 2, .top_p = 0.95f, .min_p = 0.001f});
  settings.push_back({.temperature = 1.5f,
                      .repetition_penalty = 1.3f,
                      .frequency_penalty = 1,
                      .logit_bias = {{700, 6}, {17, -100}}});
  settings.push_back({.temperature = 0, .presence_penalty = 2, .logit_bias = {{900, 12}}});
  for (const uint32_t workers : {1u, 3u}) {
    LocalSwarmOptions options;
    options.worker_count = workers;
    LocalSwarm swarm(*package, options);
    for (size_t i = 0; i < settings.size(); ++i) {
      sampling::Parameters params = settings[i];
      params.seed = 77 + i;
      swarm::Request request;
      request.prompt_ids = prompt;
      request.max_tokens = 24;
      request.sampling = params;
      const auto answer = swarm.Run(std::move(request));
      ASSERT_TRUE(answer.ok()) << answer.error().ToString();
      ASSERT_EQ(answer->output_ids.size(), 24u);
      std::vector<int32_t> tokens = prompt;
      tokens.insert(tokens.end(), answer->output_ids.begin(), answer->output_ids.end());
      request = {};
      request.prompt_ids = tokens;
      request.sampling.temperature = 0;
      request.want_logits = true;
      const auto whole = swarm.Run(std::move(request));
      ASSERT_TRUE(whole.ok()) << whole.error().ToString();
      for (size_t at = prompt.size(); at < tokens.size(); ++at) {
        const auto row = std::span(whole->prompt_logits).subspan((at - 1) * vocabulary, vocabulary);
        EXPECT_EQ(sampling::DrawAfterPenalties(params, std::span(tokens).first(at), row,
                                               CounterDouble(*params.seed, at, 0)),
                  tokens[at])
            << workers << " workers, setting " << i << ", position " << at;
      }
    }
  }
}

// Turns that go on from marks give what a swarm gives that never saw an earlier turn, and compute
// less.
TEST(LocalSwarmTurns, ARecurrentModelGoesOnFromItsMarks) {
  const auto source = TestDataFolder() / "checkpoints-2026" / "qwen3_5";
  WEFT_NEED_DATA(source);
  const auto folder =
      std::filesystem::temp_directory_path() / ("weft-recurrent-" + SecureRandomHex(6));
  convert::ConvertOptions conversion;
  conversion.source = source;
  conversion.package = folder;
  const auto report =
      convert::ConvertCheckpoint(conversion, [](const convert::ConvertProgress&) {});
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  const auto package = package::Package::Open(folder);
  ASSERT_TRUE(package.ok()) << package.error().ToString();
  std::vector<int32_t> prompt;
  SeededRandom random(5);
  while (prompt.size() < 150) prompt.push_back(static_cast<int32_t>(random.Below(100)));
  std::vector<swarm::Request> turns(3);
  for (swarm::Request& turn : turns) {
    turn.marks = {60, 140};
    turn.max_tokens = 12;
    turn.sampling.temperature = 0;
    turn.prompt_ids = prompt;
  }
  turns[1].prompt_ids[145] = 7;  // behind the second mark
  turns[2].prompt_ids[100] = 8;  // behind the first
  const auto rows = [](const LocalSwarm& swarm) {
    uint64_t count = 0;
    for (const auto& worker : swarm.snapshot().workers) count += worker.tokens_computed;
    return count;
  };
  for (const uint32_t workers : {1u, 3u}) {
    LocalSwarmOptions options;
    options.worker_count = workers;
    LocalSwarm kept(*package, options);
    uint64_t computed = 0;
    const std::vector<uint64_t> expected = {150 + 11, 150 - 140 + 11, 150 - 60 + 11};
    for (size_t i = 0; i < turns.size(); ++i) {
      const auto answer = kept.Run(turns[i]);
      ASSERT_TRUE(answer.ok()) << answer.error().ToString();
      LocalSwarm fresh(*package, options);
      const auto alone = fresh.Run(turns[i]);
      ASSERT_TRUE(alone.ok()) << alone.error().ToString();
      EXPECT_EQ(answer->output_ids, alone->output_ids) << workers << " workers, turn " << i;
      EXPECT_EQ(rows(kept) - computed, expected[i] * workers) << "turn " << i;
      computed = rows(kept);
    }
  }
  std::filesystem::remove_all(folder);
}

TEST_F(LocalSwarmTest, CutsEvenly) {
  swarm::StartPlanning job;
  for (int i = 0; i < 10; ++i) {
    planner::LayerCost layer;
    layer.compute_cost = 1000;
    layer.weight_bytes = i == 0 ? 4000 : 1000;
    job.layers.push_back(layer);
    planner::WorkerMetrics worker;
    worker.memory_bytes = 1 << 20;
    job.workers.push_back(worker);
  }
  const auto outcome = PlanEvenStages(job, 3);
  ASSERT_TRUE(outcome.plan) << outcome.problem;
  ASSERT_EQ(outcome.plan->stages.size(), 3u);
  // 13,000 in three contiguous stages: 5,000 is the least possible.
  for (const auto& stage : outcome.plan->stages) EXPECT_LE(stage.memory_bytes, 5000u);
  job.workers.resize(2);
  EXPECT_FALSE(PlanEvenStages(job, 3).plan);
}

}  // namespace
}  // namespace weft::apps
