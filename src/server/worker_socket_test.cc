// Sockets that never say who they are: what they may say, what they cost, how long they stay.
#include "server/worker_socket.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <thread>

#include "net/net_testing.h"
#include "net/server.h"
#include "wire/control.pb.h"
#include "wire/version.h"

namespace weft::server {
namespace {

constexpr Duration kConnectLimit = Milliseconds(200);
constexpr Duration kCloseLinger = Milliseconds(50);

class StrangersTest : public testing::Test, public net::ServerHandler {
 protected:
  StrangersTest() : pool_(1) {
    swarm::CoreOptions core;
    core.model.layers.resize(3);
    core.model.vocabulary = 100;
    core.model.hidden_columns = 8;
    core.timeouts.connect_limit = kConnectLimit;
    core.join_token_sha256_hex = std::string(64, 'a');  // nobody has it
    host_ = std::make_unique<SwarmHost>(loop_, pool_, core);
    net::ServerOptions options;
    options.limits.close_linger = kCloseLinger;
    auto server = net::Server::Listen(loop_, options, this);
    CHECK(server.ok());
    server_ = std::move(server).value();
    thread_ = std::thread([this] { loop_.Run(); });
  }
  ~StrangersTest() override {
    loop_.Stop();
    thread_.join();
  }

  void OnRequest(net::HttpRequest, std::shared_ptr<net::Responder>) override {}
  bool OnHandshake(const net::HttpRequest&, net::HttpResponse*) override { return true; }
  net::WebSocketCallbacks OnWebSocket(const net::HttpRequest& request,
                                      std::shared_ptr<net::WebSocket> socket) override {
    sockets_.push_back(socket);
    net::WebSocketCallbacks callbacks =
        AttachWorkerSocket(*host_, request.remote_address, true, socket);
    callbacks.on_message = [this, inner = callbacks.on_message](Slice message) {
      taken_bytes_ += message.byte_count();
      inner(std::move(message));
    };
    callbacks.on_closed = [this, inner = callbacks.on_closed](const std::string& reason) {
      inner(reason);
      close_reason_ = reason;
      ++closed_count_;
    };
    return callbacks;
  }

