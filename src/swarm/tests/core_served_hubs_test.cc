// Hubs that leave it to the server whom to ask: what it asks of holders, and what it gives back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "swarm/tests/core_testing.h"
#include "wire/expert_frame.h"

namespace weft::swarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

using Kind = wire::pb::ServerMessage::KindCase;

constexpr uint32_t kSparseExperts = 4, kSparse = 4;

// Layers 1 to 4 have four experts each, two of which a row asks for.
CoreOptions ServedOptions() {
  CoreOptions options = TestOptions();
  options.plan_kind = PlanKind::kExperts;
  options.expert_copies = 1;
  for (uint32_t layer = 1; layer <= kSparse; ++layer) {
    options.model.layers[layer].expert_count = kSparseExperts;
    options.model.layers[layer].experts_per_token = 2;
    options.model.layers[layer].expert_bytes = 200'000;
  }
  return options;
}

TestWorker Tab(bool is_hub) {
  TestWorker worker;
  worker.kind = "web";
  worker.engine = "webgpu";
  worker.memory_bytes = 4'000'000'000;
  worker.takes_experts = worker.runs_groups = true;
  worker.rows_to_server = is_hub;
  return worker;
}

struct Slot {
  float expert = 0, weight = 0;
};
struct Row {
  std::vector<float> values;
  std::vector<Slot> slots;
};

Slice MessageOf(uint32_t peer, const wire::ExpertFrame& frame) {
  return Slice(wire::Joined(wire::EncodeShardMessage(peer, {&frame, 1})));
}

wire::ExpertFrame RowsFrame(uint32_t sequence, uint16_t layer, const std::vector<Row>& rows) {
  wire::ExpertFrame frame;
  frame.type = wire::ExpertFrameType::kRows;
  frame.sequence = sequence;
  frame.layer = layer;
  frame.expert = static_cast<uint16_t>(rows.front().slots.size());
  frame.tokens = static_cast<uint32_t>(rows.size());
  frame.hidden = static_cast<uint16_t>(rows.front().values.size());
  std::vector<float> all;
  for (const Row& row : rows) {
    all.insert(all.end(), row.values.begin(), row.values.end());
    for (const Slot& slot : row.slots) all.push_back(slot.expert);
    for (const Slot& slot : row.slots) all.push_back(slot.weight);
  }
  std::vector<uint8_t> bytes(all.size() * sizeof(float));
  wire::StoreRow(all, wire::RowType::kF32, bytes.data());
  frame.rows = Slice(std::move(bytes));
  return frame;
}

std::vector<float> ValuesOf(const wire::ExpertFrame& frame) {
  std::vector<float> values(uint64_t{frame.tokens} * frame.hidden);
  wire::ReadRow(frame.rows.bytes().data(), frame.row_type, 0, values);
  return values;
}

// A hub that the server serves, and holders whose expert e gives e + 1 times its row.
class ServedHub {
 public:
  explicit ServedHub(CoreOptions options = ServedOptions(), int holder_count = 2)
      : swarm(std::move(options)) {
    hub = swarm.Join(Tab(true));
    for (int i = 0; i < holder_count; ++i) holders.push_back(swarm.Join(Tab(false)));
    swarm.Advance(Milliseconds(200));
  }

  void Send(const Slice& message) { swarm.Feed(WorkerData{hub, message}); }
  void Ask(uint32_t sequence, uint16_t layer, const std::vector<Row>& rows) {
    Send(MessageOf(0, RowsFrame(sequence, layer, rows)));
  }

  // Messages to this worker since the last call.
  std::vector<wire::ShardMessage> TakeMessages(WorkerId id) {
    std::vector<wire::ShardMessage> messages;
    for (const Action& action : swarm.log()) {
      const auto* data = std::get_if<SendData>(&action);
      if (data == nullptr || data->worker != id) continue;
      const Slice bytes(wire::Joined(data->pieces));
      if (wire::IsShardMessage(bytes.bytes()))
        messages.push_back(wire::DecodeShardMessage(bytes).value());
    }
    return messages;
  }

