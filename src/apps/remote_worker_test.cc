// A worker over its connections, against a server on this machine that says what an orchestrator
// would, and cuts the line.
#include "apps/remote_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "apps/fake_server_testing.h"
#include "worker/model_source_testing.h"

namespace weft::apps {
namespace {

using testing::HasSubstr;

class RemoteWorkerTest : public testing::Test {
 protected:
  static RemoteWorkerTimes Times(Duration shortest_pause) {
    RemoteWorkerTimes times;
    times.goodbye = Milliseconds(50);
    times.shortest_pause = shortest_pause;
    times.longest_pause = std::max(times.longest_pause, shortest_pause);
    return times;
  }
  explicit RemoteWorkerTest(const RemoteWorkerTimes& times = Times(Milliseconds(10)))
      : source_(std::make_shared<worker::ModelSource>()),
        layers_(static_cast<uint32_t>(source_->manifest().layers.size())),
        server_(layers_) {
    worker::NativeWorkerOptions options;
    options.memory_bytes = 1 << 30;
    remote_ = std::make_unique<RemoteWorker>(
        loop_, std::make_shared<ServerList>(std::vector<ServerAddress>{{server_.url(), {}}}), "",
        options, source_,
        [this](Status status) {
          end_ = std::move(status);
          loop_.Stop();
        },
        times);
    remote_->Start();
    thread_ = std::thread([this] { loop_.Run(); });
  }
  ~RemoteWorkerTest() override {
    loop_.Stop();
    if (thread_.joinable()) thread_.join();
    remote_.reset();
  }

  // All layers, with the first position of session 1.
  void Serve() {
    pb::ServerMessage message;
    message.mutable_prepare_stage()->set_binding(1);
    message.mutable_prepare_stage()->mutable_layers()->set_end(layers_);
    server_.Tell(message);
    ASSERT_NE(server_.Comes("prepared"), "");
    server_.TellStep(1, 0);
    ASSERT_NE(server_.Comes("result 1"), "");
  }
  void Leave() {
    loop_.Post([this] { remote_->Leave("stopped by its user"); });
  }

