// The work of a stage host on a small random model: loading, tokens by the frame, unloading.
#include "worker/stage_host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/test_model.h"

namespace weft::worker {
namespace {

using testing::HasSubstr;

class StageHostTest : public testing::Test {
 protected:
  StageHostTest() {
    const engine::ModelSpec spec;
    programs_ = engine::ModelBuilder(spec, engine::RandomTensors(1), weights_).Build();
    model_.layers.resize(programs_.size(), {1000});
    model_.vocabulary = spec.vocabulary;
    model_.hidden_columns = spec.hidden;
    model_.boundary_dtype = DType::kF32;
    MakeHost();
  }

  void MakeHost() {
    host_ = std::make_unique<StageHost>(model_, engine::MakeNativeEngine({.thread_count = 1}),
                                        [this] { return now_ = now_ + Microseconds(10); });
  }

  LayerRange whole() const { return {0, static_cast<uint32_t>(programs_.size())}; }

  Result<Outcome> Install(LayerRange range) {
    const auto some = std::span(programs_).subspan(range.first, range.end - range.first);
    auto read = host_->Read(some, weights_);
    EXPECT_TRUE(read.ok());
    return host_->Do(InstallLayers{std::move(read).value(), {range}});
  }

  // A step of token ids through the whole model; the best token after the last of them.
  Result<int32_t> Step(uint32_t session, uint32_t first, std::vector<int32_t> ids) {
    wire::Frame frame;
    frame.header.rows = static_cast<uint32_t>(ids.size());
    frame.header.columns = 1;
    frame.header.dtype = DType::kI32;
    frame.runs = {
        {session, 0, first, static_cast<uint16_t>(ids.size()), wire::OutputKind::kArgmax, 0}};
    const ByteSpan bytes = AsBytes(std::span<const int32_t>(ids));
    frame.payload = Slice(std::vector<uint8_t>(bytes.begin(), bytes.end()));
    ASSIGN_OR_RETURN(const Outcome outcome, host_->Do(RunStep{frame, whole(), now_}));
    const auto& message = std::get<StepReply>(outcome).message;
    ASSIGN_OR_RETURN(const wire::ArgmaxResult best, wire::DecodeArgmax(message.at(1).bytes(), 128));
    return best.token_id;
  }

  wire::Generate Asked(uint32_t session, uint32_t position, int32_t token, uint16_t interval) {
    wire::Generate asked;
    asked.sequence = 9;
    asked.session = session;
    asked.position = position;
    asked.token_id = token;
    asked.count = 8;
    asked.interval = interval;
    asked.sampling.temperature = 0;
    asked.sampling.seed = 1;
    return asked;
  }

  // All tokens of a Generate, frame after frame.
  std::vector<int32_t> Generated(wire::Generate asked) {
    std::vector<int32_t> tokens;
    for (bool last = false; !last;) {
      auto outcome = host_->Do(MakeTokens{{std::move(asked)}});
      if (!outcome.ok()) {
        ADD_FAILURE() << outcome.error().ToString();
        return tokens;
      }
      MadeOfOne& made = std::get<MadeTokens>(*outcome).of_each.at(0);
      EXPECT_FALSE(made.error.has_value());
      tokens.insert(tokens.end(), made.tokens.token_ids.begin(), made.tokens.token_ids.end());
      EXPECT_EQ(made.tokens.sequence, 9u);
      last = made.tokens.last;
      asked = std::move(made.rest);
    }
    return tokens;
  }

