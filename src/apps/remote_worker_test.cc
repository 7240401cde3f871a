// A worker over its connections, against a server on this machine that says what an orchestrator
// would, and cuts the line.
#include "apps/remote_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "net/server.h"
#include "package/manifest.h"
#include "program/ir.h"
#include "wire/control.pb.h"
#include "wire/data_frame.h"
#include "wire/version.h"
#include "worker/model_source_testing.h"

namespace weft::apps {
namespace {

namespace pb = wire::pb;
using testing::HasSubstr;

// The server: Init to whoever comes, and the messages that come back as text.
class FakeServer : public net::ServerHandler {
 public:
  explicit FakeServer(uint32_t layer_count) {
    pb::Init& init = *init_.mutable_init();
    init.set_protocol_version(wire::kProtocolVersion);
    init.set_program_version(program::kProgramVersion);
    init.set_package_format(package::kPackageFormat);
    init.set_package_digest(std::string(32, 'x'));
    init.set_layer_count(layer_count);
    init.set_swarm_id("one");
    init.set_resume_ms(60'000);
    init.set_ping_interval_ms(60'000);  // it never does
    server_ = net::Server::Listen(loop_, {}, this).value();
    thread_ = std::thread([this] { loop_.Run(); });
  }
  ~FakeServer() override {
    loop_.Stop();
    thread_.join();
    sockets_.clear();
  }

  net::Url url() const {
    return *net::ParseUrl("ws://127.0.0.1:" + std::to_string(server_->port()) + "/worker");
  }

  // To the connection that came last.
  void Tell(const pb::ServerMessage& message) {
    loop_.Post([this, message] { Send(*sockets_.back(), message); });
  }
  void TellStep(uint32_t sequence, uint32_t position) {
    wire::FrameHeader header;
    header.sequence = sequence;
    header.binding = 1;
    header.rows = header.columns = 1;
    header.dtype = DType::kI32;
    const wire::Run run = {1, 0, position, 1, wire::OutputKind::kArgmax, 0};
    std::vector<uint8_t> bytes = wire::EncodeFrameHead(header, {&run, 1}, 4);
    bytes.insert(bytes.end(), {7, 0, 0, 0});
    loop_.Post([this, bytes = std::move(bytes)] { sockets_.back()->Send({Slice(bytes)}); });
  }
  // Of the Inits from now on.
  void SetIncarnation(uint64_t incarnation) {
    loop_.Post([this, incarnation] { init_.mutable_init()->set_incarnation(incarnation); });
  }
  void NameSuccessor(const net::Url& url) {
    loop_.Post([this, text = "ws://" + url.Authority()] {
      init_.mutable_init()->add_successors()->set_url(text);
    });
  }
  void SendElsewhere(const std::string& url) {
    loop_.Post([this, url] { sockets_.back()->Close(url, net::kTryElsewhere); });
  }
  void Cut() {
    loop_.Post([this] { sockets_.back()->Close("cut"); });
  }

  int CountOf(const std::string& begin) {
    const std::lock_guard lock(mutex_);
    return static_cast<int>(std::count_if(
        came_.begin(), came_.end(), [&](const auto& text) { return text.starts_with(begin); }));
  }

  // The text that comes as the `count`th of those that begin so; "" when it never does.
  std::string Comes(const std::string& begin, int count = 1) {
    std::unique_lock lock(mutex_);
    std::string found;
    changed_.wait_for(lock, std::chrono::seconds(60), [&] {
      int seen = 0;
      for (const std::string& text : came_)
        if (text.starts_with(begin) && ++seen == count) found = text;
      return !found.empty();
    });
    return found;
  }

 private:
  void OnRequest(net::HttpRequest, std::shared_ptr<net::Responder> responder) override {
    responder->Send(net::TextResponse(404, "text/plain", "nothing"));
  }
  bool OnHandshake(const net::HttpRequest&, net::HttpResponse*) override { return true; }
  net::HttpResponse MakeError(int status, const std::string& sentence,
                              const net::HttpRequest&) override {
    return net::TextResponse(status, "text/plain", sentence);
  }
  net::WebSocketCallbacks OnWebSocket(const net::HttpRequest&,
                                      std::shared_ptr<net::WebSocket> socket) override {
    sockets_.push_back(socket);
    Send(*socket, init_);
    net::WebSocketCallbacks callbacks;
    callbacks.on_message = [this](const Slice& message) { Came(TextOf(message)); };
    callbacks.on_closed = [this](const std::string&) { Came("closed"); };
    return callbacks;
  }

  static void Send(net::WebSocket& socket, const pb::ServerMessage& message) {
    std::vector<uint8_t> bytes(1 + message.ByteSizeLong());
    bytes[0] = wire::kControlByte;
    ASSERT_TRUE(message.SerializeToArray(bytes.data() + 1, static_cast<int>(bytes.size() - 1)));
    socket.Send({Slice(std::move(bytes))});
  }
  static std::string TextOf(const Slice& message) {
    const ByteSpan bytes = message.bytes();
    if (bytes[0] != wire::kControlByte)
      return "result " + std::to_string(wire::DecodeFrame(message).value().header.sequence);
    pb::WorkerMessage control;
    EXPECT_TRUE(control.ParseFromArray(bytes.data() + 1, static_cast<int>(bytes.size() - 1)));
    return control.ShortDebugString();
  }
  void Came(std::string text) {
    const std::lock_guard lock(mutex_);
    came_.push_back(std::move(text));
    changed_.notify_all();
  }

  pb::ServerMessage init_;
  net::EventLoop loop_;
  std::unique_ptr<net::Server> server_;
  std::thread thread_;
  std::vector<std::shared_ptr<net::WebSocket>> sockets_;  // the loop's
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> came_;
};

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