  // Answers what these holders were asked for since the log was cleared.
  void Answer(const std::vector<WorkerId>& who) {
    std::vector<std::pair<WorkerId, wire::ExpertFrame>> asked;
    for (const WorkerId id : who)
      for (const wire::ShardMessage& message : TakeMessages(id)) {
        EXPECT_EQ(message.peer, hub.value());
        for (const wire::ExpertFrame& frame : message.frames)
          if (frame.type == wire::ExpertFrameType::kDispatch) asked.emplace_back(id, frame);
      }
    for (const auto& [id, frame] : asked) {
      wire::ExpertFrame result = frame;
      result.type = wire::ExpertFrameType::kResult;
      result.same_rows = result.may_sum = false;
      std::vector<float> values = ValuesOf(frame);
      for (float& value : values) value *= static_cast<float>(frame.expert + 1);
      std::vector<uint8_t> bytes(values.size() * sizeof(float));
      wire::StoreRow(values, wire::RowType::kF32, bytes.data());
      result.rows = Slice(std::move(bytes));
      swarm.Feed(WorkerData{id, MessageOf(static_cast<uint32_t>(hub.value()), result)});
    }
  }
  std::vector<wire::ExpertFrame> Given() {
    std::vector<wire::ExpertFrame> given;
    for (const wire::ShardMessage& message : TakeMessages(hub)) {
      EXPECT_EQ(message.peer, 0u);
      given.insert(given.end(), message.frames.begin(), message.frames.end());
    }
    return given;
  }

  TestSwarm swarm;
  WorkerId hub;
  std::vector<WorkerId> holders;
};

const std::vector<Row> kTwoRows = {{{1, 2, 3, 4}, {{1, 0.75f}, {2, 0.25f}}},
                                   {{-8, 0, 8, 16}, {{3, 0.5f}, {0, 0.5f}}}};

TEST(CoreServedHubs, GetTheWeightedSumsOfTheirSlots) {
  ServedHub test;
  EXPECT_EQ(test.swarm.picture().state, SwarmState::kUp);
  EXPECT_TRUE(test.swarm.Last(test.hub, Kind::kPrepareStage).prepare_stage().is_hub());
  EXPECT_THAT(test.swarm.Sent(test.hub), testing::Not(HasSubstr("expert_holders")));
  test.Ask(9, 2, kTwoRows);
  EXPECT_THAT(test.Given(), IsEmpty());
  test.Answer(test.holders);
  const auto given = test.Given();
  ASSERT_THAT(given, SizeIs(1));
  EXPECT_EQ(given[0].type, wire::ExpertFrameType::kGiven);
  EXPECT_EQ(given[0].sequence, 9u);
  EXPECT_EQ(given[0].layer, 2u);
  // 0.75 * 2 + 0.25 * 3 of the first row, 0.5 * 4 + 0.5 * 1 of the second.
  EXPECT_THAT(ValuesOf(given[0]), ElementsAre(2.25f, 4.5f, 6.75f, 9, -20, 0, 20, 40));
}

TEST(CoreServedHubs, HoldNothingThemselves) {
  ServedHub test;
  EXPECT_THAT(test.swarm.Sent(test.hub), testing::Not(HasSubstr("hold_experts")));
  for (const WorkerId holder : test.holders)
    EXPECT_THAT(test.swarm.Last(holder, Kind::kHoldExperts).hold_experts().sets(), SizeIs(kSparse));
}

// With two of them as hubs of a half each nobody would hold experts.
TEST(CoreServedHubs, AreOneAtATime) {
  CoreOptions options = ServedOptions();
  TestSwarm swarm(options);
  TestWorker tab = Tab(true);
  tab.memory_bytes = 4'500'000;  // all layers without their experts take 2.8 MB, experts 3.2
  std::vector<WorkerId> tabs;
  for (int i = 0; i < 3; ++i) tabs.push_back(swarm.Join(tab));
  const auto is_served_by_one = [&] {
    const Snapshot picture = swarm.picture();
    return picture.state == SwarmState::kUp && picture.stages.size() == 1 &&
           picture.experts_held == kSparse * kSparseExperts;
  };
  swarm.Advance(Milliseconds(200));
  ASSERT_TRUE(is_served_by_one());
  const WorkerId hub = swarm.picture().stages[0].worker;
  swarm.Lose(hub);
  for (int i = 0; i < 100 && !is_served_by_one(); ++i) swarm.Advance(Milliseconds(100));
  EXPECT_TRUE(is_served_by_one()) << swarm.picture().message;
}

TEST(CoreServedHubs, GetTheSumOfNeuronGroups) {
  CoreOptions options = ServedOptions();
  options.plan_kind = PlanKind::kTensor;
  for (uint32_t layer = 1; layer <= kSparse; ++layer) {
    options.model.layers[layer].groups = true;
    options.model.layers[layer].experts_per_token = kSparseExperts;
  }
  ServedHub test(options);
  test.Ask(1, 4, {{{1, 2, 3, 4}, {}}});
  test.Answer(test.holders);
  const auto given = test.Given();
  ASSERT_THAT(given, SizeIs(1));
  EXPECT_THAT(ValuesOf(given[0]), ElementsAre(10, 20, 30, 40));  // 1 + 2 + 3 + 4 times
}