  engine::MemorySource weights_;
  std::vector<program::Program> programs_;
  ModelShape model_;
  Instant now_{1};
  std::unique_ptr<StageHost> host_;
};

// A session that begins as another one goes on like that one; what cannot be forked is refused by
// the step behind it.
TEST_F(StageHostTest, ForksGoOnLikeTheSessionThatTheyShare) {
  ASSERT_TRUE(Install(whole()).ok());
  const std::vector<int32_t> ids = {5, 9, 2, 77, 3, 14, 1, 60};
  ASSERT_TRUE(Step(1, 0, ids).ok());
  const auto expected = Step(1, 8, {4, 8});
  ASSERT_TRUE(expected.ok());
  ASSERT_TRUE(host_->Do(ForkSession{whole(), {1, 2, 0, 8}}).ok());
  const auto forked = Step(2, 8, {4, 8});
  ASSERT_TRUE(forked.ok()) << forked.error().ToString();
  EXPECT_EQ(*forked, *expected);
  ASSERT_TRUE(host_->Do(ForkSession{whole(), {1, 3, 0, 11}}).ok());
  const auto refused = Step(3, 11, {4});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message(), HasSubstr("Session 3 is unknown"));
}

TEST_F(StageHostTest, TokensByTheFrameAreThoseOfSteps) {
  ASSERT_TRUE(Install(whole()).ok());
  const std::vector<int32_t> prompt = {3, 1, 4, 1, 5};
  std::vector<int32_t> expected;
  for (int32_t token = Step(1, 0, prompt).value(); expected.size() < 8;) {
    expected.push_back(token);
    token = Step(1, static_cast<uint32_t>(prompt.size() + expected.size() - 1), {token}).value();
  }
  // The prompt but for its last token goes in a step, as the orchestrator sends it.
  uint32_t session = 1;
  for (const uint16_t interval : {1, 3, 8}) {
    ASSERT_TRUE(Step(++session, 0, {3, 1, 4, 1}).ok());
    EXPECT_EQ(Generated(Asked(session, 4, 5, interval)), expected);
  }
  // A stop token is the last one.
  ASSERT_TRUE(Step(++session, 0, {3, 1, 4, 1}).ok());
  wire::Generate stops = Asked(session, 4, 5, 8);
  stops.stop_ids = {expected[2]};
  const auto end = std::find(expected.begin(), expected.end(), expected[2]) + 1;
  EXPECT_EQ(Generated(stops), std::vector<int32_t>(expected.begin(), end));
}

// One session greedy, one that draws with penalties, one whose token is none of the vocabulary.
TEST_F(StageHostTest, ABatchGivesEachWhatItGetsAlone) {
  ASSERT_TRUE(Install(whole()).ok());
  for (uint32_t session = 1; session <= 4; ++session)
    ASSERT_TRUE(Step(session, 0, {3, 1, 4, 1}).ok());
  wire::Generate draws = Asked(1, 4, 5, 2);
  draws.sampling.temperature = 1.5f;
  draws.sampling.frequency_penalty = 2;
  draws.seen = {{3, 1}, {1, 2}, {4, 1}, {5, 1}};
  const std::vector<int32_t> greedy_alone = Generated(Asked(2, 4, 5, 2));
  const std::vector<int32_t> drawn_alone = Generated(draws);
  draws.session = 3;
  std::vector<wire::Generate> asked = {Asked(4, 4, 5, 3), draws, Asked(5, 0, 128, 2)};
  std::vector<std::vector<int32_t>> made(2);
  for (int batch = 0; !asked.empty(); ++batch) {
    auto outcome = host_->Do(MakeTokens{std::move(asked)});
    ASSERT_TRUE(outcome.ok());
    asked.clear();
    auto& of_each = std::get<MadeTokens>(*outcome).of_each;
    ASSERT_EQ(of_each.size(), batch == 0 ? 3u : 2u);
    EXPECT_EQ(of_each.back().error.has_value(), batch == 0);
    for (size_t i = 0; i < 2; ++i) {
      const auto& ids = of_each[i].tokens.token_ids;
      EXPECT_EQ(ids.size(), 2u);  // the least interval of all
      made[i].insert(made[i].end(), ids.begin(), ids.end());
      if (!of_each[i].tokens.last) asked.push_back(std::move(of_each[i].rest));
    }
  }
  EXPECT_EQ(made[0], greedy_alone);
  EXPECT_EQ(made[1], drawn_alone);
}

TEST_F(StageHostTest, DrawsAndPenaltiesDoNotDependOnTheInterval) {
  ASSERT_TRUE(Install(whole()).ok());
  std::vector<std::vector<int32_t>> made;
  uint32_t session = 0;
  for (const uint16_t interval : {1, 8}) {
    ASSERT_TRUE(Step(++session, 0, {3, 1, 4, 1}).ok());
    wire::Generate asked = Asked(session, 4, 5, interval);
    asked.sampling.temperature = 1.5f;
    asked.sampling.seed = 77;
    asked.sampling.frequency_penalty = 2;
    asked.seen = {{3, 1}, {1, 2}, {4, 1}, {5, 1}};
    made.push_back(Generated(asked));
  }
  EXPECT_EQ(made[0].size(), 8u);
  EXPECT_EQ(made[0], made[1]);
  ASSERT_TRUE(Step(++session, 0, {3, 1, 4, 1}).ok());
  EXPECT_NE(Generated(Asked(session, 4, 5, 8)), made[0]);  // greedy
}

TEST_F(StageHostTest, LayersThatWentWhileOthersWereReadAreNotPrepared) {
  ASSERT_TRUE(Install({0, 2}).ok());
  auto read = host_->Read(programs_, weights_);  // counts on those two
  ASSERT_TRUE(read.ok());
  ASSERT_TRUE(host_->Do(KeepLayers{{{1, 2}}}).ok());
  const auto outcome = host_->Do(InstallLayers{std::move(read).value(), {whole()}});
  ASSERT_FALSE(outcome.ok());
  EXPECT_THAT(outcome.error().message(), HasSubstr("were unloaded"));
}

// As with tied embeddings: of 1000 bytes of the last layer 400 are the first one's.
TEST_F(StageHostTest, SharedWeightsCountOnceInTheFactor) {
  model_.layers.back().shared = {0, 400};
  MakeHost();
  const auto stored_bytes = [&](LayerRange layers) {
    const Result<Outcome> outcome = Install(layers);
    EXPECT_TRUE(outcome.ok()) << outcome.error().ToString();
    const Installed& installed = std::get<Installed>(*outcome);  // nothing is used but weights
    return static_cast<double>(installed.used_bytes) / installed.weight_factor;
  };
  const uint32_t count = whole().end;
  EXPECT_DOUBLE_EQ(stored_bytes({1, count}), 1000.0 * (count - 1)) << "without the first";
  EXPECT_DOUBLE_EQ(stored_bytes({0, 1}), 1000.0 * count - 400) << "with both";
}

TEST_F(StageHostTest, StockIsWhatAllLayersOfABindingHold) {
  ASSERT_TRUE(Install(whole()).ok());
  ASSERT_TRUE(Step(1, 0, {3, 1, 4}).ok());
  ASSERT_TRUE(Step(2, 0, {1}).ok());
  ASSERT_TRUE(host_->Do(KeepLayers{{{0, 2}}}).ok());
  ASSERT_TRUE(Install(whole()).ok());
  ASSERT_TRUE(Step(5, 0, {1, 5}).ok());
  TakeStock work;
  for (const LayerRange layers : {LayerRange{0, 2}, whole()}) {
    work.bindings.emplace_back().mutable_layers()->set_first(layers.first);
    work.bindings.back().mutable_layers()->set_end(layers.end);
    work.forms.push_back(LayerForm::kWhole);
  }
  work.sessions = {1, 2, 5, 9};
  const auto outcome = host_->Do(std::move(work));
  ASSERT_TRUE(outcome.ok()) << outcome.error().ToString();
  const auto& bindings = std::get<Stock>(*outcome).bindings;
  EXPECT_THAT(bindings.at(0).sessions(), testing::ElementsAre(1, 2, 5));
  EXPECT_THAT(bindings.at(0).positions(), testing::ElementsAre(3, 1, 2));
  // The others have lost what the layers held that were unloaded meanwhile.
  EXPECT_THAT(bindings.at(1).sessions(), testing::ElementsAre(5));
  EXPECT_THAT(bindings.at(1).positions(), testing::ElementsAre(2));
}

TEST_F(StageHostTest, MeasuresEachRangeSoOften) {
  ASSERT_TRUE(Install(whole()).ok());
  const auto outcome = host_->Do(MeasureSpeed{{{0, 2}, whole()}, 7});
  ASSERT_TRUE(outcome.ok()) << outcome.error().ToString();
  const auto& timings = std::get<Timings>(*outcome).of_ranges;
  ASSERT_EQ(timings.size(), 2u);
  EXPECT_EQ(timings[0].runs, std::vector<Duration>(7, Microseconds(10)));
  EXPECT_EQ(timings[1].layers.end, whole().end);
  // Nothing is left of it.
  EXPECT_TRUE(Step(kMeasureSession, 0, {1}).ok());
  ASSERT_TRUE(host_->Do(ReleaseAll{}).ok());
  const auto gone = host_->Do(MeasureSpeed{{{0, 2}}, 1});
  ASSERT_FALSE(gone.ok());
  EXPECT_THAT(gone.error().message(), HasSubstr("not loaded"));
}

}  // namespace
}  // namespace weft::worker
