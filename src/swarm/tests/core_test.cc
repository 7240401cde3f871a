// The core from the first worker to the last token.
#include "swarm/core/core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "swarm/tests/core_testing.h"

namespace weft::swarm {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

TEST(Core, OneWorkerComesUpAndGenerates) {
  TestSwarm swarm;
  EXPECT_EQ(swarm.picture().state, SwarmState::kDown);
  const WorkerId id = swarm.Join();
  swarm.Advance(Milliseconds(150));
  EXPECT_EQ(swarm.Sent(id), "init prepare_stage");
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
  const RequestId request = swarm.Submit({3, 4, 5}, 4);
  EXPECT_THAT(swarm.Tokens(request), ElementsAre(6, 7, 8, 9));
  ASSERT_THAT(swarm.Ends(request), SizeIs(1));
  const FinishRequest end = swarm.Ends(request)[0];
  EXPECT_EQ(end.reason, FinishReason::kLength);
  EXPECT_EQ(end.prompt_tokens, 3u);
  EXPECT_EQ(end.generated_tokens, 4u);
  EXPECT_EQ(end.cached_prompt_tokens, 0u);
}

TEST(Core, ThreeWorkersThatNeedEachOtherShareTheModel) {
  TestSwarm swarm;
  TestWorker small;
  small.memory_bytes = 2'500'000;
  swarm.BringUp(3, small);
  const Snapshot picture = swarm.picture();
  ASSERT_THAT(picture.stages, SizeIs(3));
  uint32_t next = 0;
  for (const StageSnapshot& stage : picture.stages) {
    EXPECT_EQ(stage.first_layer, next);
    next = stage.end_layer;
    EXPECT_EQ(stage.end_layer - stage.first_layer, 2u);
  }
  EXPECT_EQ(next, 6u);
  std::vector<int32_t> prompt(20);
  for (int i = 0; i < 20; ++i) prompt[static_cast<size_t>(i)] = 100 + i;
  const RequestId request = swarm.Submit(prompt, 5);
  EXPECT_THAT(swarm.Tokens(request), ElementsAre(120, 121, 122, 123, 124));
}

TEST(Core, RecurrentLayersGoToThoseWhoKeepTheirState) {
  CoreOptions options = TestOptions();
  options.model.layers[2].state_bytes = 4096;
  TestSwarm swarm(options);
  swarm.Join();
  swarm.Advance(Seconds(1));
  EXPECT_EQ(swarm.picture().state, SwarmState::kDown);
  EXPECT_THAT(swarm.picture().message, testing::HasSubstr("recurrent layers"));
  TestWorker keeper;
  keeper.keeps_state = true;
  swarm.BringUp(1, keeper);
  EXPECT_THAT(swarm.Tokens(swarm.Submit({3, 4, 5}, 2)), ElementsAre(6, 7));
}

TEST(Core, WeightsOfANewFormGoToThoseWhoRunIt) {
  CoreOptions options = TestOptions();
  options.model.dtypes = {DType::kQ4S};
  options.model.program_version = options.model.package_format = 2;
  TestSwarm swarm(options);
  swarm.Join();
  TestWorker other;
  other.dtypes = {DType{200}};
  swarm.Join(other);
  swarm.Advance(Seconds(1));
  EXPECT_EQ(swarm.picture().state, SwarmState::kDown);
  EXPECT_THAT(swarm.picture().message, testing::HasSubstr("weights of the form q4s"));
  EXPECT_THAT(swarm.picture().message, testing::HasSubstr("update weft"));
  TestWorker newer;
  newer.dtypes = {DType{200}, DType::kQ4S};
  swarm.BringUp(1, newer);
  EXPECT_THAT(swarm.Tokens(swarm.Submit({3, 4, 5}, 2)), ElementsAre(6, 7));
}

}  // namespace
}  // namespace weft::swarm