TEST(CoreServedHubs, AskAnotherHolderWhereOneIsSilent) {
  ServedHub test;
  test.Ask(1, 1, {{{1, 1, 1, 1}, {{0, 1}, {1, 1}}}});
  // Whoever was asked first stays silent.
  std::vector<WorkerId> first, others;
  for (const WorkerId holder : test.holders)
    (test.TakeMessages(holder).empty() ? others : first).push_back(holder);
  ASSERT_THAT(first, testing::Not(IsEmpty()));
  if (others.empty()) {
    test.Answer({first.back()});
    others = {first.back()};
    first.pop_back();
  }
  test.swarm.ClearLog();
  test.swarm.Advance(Seconds(2));
  test.Answer(others);
  const auto given = test.Given();
  ASSERT_THAT(given, SizeIs(1));
  EXPECT_THAT(ValuesOf(given[0]), ElementsAre(3, 3, 3, 3));
}

TEST(CoreServedHubs, WaitUntilSomebodyHoldsWhatIsLost) {
  ServedHub test(ServedOptions(), 1);
  test.swarm.Lose(test.holders[0]);
  test.Ask(1, 1, {{{1, 1, 1, 1}, {{0, 1}, {1, 1}}}});
  test.swarm.Advance(Seconds(30));
  EXPECT_THAT(test.Given(), IsEmpty());
  const WorkerId newcomer = test.swarm.Join(Tab(false));
  test.swarm.Advance(Milliseconds(200));
  test.Answer({newcomer});
  const auto given = test.Given();
  ASSERT_THAT(given, SizeIs(1));
  EXPECT_THAT(ValuesOf(given[0]), ElementsAre(3, 3, 3, 3));
}

TEST(CoreServedHubs, GiveUpOnlyWhatNobodyHolds) {
  ServedHub test(ServedOptions(), 1);
  const Slice cancel = MessageOf(0, wire::CancelFrame(5, 1, wire::kAnyExpert));
  test.Ask(5, 1, {{{1, 1, 1, 1}, {{0, 1}, {1, 1}}}});
  test.swarm.Lose(test.holders[0]);
  test.Send(MessageOf(0, wire::CancelFrame(4, 1, wire::kAnyExpert)));  // of another wait
  EXPECT_THAT(test.Given(), IsEmpty());
  test.Send(cancel);
  const auto given = test.Given();
  ASSERT_THAT(given, SizeIs(1));
  EXPECT_TRUE(given[0].failed);
  EXPECT_EQ(given[0].sequence, 5u);
  EXPECT_THAT(std::string(AsText(given[0].body.bytes())), HasSubstr("Nobody holds"));
}

TEST(CoreServedHubs, AskForLongMessagesInPortions) {
  constexpr uint32_t kWide = 32768, kTokens = 300;  // four slots of 128 KiB: 120 rows at a time
  CoreOptions options = ServedOptions();
  options.model.hidden_columns = kWide;
  options.prefill_chunk_rows = kTokens;
  for (uint32_t layer = 1; layer <= kSparse; ++layer)
    options.model.layers[layer].experts_per_token = kSparseExperts;
  ServedHub test(options, 1);
  Row row{std::vector<float>(kWide, 1), {{0, 1}, {1, 1}, {2, 1}, {3, 1}}};
  test.Ask(1, 1, std::vector<Row>(kTokens, row));
  int portions = 0;
  while (test.Given().empty() && portions < 9) {
    ++portions;
    const auto asked = test.TakeMessages(test.holders[0]);
    ASSERT_THAT(asked, SizeIs(1));
    EXPECT_THAT(asked[0].frames, SizeIs(kSparseExperts));
    std::vector<wire::ExpertFrame> results;
    for (const wire::ExpertFrame& frame : asked[0].frames) {
      wire::ExpertFrame& result = results.emplace_back(frame);
      result.type = wire::ExpertFrameType::kResult;
      result.same_rows = false;
    }
    test.swarm.ClearLog();
    test.swarm.Feed(
        WorkerData{test.holders[0], Slice(wire::Joined(wire::EncodeShardMessage(
                                        static_cast<uint32_t>(test.hub.value()), results)))});
  }
  EXPECT_EQ(portions, 3);
  const auto given = test.Given();
  ASSERT_THAT(given, SizeIs(1));
  EXPECT_EQ(given[0].tokens, kTokens);
  EXPECT_THAT(ValuesOf(given[0]), testing::Each(4.0f));
}

