// The threads of a native worker on a small random model: what waits for what. No test measures
// time: where something must not wait, the other side is held until it has happened.
#include "worker/native_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "package/manifest.h"
#include "program/ir.h"
#include "wire/control.pb.h"
#include "wire/data_frame.h"
#include "wire/version.h"
#include "worker/model_source_testing.h"

namespace weft::worker {
namespace {

namespace pb = wire::pb;

// Something that one thread waits for and another brings about. Gives up after so long that only a
// fault can be the reason.
class Latch {
 public:
  void Open() {
    {
      const std::lock_guard lock(mutex_);
      open_ = true;
    }
    changed_.notify_all();
  }
  bool Wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

// The orchestrator's side: sends, and waits for what comes.
class NativeWorkerTest : public testing::Test {
 protected:
  void Start() {
    NativeWorkerOptions options;
    options.memory_bytes = 1 << 30;
    NativeWorkerHooks hooks;
    hooks.on_finished = [](const Error& error) {
      ADD_FAILURE() << "gave up: " << error.ToString();
    };
    hooks.keep_for = [this](Duration time) { kept_for_ms_ = time.us / 1000; };
    hooks.limit_silence = [this](Duration time) { silence_ms_ = time.us / 1000; };
    worker_ = std::make_unique<NativeWorker>(options, source_, Sender(), hooks);
    SayInit();
    ASSERT_TRUE(Comes("connect"));
  }

  // Of a connection of its own: what was sent over those before is forgotten.
  SendMessage Sender() {
    const std::lock_guard lock(mutex_);
    came_.clear();
    return [this, number = ++connections_](std::vector<Slice> pieces) {
      std::vector<uint8_t> bytes;
      for (const Slice& piece : pieces)
        bytes.insert(bytes.end(), piece.bytes().begin(), piece.bytes().end());
      EXPECT_EQ(number, connections_) << "sent over a connection that is gone";
      Take(std::move(bytes));
    };
  }
  void ComeBack(const std::string& swarm_id = "one") {
    worker_->OnConnectedAgain(Sender());
    SayInit(swarm_id);
    ASSERT_TRUE(Comes("connect"));
  }

  void SayInit(const std::string& swarm_id = "one") {
    pb::ServerMessage message;
    pb::Init& init = *message.mutable_init();
    init.set_protocol_version(wire::kProtocolVersion);
    init.set_program_version(program::kProgramVersion);
    init.set_package_format(package::kPackageFormat);
    init.set_package_digest(std::string(32, 'x'));
    init.set_layer_count(static_cast<uint32_t>(source_->manifest().layers.size()));
    init.set_swarm_id(swarm_id);
    init.set_resume_ms(60'000);
    init.set_ping_interval_ms(1500);
    Tell(message);
  }

  void Tell(const pb::ServerMessage& message) {
    std::vector<uint8_t> bytes(1 + message.ByteSizeLong());
    bytes[0] = wire::kControlByte;
    ASSERT_TRUE(message.SerializeToArray(bytes.data() + 1, static_cast<int>(bytes.size() - 1)));
    worker_->OnMessage(Slice(std::move(bytes)));
  }
  void Prepare(uint32_t binding, uint32_t first, uint32_t end) {
    pb::ServerMessage message;
    message.mutable_prepare_stage()->set_binding(binding);
    message.mutable_prepare_stage()->mutable_layers()->set_first(first);
    message.mutable_prepare_stage()->mutable_layers()->set_end(end);
    Tell(message);
  }
  // One token of session 1.
  void Step(uint32_t sequence, uint32_t binding, uint32_t position, wire::OutputKind output) {
    wire::FrameHeader header;
    header.sequence = sequence;
    header.binding = binding;
    header.rows = header.columns = 1;
    header.dtype = DType::kI32;
    const wire::Run run = {1, 0, position, 1, output, 0};
    std::vector<uint8_t> bytes = wire::EncodeFrameHead(header, {&run, 1}, 4);
    bytes.insert(bytes.end(), {7, 0, 0, 0});
    worker_->OnMessage(Slice(std::move(bytes)));
  }

  // Whether a message came, in all, that begins with this text: "result 3", or a control message
  // as its fields.
  testing::AssertionResult Comes(const std::string& begin) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, std::chrono::seconds(60), [&] { return Has(begin); }))
      return testing::AssertionSuccess();
    auto failure = testing::AssertionFailure() << "what came:";
    for (const std::string& text : came_) failure << "\n" << text;
    return failure;
  }
  bool CameYet(const std::string& begin) {
    const std::lock_guard lock(mutex_);
    return Has(begin);
  }
  // Of this connection.
  std::string First(const std::string& begin) {
    const std::lock_guard lock(mutex_);
    for (const std::string& text : came_)
      if (text.starts_with(begin)) return text;
    return "";
  }