  const std::shared_ptr<worker::ModelSource> source_;
  const uint32_t layers_;
  FakeServer server_;
  net::EventLoop loop_;
  std::unique_ptr<RemoteWorker> remote_;
  std::thread thread_;
  Status end_ = OkStatus();
};

TEST_F(RemoteWorkerTest, ComesBackAtOnceWithWhatItHolds) {
  EXPECT_THAT(server_.Comes("connect"), testing::Not(HasSubstr("held")));
  Serve();
  server_.Cut();
  EXPECT_THAT(server_.Comes("connect", 2), HasSubstr("sessions: 1 positions: 1"));
  EXPECT_EQ(source_->probes, 1);
  server_.TellStep(2, 1);
  EXPECT_EQ(server_.Comes("result 2"), "result 2");
}

// Whose pauses are longer than any test.
class PatientWorkerTest : public RemoteWorkerTest {
 protected:
  PatientWorkerTest() : RemoteWorkerTest(Times(Seconds(600))) {}
};

TEST_F(PatientWorkerTest, WhoHoldsSomethingComesBackSoonHoweverShortTheConnectionWas) {
  ASSERT_NE(server_.Comes("connect"), "");
  Serve();
  for (size_t time = 2; time < 5; ++time) {
    server_.Cut();
    EXPECT_THAT(server_.Comes("connect", time), HasSubstr("sessions: 1 positions: 1")) << time;
  }
}

TEST_F(RemoteWorkerTest, LeavesWhenTheServerHasClosedTheConnection) {
  ASSERT_NE(server_.Comes("connect"), "");
  Serve();
  Leave();
  EXPECT_EQ(server_.Comes("leaving"), "leaving { reason: \"stopped by its user\" draining: true }");
  server_.TellStep(2, 1);  // what the server had already sent
  EXPECT_EQ(server_.Comes("result 2"), "result 2");
  server_.Cut();
  thread_.join();
  EXPECT_TRUE(end_.ok());
}

TEST_F(RemoteWorkerTest, LeavesAllTheSameWhenTheServerDoesNothing) {
  ASSERT_NE(server_.Comes("connect"), "");
  Leave();
  thread_.join();
  EXPECT_TRUE(end_.ok());
}

TEST_F(RemoteWorkerTest, ARefusalEndsIt) {
  ASSERT_NE(server_.Comes("connect"), "");
  pb::ServerMessage message;
  message.mutable_refused()->set_code("permission_denied");
  message.mutable_refused()->set_message("No.");
  server_.Tell(message);
  thread_.join();
  EXPECT_EQ(end_.ok() ? "" : end_.error().message(), "No.");
}

TEST_F(RemoteWorkerTest, ABusyServerIsAskedAgainWithWhatIsHeld) {
  ASSERT_NE(server_.Comes("connect"), "");
  Serve();
  pb::ServerMessage message;
  message.mutable_refused()->set_code("unavailable");
  message.mutable_refused()->set_message("Full.");
  server_.Tell(message);
  EXPECT_THAT(server_.Comes("connect", 2), HasSubstr("sessions: 1 positions: 1"));
  EXPECT_EQ(source_->probes, 1);
}

TEST_F(RemoteWorkerTest, AServerThatCannotLeadYetIsTriedAgainWithWhatIsHeld) {
  ASSERT_NE(server_.Comes("connect"), "");
  Serve();
  server_.SendElsewhere("");
  EXPECT_THAT(server_.Comes("connect", 2), HasSubstr("sessions: 1 positions: 1"));
}

TEST_F(RemoteWorkerTest, AServerThatTheLastOneNamedIsTriedNextWithWhatIsHeld) {
  FakeServer other(layers_);
  ASSERT_NE(server_.Comes("connect"), "");
  server_.NameSuccessor(other.url());
  server_.Cut();  // the Init that names it comes with the next connection
  ASSERT_NE(server_.Comes("connect", 2), "");
  Serve();
  server_.Cut();
  EXPECT_THAT(other.Comes("connect"), HasSubstr("sessions: 1 positions: 1"));
  EXPECT_EQ(server_.CountOf("connect"), 2);
  // And back, where it is sent.
  other.SendElsewhere("ws://" + server_.url().Authority());
  EXPECT_THAT(server_.Comes("connect", 3), HasSubstr("sessions: 1 positions: 1"));
}

TEST_F(RemoteWorkerTest, AServerWithALowerIncarnationIsLeftWithWhatIsHeld) {
  ASSERT_NE(server_.Comes("connect"), "");
  server_.SetIncarnation(9);
  server_.Cut();
  ASSERT_THAT(server_.Comes("connect", 2), HasSubstr("seen_incarnation: 9"));
  Serve();
  server_.SetIncarnation(8);
  server_.Cut();
  const std::string left = server_.Comes("connect", 3);
  EXPECT_THAT(left, testing::Not(HasSubstr("sessions")));
  EXPECT_THAT(left, HasSubstr("seen_incarnation: 9"));
  server_.SetIncarnation(10);
  std::string again;
  for (int i = 4; again.find("sessions: 1 positions: 1") == std::string::npos; ++i)
    ASSERT_NE(again = server_.Comes("connect", i), "");
  EXPECT_THAT(again, HasSubstr("seen_incarnation: 10"));
}

TEST(Backoff, BeginsAtOnceDoublesAndNeverPassesItsLongestPause) {
  Backoff backoff(7);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(backoff.Next().us, 0);
    for (const double pause : {1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0})
      EXPECT_NEAR(backoff.Next().seconds(), pause, pause / 4);
    backoff.Reset();
  }
}

TEST(Backoff, ALimitShortensThePauseAndNotThoseAfterIt) {
  Backoff backoff(7);
  EXPECT_EQ(backoff.Next(Milliseconds(250)).us, 0);
  for (int i = 0; i < 3; ++i)
    EXPECT_NEAR(backoff.Next(Milliseconds(250)).seconds(), 0.25, 0.25 / 4);
  EXPECT_NEAR(backoff.Next().seconds(), 8, 2);
}

}  // namespace
}  // namespace weft::apps