TEST(CoreServedHubs, CountWhatHoldersDid) {
  CoreOptions options = ServedOptions();
  options.timeouts.holder_stats = Milliseconds(1);
  ServedHub test(options, 1);
  for (uint32_t i = 1; i <= 3; ++i) {
    test.Ask(i, 1, kTwoRows);
    test.Answer(test.holders);
    test.swarm.ClearLog();
    test.swarm.Advance(Milliseconds(2));
  }
  const Snapshot picture = test.swarm.picture();
  const auto holder = std::ranges::find_if(
      picture.workers, [&](const auto& each) { return each.id == test.holders[0]; });
  ASSERT_TRUE(holder->holder.has_value());
  EXPECT_GE(holder->holder->counts.calls, 8u);
  EXPECT_EQ(holder->holder->counts.timeouts, 0u);
}

// A hub says once for each wait that other work waits.
TEST(CoreServedHubs, GiveUpWhatIsLostAfterTheyHaveSaidSo) {
  ServedHub test(ServedOptions(), 1);
  test.Ask(5, 1, {{{1, 1, 1, 1}, {{0, 1}, {1, 1}}}});
  test.Send(MessageOf(0, wire::CancelFrame(5, 1, wire::kAnyExpert)));
  EXPECT_THAT(test.Given(), IsEmpty());
  test.swarm.Lose(test.holders[0]);
  const auto given = test.Given();
  ASSERT_THAT(given, SizeIs(1));
  EXPECT_TRUE(given[0].failed);
}

// ROWS of a step that came before its layers were retired.
TEST(CoreServedHubs, GetAnAnswerOnceTheyAreNone) {
  ServedHub test;
  test.Ask(6, 1, kTwoRows);
  TestWorker native;
  native.can_be_hub = true;
  native.run_us = 1;
  const WorkerId faster = test.swarm.Join(native);
  const auto serving = [&] { return test.swarm.picture().stages.front().worker; };
  for (int i = 0; i < 600 && serving() != faster; ++i) test.swarm.Advance(Seconds(1));
  ASSERT_EQ(serving(), faster);
  // It has room for experts now, and does not stand by as a hub.
  test.swarm.Advance(Seconds(1));
  EXPECT_THAT(test.swarm.Sent(test.hub), HasSubstr("hold_experts"));
  auto given = test.Given();
  ASSERT_THAT(given, SizeIs(1));
  EXPECT_TRUE(given[0].failed);
  test.Ask(7, 1, kTwoRows);
  given = test.Given();
  ASSERT_THAT(given, SizeIs(2));
  EXPECT_TRUE(given[1].failed);
  EXPECT_EQ(given[1].sequence, 7u);
  EXPECT_THAT(test.swarm.CloseReasons(test.hub), IsEmpty());
}

// What no hub may send ends its connection.
TEST(CoreServedHubs, EndTheirConnectionWithWhatCannotBe) {
  const std::vector<Row> narrow = {{{1, 2, 3}, {{0, 1}, {1, 1}}}};
  const std::vector<Row> one_slot = {{{1, 2, 3, 4}, {{0, 1}}}};
  const std::vector<Row> unknown = {{{1, 2, 3, 4}, {{0, 1}, {4, 1}}}};
  const std::vector<Row> halved = {{{1, 2, 3, 4}, {{0, 1}, {1.5f, 1}}}};
  const std::vector<Row> endless = {{{1, 2, 3, 4}, {{0, 1}, {1, INFINITY}}}};
  const std::vector<Row> broken = {{{1, NAN, 3, 4}, {{0, 1}, {1, 1}}}};
  const std::vector<std::pair<uint16_t, std::vector<Row>>> wrong = {
      {1, narrow},  {1, one_slot}, {1, unknown},  {1, halved},
      {1, endless}, {1, broken},   {0, kTwoRows}, {900, kTwoRows}};
  for (const auto& [layer, rows] : wrong) {
    ServedHub test;
    test.Ask(1, layer, rows);
    EXPECT_THAT(test.swarm.CloseReasons(test.hub), ElementsAre(HasSubstr("ROWS"))) << layer;
    EXPECT_THAT(test.Given(), IsEmpty());
  }
}

TEST(CoreServedHubs, AreNoneWhereTheirRowsGoNowhere) {
  ServedHub test;
  test.Ask(1, 2, kTwoRows);
  test.swarm.Lose(test.hub);
  test.Answer(test.holders);  // nobody waits for it any more
  EXPECT_THAT(test.swarm.CloseReasons(test.holders[0]), IsEmpty());
}

}  // namespace
}  // namespace weft::swarm