  std::shared_ptr<ModelSource> source_ = std::make_shared<ModelSource>();
  std::unique_ptr<NativeWorker> worker_;
  std::atomic<int64_t> kept_for_ms_ = 0, silence_ms_ = 0;
  std::thread::id pong_sent_on_;

 private:
  void Take(std::vector<uint8_t> bytes) {
    std::string text;
    if (bytes[0] == wire::kControlByte) {
      pb::WorkerMessage message;
      ASSERT_TRUE(message.ParseFromArray(bytes.data() + 1, static_cast<int>(bytes.size() - 1)));
      text = message.ShortDebugString();
      if (message.has_pong()) pong_sent_on_ = std::this_thread::get_id();
    } else {
      const auto frame = wire::DecodeFrame(Slice(std::move(bytes)));
      ASSERT_TRUE(frame.ok());
      text = "result " + std::to_string(frame->header.sequence);
    }
    const std::lock_guard lock(mutex_);
    came_.push_back(text);
    changed_.notify_all();
  }
  bool Has(const std::string& begin) const {
    return std::any_of(came_.begin(), came_.end(),
                       [&](const std::string& text) { return text.starts_with(begin); });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> came_;
  int connections_ = 0;
};

TEST_F(NativeWorkerTest, ComputesStepsOfTheStageItPrepared) {
  Start();
  Prepare(1, 0, 4);
  ASSERT_TRUE(Comes("prepared { binding: 1 "));
  Step(5, 1, 0, wire::OutputKind::kArgmax);
  EXPECT_TRUE(Comes("result 5"));
  Step(6, 1, 5, wire::OutputKind::kArgmax);  // does not continue the session
  EXPECT_TRUE(Comes("step_failed { sequence: 6 "));
}

TEST_F(NativeWorkerTest, StepsGoOnWhileTheNextStageIsFetchedAndRead) {
  Latch computed_while_fetching, computed_while_reading;
  bool fetch_held = false, read_held = false;
  source_->fetch = [&](uint32_t layer, const std::atomic<bool>&) {
    if (layer == 2) fetch_held = computed_while_fetching.Wait();
    return OkStatus();
  };
  source_->read = [&](uint32_t layer) {
    if (layer == 2) read_held = computed_while_reading.Wait();
  };
  Start();
  Prepare(1, 0, 2);
  ASSERT_TRUE(Comes("prepared { binding: 1 "));
  Prepare(2, 0, 3);
  Step(1, 1, 0, wire::OutputKind::kHidden);
  EXPECT_TRUE(Comes("result 1"));
  computed_while_fetching.Open();
  EXPECT_TRUE(Comes("layer_downloaded { layer: 2"));
  Step(2, 1, 1, wire::OutputKind::kHidden);
  EXPECT_TRUE(Comes("result 2"));
  EXPECT_FALSE(CameYet("prepared { binding: 2 "));
  computed_while_reading.Open();
  EXPECT_TRUE(Comes("prepared { binding: 2 "));
  EXPECT_TRUE(fetch_held);
  EXPECT_TRUE(read_held);
  // The layers that both bindings run keep their keys and values.
  Step(3, 1, 2, wire::OutputKind::kHidden);
  EXPECT_TRUE(Comes("result 3"));
  worker_.reset();  // before what its threads use here
}

TEST_F(NativeWorkerTest, AStageOvertakesAStandbyDownloadThatGoesOnAfterwards) {
  std::mutex mutex;
  std::vector<std::string> order;
  const auto note = [&](const std::string& what, uint32_t layer) {
    const std::lock_guard lock(mutex);
    order.push_back(what + " " + std::to_string(layer));
  };
  Latch begun;
  std::atomic<bool> first = true;
  source_->fetch = [&](uint32_t layer, const std::atomic<bool>& cancel) -> Status {
    if (layer != 3 || !first.exchange(false)) {
      note("fetched", layer);
      return OkStatus();
    }
    begun.Open();
    while (!cancel) std::this_thread::yield();  // as a slow link
    note("interrupted", layer);
    return Error(ErrorCode::kCancelled, "The download was cancelled.");
  };
  Start();
  pb::ServerMessage standby;
  standby.mutable_download_layers()->add_layers(3);
  Tell(standby);
  ASSERT_TRUE(begun.Wait());
  Prepare(1, 0, 1);
  EXPECT_TRUE(Comes("prepared { binding: 1 "));
  EXPECT_TRUE(Comes("layer_downloaded { layer: 3"));
  worker_.reset();
  EXPECT_THAT(order, testing::ElementsAre("interrupted 3", "fetched 0", "fetched 3"));
}

TEST_F(NativeWorkerTest, StopsWhileItDownloadsAndReads) {
  Latch fetching, reading;
  source_->fetch = [&](uint32_t layer, const std::atomic<bool>& cancel) -> Status {
    if (layer != 3) return OkStatus();
    fetching.Open();
    while (!cancel) std::this_thread::yield();
    return Error(ErrorCode::kCancelled, "The download was cancelled.");
  };
  source_->read = [&](uint32_t) { reading.Open(); };
  Start();
  Prepare(1, 0, 2);
  ASSERT_TRUE(reading.Wait());
  pb::ServerMessage standby;
  standby.mutable_download_layers()->add_layers(3);
  Tell(standby);
  ASSERT_TRUE(fetching.Wait());
  worker_->Leave("done");
  EXPECT_TRUE(CameYet("leaving { reason: \"done\""));
  worker_.reset();
}

// By the thread that brings it, however much there is to compute: it waits for no other.
TEST_F(NativeWorkerTest, APingIsAnsweredWhileStepsAreComputed) {
  Start();
  Prepare(1, 0, 4);
  ASSERT_TRUE(Comes("prepared { binding: 1 "));
  for (uint32_t position = 0; position < 20; ++position)
    Step(1 + position, 1, position, wire::OutputKind::kArgmax);
  pb::ServerMessage ping;
  ping.mutable_ping()->set_nonce(9);
  Tell(ping);
  EXPECT_TRUE(CameYet("pong { nonce: 9"));
  EXPECT_EQ(pong_sent_on_, std::this_thread::get_id());
  EXPECT_TRUE(Comes("result 20"));
  EXPECT_EQ(silence_ms_, 4500);  // three pings
}

TEST_F(NativeWorkerTest, ComesBackWithWhatItHolds) {
  std::atomic<int> fetches = 0;
  source_->fetch = [&](uint32_t, const std::atomic<bool>&) {
    ++fetches;
    return OkStatus();
  };
  Start();
  Prepare(3, 0, 4);
  ASSERT_TRUE(Comes("prepared { binding: 3 "));
  for (const uint32_t position : {0u, 1u, 2u})
    Step(1 + position, 3, position, wire::OutputKind::kArgmax);
  ASSERT_TRUE(Comes("result 3"));
  Prepare(4, 0, 2);
  ASSERT_TRUE(Comes("prepared { binding: 4 "));
  worker_->OnConnectionLost();
  EXPECT_EQ(kept_for_ms_, 60'000);
  const int before = fetches;
  ComeBack();
  const std::string connect = First("connect");
  EXPECT_THAT(connect, testing::HasSubstr("held { id: 3 layers { end: 4 } "
                                          "sessions: 1 positions: 3 "
                                          "claims { session: 1 positions: 3 } }"));
  EXPECT_THAT(connect, testing::HasSubstr("held { id: 4 layers { end: 2 } "
                                          "sessions: 1 positions: 3 "
                                          "claims { session: 1 positions: 3 } }"));
  EXPECT_EQ(source_->probes, 1);
  // The keys and values are there: it goes on at once, with nothing fetched or loaded.
  Step(1, 3, 3, wire::OutputKind::kArgmax);
  EXPECT_TRUE(Comes("result 1"));
  EXPECT_EQ(fetches, before);
  worker_.reset();
}

TEST_F(NativeWorkerTest, AStepThatOutlivesItsConnectionIsFinishedAndNotAnswered) {
  Start();
  Prepare(1, 0, 4);
  ASSERT_TRUE(Comes("prepared { binding: 1 "));
  for (uint32_t position = 0; position < 20; ++position)
    Step(1 + position, 1, position, wire::OutputKind::kArgmax);
  worker_->OnConnectionLost();  // some are computed, one is under way, the others wait
  ComeBack();                   // fails where an answer of the connection before is sent
  EXPECT_FALSE(CameYet("result"));
  EXPECT_FALSE(CameYet("step_failed"));
  // What was computed is held, whether it was answered or not: a step fits in just one place.
  uint32_t held = 0;
  for (uint32_t position = 0; position <= 20; ++position) {
    if (First("connect").find(" positions: " + std::to_string(position) + " ") != std::string::npos)
      held = position;
  }
  Step(30, 1, held, wire::OutputKind::kArgmax);
  EXPECT_TRUE(Comes("result 30"));
}

TEST_F(NativeWorkerTest, AnotherSwarmFindsAWorkerThatHoldsNothing) {
  Start();
  Prepare(5, 0, 4);
  ASSERT_TRUE(Comes("prepared { binding: 5 "));
  worker_->OnConnectionLost();
  ComeBack("two");
  EXPECT_THAT(First("connect"), testing::Not(testing::HasSubstr("held")));
  EXPECT_EQ(source_->probes, 2);
  Step(1, 5, 0, wire::OutputKind::kArgmax);
  EXPECT_TRUE(Comes("step_failed { sequence: 1 "));
  Prepare(1, 0, 4);  // its own numbers
  EXPECT_TRUE(Comes("prepared { binding: 1 "));
}

TEST_F(NativeWorkerTest, ComesBackInTheMiddleOfALoad) {
  Latch fetching;
  std::atomic<bool> first = true;
  source_->fetch = [&](uint32_t layer, const std::atomic<bool>& cancel) -> Status {
    if (layer != 2 || !first.exchange(false)) return OkStatus();
    fetching.Open();
    while (!cancel) std::this_thread::yield();
    return Error(ErrorCode::kCancelled, "The download was cancelled.");
  };
  Start();
  Prepare(1, 0, 2);
  ASSERT_TRUE(Comes("prepared { binding: 1 "));
  Prepare(2, 2, 4);
  ASSERT_TRUE(fetching.Wait());
  worker_->OnConnectionLost();
  ComeBack();
  EXPECT_THAT(First("connect"), testing::HasSubstr("held { id: 1 layers { end: 2 } }"));
  EXPECT_THAT(First("connect"), testing::Not(testing::HasSubstr("binding: 2")));
  Prepare(3, 2, 4);
  EXPECT_TRUE(Comes("prepared { binding: 3 "));
  worker_.reset();
}

TEST_F(NativeWorkerTest, WhoLeavesAnswersTheStepsThatItWasSent) {
  Start();
  Prepare(1, 0, 4);
  ASSERT_TRUE(Comes("prepared { binding: 1 "));
  Step(1, 1, 0, wire::OutputKind::kArgmax);
  worker_->Leave("done");
  EXPECT_TRUE(CameYet("leaving { reason: \"done\" draining: true }"));
  Step(2, 1, 1, wire::OutputKind::kArgmax);
  EXPECT_TRUE(Comes("result 1"));
  EXPECT_TRUE(Comes("result 2"));
  worker_->OnConnectionLost();
  worker_.reset();
}

}  // namespace
}  // namespace weft::worker