  // On the loop's thread: bytes that are allocated in this process, clients included.
  size_t AllocatedBytes() {
    size_t byte_count = 0;
    OnLoop([&] { byte_count = mallinfo2().uordblks; });
    return byte_count;
  }
  void OnLoop(const std::function<void()>& work) {
    std::promise<void> done;
    loop_.Post([&] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }
  // Until so many sockets have closed, which a client that was reset hears first.
  void AwaitClosed(int count) {
    const Instant begin = MonotonicNow();
    int closed = 0;
    while (closed < count && MonotonicNow() - begin < Seconds(30)) {
      OnLoop([&] { closed = closed_count_; });
    }
    EXPECT_EQ(closed, count);
  }
  // A client after its handshake; `then` follows it in the same breath.
  std::unique_ptr<net::RawClient> Connect(const std::string& then = "") {
    auto client = std::make_unique<net::RawClient>(server_->port());
    EXPECT_TRUE(client->Send(
        "GET /worker HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n" +
        then));
    return client;
  }

  net::EventLoop loop_;
  TaskQueue pool_;
  std::unique_ptr<SwarmHost> host_;
  std::unique_ptr<net::Server> server_;
  std::thread thread_;
  std::vector<std::weak_ptr<net::WebSocket>> sockets_;
  int closed_count_ = 0;
  std::string close_reason_;  // of the last one
  size_t taken_bytes_ = 0;    // of messages, of all strangers
};

// A binary message as clients send it, masked with zeros (RFC 6455 5.2).
std::string Masked(const std::string& message) {
  const size_t byte_count = message.size();
  const int length_bytes = byte_count < 126 ? 0 : byte_count <= UINT16_MAX ? 2 : 8;
  std::string head = "\x82";
  head += static_cast<char>(0x80 | (length_bytes == 0   ? byte_count
                                    : length_bytes == 2 ? 126
                                                        : 127));
  for (int i = length_bytes - 1; i >= 0; --i) head += static_cast<char>(byte_count >> (8 * i));
  return head + std::string(4, '\0') + message;
}

// As many messages as anybody takes: of a kind that workers send, not parsable, and empty ones.
TEST_F(StrangersTest, SayNoMoreThanOneControlMessageInAll) {
  wire::pb::WorkerMessage failed;
  failed.mutable_failed()->set_message(std::string(1000, 'x'));
  const std::string kinds[] = {
      std::string(1, static_cast<char>(wire::kControlByte)) + failed.SerializeAsString(),
      std::string(1, static_cast<char>(wire::kControlByte)) + std::string(1000, '\xff'),
      "WEFT" + std::string(1000, 'x'),
      "WGEN" + std::string(1000, 'x'),
      "\x02" + std::string(1000, 'x'),  // a shard message
      std::string(1 + wire::kMaxControlBytes, 'x'),
      "",
  };
  int client_count = 0;
  for (const std::string& message : kinds) {
    SCOPED_TRACE(message.substr(0, 8));
    OnLoop([&] { taken_bytes_ = 0; });
    const auto client = Connect();
    for (int i = 0; i < 200 && client->Send(Masked(message)); ++i) {
    }
    client->ReadAll();
    AwaitClosed(++client_count);
    OnLoop([&] { EXPECT_LE(taken_bytes_, 1 + wire::kMaxControlBytes); });
  }
}

// What is no message is counted, too: pings, and a message in pieces without a byte.
TEST_F(StrangersTest, SayNoMoreInFramesThatAreNoMessages) {
  const std::string ping = "\x89\xfd" + std::string(4, '\0') + std::string(125, 'x');
  const std::string begin = "\x02\x80" + std::string(4, '\0');
  const std::string nothing = std::string("\0\x80", 2) + std::string(4, '\0');
  int client_count = 0;
  for (const auto& [first, then] : {std::pair(ping, ping), std::pair(begin, nothing)}) {
    const auto client = Connect(first);
    std::string block;
    while (block.size() < (1 << 20)) block += then;
    const Instant started = MonotonicNow();
    while (client->Send(block) && MonotonicNow() - started < Seconds(5)) {
    }
    client->ReadAll();
    AwaitClosed(++client_count);
    OnLoop([&] { EXPECT_EQ(close_reason_, "the peer sent more than it may"); });
  }
}

// One byte beyond is not even read.
TEST_F(StrangersTest, SayNoLongerMessage) {
  const auto client = Connect(Masked(std::string(2 + wire::kMaxControlBytes, 'x')));
  client->ReadAll();
  AwaitClosed(1);
  OnLoop([&] { EXPECT_EQ(taken_bytes_, 0u); });
}

// The head of a binary message of 48 MiB, and then as much of it as anybody takes.
TEST_F(StrangersTest, LongMessagesCostNothing) {
  const std::string head("\x82\xff\0\0\0\0\x03\0\0\0\0\0\0\0", 14);
  const std::string block(1 << 20, 'x');
  const size_t before = AllocatedBytes();
  std::vector<std::unique_ptr<net::RawClient>> clients;
  clients.reserve(4);
  for (int i = 0; i < 4; ++i) clients.push_back(Connect(head));
  for (const auto& client : clients) {
    for (int i = 0; i < 48 && client->Send(block); ++i) {
    }
    client->ReadAll();  // the server has closed: it did not wait for the rest
  }
  const size_t after = AllocatedBytes();
  EXPECT_LT(after, before + (1 << 20));
  OnLoop([&] { EXPECT_EQ(closed_count_, 4); });
}

// Says nothing, and never answers the server's close frame either.
TEST_F(StrangersTest, SilenceIsNotWaitedFor) {
  const Instant begin = MonotonicNow();
  std::vector<std::unique_ptr<net::RawClient>> clients;
  clients.reserve(4);
  for (int i = 0; i < 4; ++i) clients.push_back(Connect());
  for (const auto& client : clients) client->ReadAll();
  EXPECT_GE(MonotonicNow() - begin, kConnectLimit);
  // Far from a test of speed: waiting for strangers took minutes.
  EXPECT_LT(MonotonicNow() - begin, Seconds(30));
  OnLoop([&] {
    EXPECT_EQ(closed_count_, 4);
    ASSERT_EQ(sockets_.size(), 4u);
  });
  // What was pending ends in the next turns of the loop, and the sockets with it.
  const auto are_gone = [&] {
    bool gone = true;
    OnLoop([&] {
      for (const auto& socket : sockets_) gone = gone && socket.expired();
    });
    return gone;
  };
  while (!are_gone() && MonotonicNow() - begin < Seconds(30)) std::this_thread::yield();
  EXPECT_TRUE(are_gone());
}

}  // namespace
}  // namespace weft::server
