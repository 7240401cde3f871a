// Rows of a prompt in a frame: what the slowest stage computes in a chunk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "swarm/flow/chunk.h"
#include "swarm/tests/core_testing.h"

namespace weft::swarm {
namespace {

using testing::Each;
using testing::Ge;
using testing::Le;

CoreOptions LongContext() {
  CoreOptions options = TestOptions();
  options.context_length = 20'000;
  options.prefill_chunk_rows = 128;
  options.prefill_chunk_time = Milliseconds(50);
  return options;
}

// A step takes `step_us` and `row_us` for each of its rows.
TestWorker Device(uint32_t step_us, uint32_t row_us) {
  TestWorker worker;
  worker.compute_us = step_us;
  worker.row_us = row_us;
  worker.takes_time = true;
  worker.run_us = (step_us + row_us) / 6;  // of TestOptions' layers
  return worker;
}

// Rows of the frames that brought a prompt to the binding's worker, but for the last, which holds
// what was left.
std::vector<uint32_t> Frames(const TestSwarm& swarm, WorkerId worker) {
  std::vector<uint32_t> rows;
  for (const TestRun& run : swarm.runs())
    if (run.worker == worker && run.run.count > 1) rows.push_back(run.run.count);
  if (!rows.empty()) rows.pop_back();
  return rows;
}

// Longer than the vocabulary.
std::vector<int32_t> Prompt(int32_t count) {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < count; ++i) ids.push_back(1 + i % 900);
  return ids;
}

// Of a prompt that is read while another conversation decodes.
std::vector<uint32_t> FramesOf(const TestWorker& device, CoreOptions options = LongContext(),
                               int32_t length = 15'000) {
  TestSwarm swarm(std::move(options));
  swarm.BringUp(1, device);
  swarm.worker(1).answer_steps = false;
  const RequestId talk = swarm.Submit({5}, 18'000);
  const RequestId prompt = swarm.Submit(Prompt(length), 1);
  for (int i = 0; i < 20'000 && swarm.Ends(prompt).empty(); ++i) swarm.AnswerStep(1);
  EXPECT_THAT(swarm.CloseReasons(1), testing::IsEmpty());
  EXPECT_THAT(swarm.Ends(talk), testing::IsEmpty());
  return Frames(swarm, 1);
}

TEST(Chunk, AFastDeviceGetsTheMostRows) {
  const std::vector<uint32_t> rows = FramesOf(Device(1000, 10));
  EXPECT_THAT(rows, Each(Le(kMostChunkRows)));
  EXPECT_EQ(rows.back(), kMostChunkRows);
  EXPECT_LT(rows.size(), 40u);
}

// 120 ms for one row, 20 ms for each further one: 7 take twice as long as one, 9 as two.
TEST(Chunk, ASlowDeviceGetsWhatTakesTwoOfItsSteps) {
  const std::vector<uint32_t> rows = FramesOf(Device(100'000, 20'000), LongContext(), 2000);
  EXPECT_GE(rows.back(), 4u);
  EXPECT_LE(rows.back(), 9u);
}

// It says the same, and answers at once.
TEST(Chunk, WhoSaysMoreThanItTakesCutsNobodysPrompts) {
  TestWorker device = Device(100'000, 20'000);
  device.takes_time = false;
  EXPECT_EQ(FramesOf(device).back(), kMostChunkRows);
}

// 5 ms and 0.5 ms a row: 90 rows take 50 ms.
TEST(Chunk, InBetweenAFrameTakesAboutAChunk) {
  const std::vector<uint32_t> rows = FramesOf(Device(5000, 500));
  for (size_t i = rows.size() / 2; i < rows.size(); ++i) {
    EXPECT_GE(rows[i], 60u);
    EXPECT_LE(rows[i], 95u);
  }
  CoreOptions options = LongContext();
  options.prefill_chunk_time = Milliseconds(200);
  const std::vector<uint32_t> more = FramesOf(Device(5000, 500), options);
  EXPECT_GE(more.back(), 300u);
  EXPECT_LE(more.back(), 390u);
}

TEST(Chunk, TheSlowestStageDecides) {
  TestSwarm swarm(LongContext());
  TestWorker slow = Device(5000, 500), fast = Device(100, 1);
  slow.memory_bytes = fast.memory_bytes = 3'900'000;
  swarm.Join(slow);
  swarm.Join(fast);
  swarm.Advance(Seconds(1));
  ASSERT_EQ(swarm.picture().stages.size(), 2u);
  for (const WorkerId worker : {WorkerId(1), WorkerId(2)})
    swarm.worker(worker).answer_steps = false;
  swarm.Submit({5}, 18'000);
  const RequestId prompt = swarm.Submit(Prompt(15'000), 1);
  for (int i = 0; i < 20'000 && swarm.Ends(prompt).empty(); ++i)
    for (const WorkerId worker : {WorkerId(1), WorkerId(2)})
      if (swarm.unanswered_steps(worker) > 0) swarm.AnswerStep(worker);
  for (const WorkerId worker : {WorkerId(1), WorkerId(2)}) {
    const std::vector<uint32_t> rows = Frames(swarm, worker);
    ASSERT_FALSE(rows.empty());
    EXPECT_LE(rows.back(), 95u);
  }
}

// What plans have reserved for 128 rows, 4 columns and 32 f32 each: 64 KiB. The rest of the offer
// holds some rows more, of 512 bytes.
TEST(Chunk, RowsFitTheOffer) {
  TestWorker device = Device(1000, 10);
  device.memory_bytes = 6 * kTestLayerBytes + (128 + 100) * 512;
  const std::vector<uint32_t> rows = FramesOf(device);
  EXPECT_THAT(rows, Each(Le(228u)));
  EXPECT_THAT(rows.back(), Ge(200u));
}

TEST(Chunk, WithoutATimeRowsAreFixed) {
  CoreOptions options = LongContext();
  options.prefill_chunk_time = {};
  EXPECT_THAT(FramesOf(Device(1000, 10), options), Each(128u));
}

TEST(Chunk, WhereNobodyDecodesFramesAreFull) {
  TestSwarm swarm(LongContext());
  swarm.BringUp(1, Device(100'000, 20'000));
  swarm.Submit(Prompt(3000), 1);
  EXPECT_THAT(Frames(swarm, 1), Each(128u));
}

// 5 ms and 0.5 ms a row: 90 rows take a chunk of 50 ms, 190 take two.
TEST(Chunk, WhereNobodyDecodesAFrameTakesAboutTwoChunks) {
  TestSwarm swarm(LongContext());
  swarm.BringUp(1, Device(5000, 500));
  swarm.worker(1).answer_steps = false;
  const RequestId prompt = swarm.Submit(Prompt(15'000), 1);
  for (int i = 0; i < 20'000 && swarm.Ends(prompt).empty(); ++i) swarm.AnswerStep(1);
  const std::vector<uint32_t> rows = Frames(swarm, 1);
  ASSERT_FALSE(rows.empty());
  EXPECT_GE(rows.back(), 150u);
  EXPECT_LE(rows.back(), 195u);
}

// While somebody decodes, a device has one chunk at a time.
TEST(Chunk, ATokenWaitsForOneAtMost) {
  TestSwarm swarm(LongContext());
  TestWorker device = Device(5000, 500);
  swarm.BringUp(1, device);
  const RequestId talk = swarm.Submit({5}, 400);
  swarm.worker(1).answer_steps = false;
  const RequestId first = swarm.Submit({7}, 50);
  swarm.Submit(Prompt(3000), 1);
  uint32_t longest = 0;
  for (int i = 0; i < 40; ++i) {
    uint32_t chunk = 0;
    ASSERT_GT(swarm.unanswered_steps(1), 0u);
    for (const wire::Run& run : swarm.step(1).runs) chunk += run.count > 1 ? run.count : 0;
    longest = std::max(longest, chunk);
    swarm.AnswerStep(1);
  }
  EXPECT_LE(longest, 128u);
  EXPECT_GE(swarm.Tokens(first).size(), 15u);
  EXPECT_EQ(swarm.Tokens(talk).size(), 400u);
}

}  // namespace
}  // namespace weft::swarm
