// WebSockets of the server against our own client, and against peers that are silent, slow or
// wrong.
#include <gtest/gtest.h>

#include "net/net_testing.h"

namespace weft::net {
namespace {

class WebSocketTest : public NetTest {
 protected:
  std::string Upgrade(const std::string& path) const {
    return "GET " + path +
           " HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
           "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
  }
  // One whole binary message as a client sends it: masked, here with zeros.
  static std::string Message(const std::string& payload) {
    std::string frame = {'\x82', static_cast<char>(0x80 | payload.size())};
    return frame + std::string(4, '\0') + payload;
  }
  // The head of a message of `byte_count` bytes, at least 65536.
  static std::string HeadOfLongMessage(uint64_t byte_count) {
    std::string frame = {'\x82', '\xff'};
    for (int shift = 56; shift >= 0; shift -= 8) {
      frame += static_cast<char>((byte_count >> shift) & 255);
    }
    return frame + std::string(4, '\0');
  }
};

TEST_F(WebSocketTest, Echoes) {
  Listen();
  const std::string big(3000000, 'w');
  const auto [echo, reason] = EchoOnce(ServerUrl("ws", "/ws"), {}, big);
  EXPECT_TRUE(echo == big) << echo.size() << " bytes";
  EXPECT_EQ(reason, "as you wish");
}

TEST_F(WebSocketTest, RefusalCarriesTheReason) {
  Listen();
  const auto [echo, reason] = EchoOnce(ServerUrl("ws", "/elsewhere"), {}, "x");
  EXPECT_NE(reason.find("404: not here"), std::string::npos) << reason;
}

TEST_F(WebSocketTest, ARefusalForWantOfASecretIsFinal) {
  Listen();
  for (const auto& [path, code] : {std::pair("/secret", ErrorCode::kPermissionDenied),
                                   std::pair("/elsewhere", ErrorCode::kUnavailable)}) {
    EventLoop loop;
    std::optional<Error> failed;
    ConnectWebSocket(
        loop, ServerUrl("ws", path), {}, {}, {},
        [](std::shared_ptr<WebSocket>) { return WebSocketCallbacks(); },
        [&](Error error) {
          failed = std::move(error);
          loop.Stop();
        });
    loop.Run();
    ASSERT_TRUE(failed.has_value());
    EXPECT_EQ(failed->code(), code) << failed->ToString();
  }
}

TEST_F(WebSocketTest, FramesRightBehindTheHandshakeAreRead) {
  Listen();
  {
    const RawClient client(server_->port());
    ASSERT_TRUE(client.Send(Upgrade("/ws") + Message("early") + Message("bird")));
    client.ReadUntil("\r\n\r\n");
    EXPECT_EQ(client.ReadUntil("bird"),
              "\x82\x05"
              "early"
              "\x82\x04"
              "bird");
  }
  EXPECT_TRUE(Comes(handler_.socket_closed.get_future())) << "or it outlives its loop";
}

TEST_F(WebSocketTest, AMessageThatIsTooLongClosesBeforeItIsRead) {
  handler_.websocket_message_bytes = 1000;
  Listen();
  const RawClient client(server_->port());
  ASSERT_TRUE(client.Send(Upgrade("/ws-held") + HeadOfLongMessage(64 << 20)));
  ASSERT_TRUE(Comes(handler_.is_open.get_future()));
  EXPECT_TRUE(Comes(handler_.socket_closed.get_future()));
  // A close frame with the code 1009 came before the end.
  const std::string reply = client.ReadAll();
  EXPECT_NE(reply.find("\x88\x02\x03\xf1"), std::string::npos) << testing::PrintToString(reply);
}

TEST_F(WebSocketTest, TheLimitOfMessagesFollowsWhatTheOwnerSays) {
  handler_.websocket_message_bytes = 4;
  Listen();
  const RawClient client(server_->port());
  ASSERT_TRUE(client.Send(Upgrade("/ws") + Message("1234")));
  client.ReadUntil("1234");
  ASSERT_TRUE(client.Send(Message("12345")));
  EXPECT_TRUE(Comes(handler_.socket_closed.get_future()));
}

// Its owner may have nowhere to put what comes: the peer has to wait then, and TCP tells it so.
TEST_F(WebSocketTest, NothingIsTakenWhileTheOwnerDoesNotRead) {
  Listen();
  const RawClient client(server_->port());
  ASSERT_TRUE(client.Send(Upgrade("/ws-held")));
  ASSERT_TRUE(Comes(handler_.is_open.get_future()));
  OnLoop([&] { handler_.held_socket->SetReading(false); });
  ASSERT_TRUE(client.Send(Message("1234") + Message("5678")));
  // One may have been on its way into memory already, and the next one is not read.
  const Instant until = MonotonicNow() + Milliseconds(100);
  while (MonotonicNow() < until) OnLoop([] {});
  OnLoop([&] { EXPECT_LE(handler_.held_bytes, 4u); });
  OnLoop([&] { handler_.held_socket->SetReading(true); });
  size_t byte_count = 0;
  while (byte_count < 8 && MonotonicNow() < until + Seconds(20))
    OnLoop([&] { byte_count = handler_.held_bytes; });
  EXPECT_EQ(byte_count, 8u);
  // Closing does not need its owner to read.
  auto closed = handler_.socket_closed.get_future();
  OnLoop([&] {
    handler_.held_socket->SetReading(false);
    handler_.held_socket->Close("enough");
  });
  EXPECT_TRUE(Comes(std::move(closed)));
}

TEST_F(WebSocketTest, ClosingDoesNotWaitForAPeerThatDoesNotAnswer) {
  options_.limits.close_linger = Milliseconds(20);
  Listen();
  const RawClient client(server_->port());
  ASSERT_TRUE(client.Send(Upgrade("/ws-held")));
  ASSERT_TRUE(Comes(handler_.is_open.get_future()));
  auto closed = handler_.socket_closed.get_future();
  OnLoop([&] { handler_.held_socket->Close("enough"); });
  ASSERT_EQ(closed.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_EQ(closed.get(), "enough");
  // The reason came, and the end of the connection after it.
  EXPECT_NE(client.ReadAll().find("enough"), std::string::npos);
}

TEST_F(WebSocketTest, ClosingDoesNotWaitForAPeerThatReadsNothing) {
  options_.limits.close_linger = Milliseconds(20);
  Listen();
  const RawClient client(server_->port(), 4096);
  ASSERT_TRUE(client.Send(Upgrade("/ws-held")));
  ASSERT_TRUE(Comes(handler_.is_open.get_future()));
  OnLoop([&] {
    handler_.held_socket->Send({Slice(std::vector<uint8_t>(32 << 20))});
    handler_.held_socket->Close("enough");
  });
  EXPECT_TRUE(Comes(handler_.socket_closed.get_future()));
}

// A read that fails while a close is under way: inside Beast each waits for the other.
TEST_F(WebSocketTest, APeerThatBreaksTheProtocolDuringACloseLeavesNothingBehind) {
  options_.limits.close_linger = Milliseconds(20);
  Listen();
  const RawClient client(server_->port());
  ASSERT_TRUE(client.Send(Upgrade("/ws-held")));
  ASSERT_TRUE(Comes(handler_.is_open.get_future()));
  std::weak_ptr<WebSocket> closed;
  OnLoop([&] {
    closed = handler_.held_socket;
    handler_.held_socket->Close("enough");
    handler_.held_socket = nullptr;
  });
  client.Send(std::string(40, '\xff'));
  ASSERT_TRUE(Comes(handler_.socket_closed.get_future()));
  const Instant begin = MonotonicNow();
  bool is_gone = false;
  while (!is_gone && MonotonicNow() - begin < Seconds(20)) {
    OnLoop([&] { is_gone = closed.expired(); });
  }
  EXPECT_TRUE(is_gone);
}

// What an owner still holds of a closed socket must not keep others out.
TEST_F(WebSocketTest, AClosedSocketTakesNoPlaceAmongTheConnections) {
  options_.limits.close_linger = Milliseconds(20);
  options_.limits.connections = 1;
  Listen();
  const RawClient client(server_->port());
  ASSERT_TRUE(client.Send(Upgrade("/ws-held")));
  ASSERT_TRUE(Comes(handler_.is_open.get_future()));
  EXPECT_EQ(Raw("GET /echo HTTP/1.1\r\n\r\n"), "");  // the only place is taken
  OnLoop([&] { handler_.held_socket->Close("enough"); });
  ASSERT_TRUE(Comes(handler_.socket_closed.get_future()));
  EXPECT_NE(handler_.held_socket, nullptr);
  EXPECT_TRUE(Raw("GET /echo HTTP/1.1\r\nConnection: close\r\n\r\n").starts_with("HTTP/1.1 200"));
}

TEST_F(WebSocketTest, NoMessageComesAfterClose) {
  Listen();
  const RawClient client(server_->port());
  ASSERT_TRUE(client.Send(Upgrade("/ws-held")));
  ASSERT_TRUE(Comes(handler_.is_open.get_future()));
  OnLoop([&] { handler_.held_socket->Close("enough"); });
  client.Send(Message("late") + "\x88\x80" + std::string(4, '\0'));  // and a close frame
  ASSERT_TRUE(Comes(handler_.socket_closed.get_future()));
  OnLoop([&] { EXPECT_EQ(handler_.held_bytes, 0u); });
}

TEST_F(WebSocketTest, APeerThatTakesNothingIsLeft) {
  options_.limits.write_stall = Milliseconds(50);
  Listen();
  const RawClient client(server_->port(), 4096);
  ASSERT_TRUE(client.Send(Upgrade("/ws-held")));
  ASSERT_TRUE(Comes(handler_.is_open.get_future()));
  OnLoop([&] { handler_.held_socket->Send({Slice(std::vector<uint8_t>(32 << 20))}); });
  auto closed = handler_.socket_closed.get_future();
  ASSERT_EQ(closed.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_NE(closed.get().find("took nothing"), std::string::npos);
}

TEST_F(WebSocketTest, APeerWhoseQueueIsFullIsLeft) {
  options_.limits.websocket_queue_bytes = 1 << 20;
  Listen();
  const RawClient client(server_->port(), 4096);
  ASSERT_TRUE(client.Send(Upgrade("/ws-held")));
  ASSERT_TRUE(Comes(handler_.is_open.get_future()));
  OnLoop([&] {
    for (int i = 0; i < 64; ++i) {
      handler_.held_socket->Send({Slice(std::vector<uint8_t>(1 << 20))});
    }
  });
  auto closed = handler_.socket_closed.get_future();
  ASSERT_EQ(closed.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_NE(closed.get().find("reads too slowly"), std::string::npos);
}

// Connects to `path` of the server with these limits; the reason of the end.
std::string EndOf(
    const Url& url, const WebSocketClientLimits& limits,
    const std::function<void(WebSocket&)>& on_open = [](WebSocket&) {}) {
  EventLoop loop;
  std::string outcome;
  ConnectWebSocket(
      loop, url, {}, {}, limits,
      [&](const std::shared_ptr<WebSocket>& socket) {
        loop.Post([&on_open, socket] { on_open(*socket); });
        WebSocketCallbacks callbacks;
        callbacks.on_message = [](Slice) {};
        callbacks.on_closed = [&](const std::string& reason) {
          outcome = "closed: " + reason;
          loop.Stop();
        };
        return callbacks;
      },
      [&](const Error& error) {
        outcome = "failed: " + error.message();
        loop.Stop();
      });
  loop.Run();
  return outcome;
}

TEST_F(WebSocketTest, WhatACloseFrameSaysIsTold) {
  Listen();
  EventLoop loop;
  std::vector<std::string> told;
  ConnectWebSocket(
      loop, ServerUrl("ws", "/ws-held"), {}, {}, {},
      [&](const std::shared_ptr<WebSocket>&) {
        WebSocketCallbacks callbacks;
        callbacks.on_message = [](Slice) {};
        callbacks.on_close_frame = [&](uint16_t code, const std::string& reason) {
          told.push_back(std::to_string(code) + " " + reason);
        };
        callbacks.on_closed = [&](const std::string& reason) {
          told.push_back(reason);
          loop.Stop();
        };
        // The server's own socket may open after the client's.
        EXPECT_TRUE(Comes(handler_.is_open.get_future()));
        OnLoop([&] { handler_.held_socket->Close("wss://b:8443", kTryElsewhere); });
        return callbacks;
      },
      [&](const Error&) { loop.Stop(); });
  loop.Run();
  EXPECT_EQ(told, (std::vector<std::string>{"4307 wss://b:8443", "wss://b:8443"}));
}

// A server that has gone without a goodbye: nothing comes, and nothing says so.
TEST_F(WebSocketTest, ASilentServerIsLeft) {
  Listen();
  WebSocketClientLimits limits;
  limits.silence = Milliseconds(50);
  EXPECT_EQ(EndOf(ServerUrl("ws", "/ws-held"), limits), "closed: nothing came for 50 ms");
}

TEST_F(WebSocketTest, HowLongAServerMayBeSilentCanBeSaidLater) {
  Listen();
  WebSocketClientLimits limits;
  limits.silence = Seconds(60);
  const auto shorten = [](WebSocket& socket) {
    socket.SetSilence(Milliseconds(50));
    socket.Send({Slice(std::vector<uint8_t>{'x'})});  // comes back, and nothing after it
  };
  EXPECT_EQ(EndOf(ServerUrl("ws", "/ws"), limits, shorten), "closed: nothing came for 50 ms");
}

TEST_F(WebSocketTest, AConnectionThatNobodyWantsWhenItOpensIsClosed) {
  Listen();
  EventLoop loop;
  ConnectWebSocket(
      loop, ServerUrl("ws", "/ws-held"), {}, {}, {},
      [](const std::shared_ptr<WebSocket>&) { return WebSocketCallbacks(); },
      [](const Error& error) { ADD_FAILURE() << error.message(); });
  std::thread thread([&] { loop.Run(); });
  // What comes to it is nobody's.
  EXPECT_TRUE(Comes(handler_.is_open.get_future()));
  OnLoop([&] { handler_.held_socket->Send({Slice(std::vector<uint8_t>{1})}); });
  EXPECT_TRUE(Comes(handler_.socket_closed.get_future()));
  loop.Stop();
  thread.join();
}

TEST(WebSocketClient, AServerThatNeverAnswersTheHandshakeIsLeft) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  void* raw = &address;
  socklen_t length = sizeof(address);
  ASSERT_EQ(bind(listener, static_cast<sockaddr*>(raw), length), 0);
  ASSERT_EQ(listen(listener, 4), 0);  // the kernel connects; nobody accepts
  ASSERT_EQ(getsockname(listener, static_cast<sockaddr*>(raw), &length), 0);
  const std::string port = std::to_string(ntohs(address.sin_port));
  WebSocketClientLimits limits;
  limits.connect = Milliseconds(50);
  limits.handshake = Milliseconds(50);
  const std::string plain = EndOf(*ParseUrl("ws://127.0.0.1:" + port), limits);
  EXPECT_TRUE(plain.starts_with("failed: ")) << plain;
  const std::string tls = EndOf(*ParseUrl("wss://127.0.0.1:" + port), limits);
  EXPECT_TRUE(tls.starts_with("failed: ")) << tls;
  close(listener);
}

}  // namespace
}  // namespace weft::net
