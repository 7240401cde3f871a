// Messages that answer nothing: a worker may send some, and whoever floods is closed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "swarm/tests/core_testing.h"
#include "wire/expert_frame.h"

namespace weft::swarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

wire::pb::WorkerMessage Make(const std::function<void(wire::pb::WorkerMessage&)>& fill) {
  wire::pb::WorkerMessage message;
  fill(message);
  return message;
}

Event Control(WorkerId id, const std::function<void(wire::pb::WorkerMessage&)>& fill) {
  return WorkerControl{id, Make(fill)};
}

struct Flood {
  const char* name;
  std::function<Event(WorkerId)> next;
};

std::ostream& operator<<(std::ostream& out, const Flood& flood) {
  return out << flood.name;
}

class CoreUnaskedTest : public testing::TestWithParam<Flood> {
 protected:
  CoreUnaskedTest() : swarm_(Options()) {
    swarm_.BringUp(1);
    TestWorker other;
    other.device_id = "flood";
    flooder_ = swarm_.Join(other);
    swarm_.Advance(Seconds(2));
    swarm_.ClearLog();
  }
  static CoreOptions Options() {
    CoreOptions options = TestOptions();
    options.loss_limit = 0.1;
    return options;
  }
  TestSwarm swarm_;
  WorkerId flooder_;
};

TEST_P(CoreUnaskedTest, WhoFloodsIsClosedAndNothingComesOfIt) {
  int count = 0;
  while (swarm_.CloseReasons(flooder_).empty() && count < 100'000) {
    swarm_.Feed(GetParam().next(flooder_));
    ++count;
  }
  EXPECT_LE(count, 300);
  EXPECT_THAT(swarm_.CloseReasons(flooder_),
              ElementsAre(testing::AnyOf(HasSubstr("nobody had asked it for"),
                                         HasSubstr("LossReport came that is none"),
                                         HasSubstr("never was a hub"))));
  for (const Action& action : swarm_.log())
    EXPECT_EQ(std::get_if<StartPlanning>(&action), nullptr) << "a plan is looked for";
  EXPECT_EQ(swarm_.picture().state, SwarmState::kUp);
  EXPECT_THAT(swarm_.Tokens(swarm_.Submit({3, 4, 5}, 3)), ElementsAre(6, 7, 8));
}

// Ten a second, for a minute: reports and how far a download is.
TEST_P(CoreUnaskedTest, WhoSaysALittleMay) {
  if (std::string_view(GetParam().name).starts_with("illegal")) return;
  for (int i = 0; i < 600; ++i) {
    swarm_.Feed(GetParam().next(flooder_));
    swarm_.Advance(Milliseconds(100));
  }
  EXPECT_THAT(swarm_.CloseReasons(flooder_), IsEmpty());
}

Event ShardsTo(WorkerId from, uint32_t to) {
  const wire::ExpertFrame frame = wire::CancelFrame(7, 1, 2);
  std::vector<uint8_t> bytes;
  for (const Slice& piece : wire::EncodeShardMessage(to, {&frame, 1}))
    bytes.insert(bytes.end(), piece.bytes().begin(), piece.bytes().end());
  return WorkerData{from, Slice(std::move(bytes))};
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, CoreUnaskedTest,
    testing::Values(
        Flood{"failed",
              [](WorkerId id) {
                return Control(id, [](auto& m) { m.mutable_failed()->set_message("no"); });
              }},
        Flood{"download progress",
              [](WorkerId id) {
                return Control(id, [](auto& m) {
                  m.mutable_download_progress()->set_done_bytes(1);
                  m.mutable_download_progress()->set_total_bytes(2);
                });
              }},
        Flood{"layer downloaded",
              [](WorkerId id) {
                return Control(id, [](auto& m) { m.mutable_layer_downloaded()->set_layer(3); });
              }},
        Flood{"run here",
              [](WorkerId id) {
                const std::vector<uint8_t> frame = wire::EncodeWholeFrame(wire::RunHere{false});
                return WorkerData{id, Slice(frame)};
              }},
        Flood{"illegal: losses",
              [](WorkerId id) { return Control(id, [](auto& m) { m.mutable_loss_report(); }); }},
        Flood{"illegal: holders",
              [](WorkerId id) { return Control(id, [](auto& m) { m.mutable_holder_stats(); }); }}),
    [](const auto& which) {
      std::string name = which.param.name;
      std::erase_if(name, [](char c) { return !std::isalpha(c); });
      return name;
    });

// Of a hub: to a holder that was never there.
TEST(CoreUnasked, MessagesToNobodyAreCounted) {
  CoreOptions options = TestOptions();
  options.plan_kind = PlanKind::kExperts;
  for (uint32_t layer = 1; layer <= 4; ++layer) {
    options.model.layers[layer].expert_count = 4;
    options.model.layers[layer].experts_per_token = 1;
    options.model.layers[layer].expert_bytes = 200'000;
  }
  TestSwarm swarm(options);
  TestWorker hub;
  hub.memory_bytes = 3'000'000;
  hub.can_be_hub = true;
  TestWorker holder;
  holder.takes_experts = true;
  const WorkerId asks = swarm.Join(hub);
  swarm.Join(holder);
  swarm.Advance(Seconds(1));
  ASSERT_EQ(swarm.picture().state, SwarmState::kUp);
  int count = 0;
  for (; swarm.CloseReasons(asks).empty() && count < 100'000; ++count)
    swarm.Feed(ShardsTo(asks, 999));
  EXPECT_LE(count, 300);
}

// What was dropped may have failed by then: nobody is blamed.
TEST(CoreUnasked, AnAnswerThatCrossedItsEndIsNoFailure) {
  TestSwarm swarm;
  swarm.BringUp(2, Half());
  for (int i = 0; i < 10; ++i)
    swarm.Feed(Control(2, [](auto& m) { m.mutable_failed()->set_message("late"); }));
  EXPECT_THAT(swarm.CloseReasons(2), IsEmpty());
  EXPECT_EQ(swarm.picture().state, SwarmState::kUp);
}

}  // namespace
}  // namespace weft::swarm
