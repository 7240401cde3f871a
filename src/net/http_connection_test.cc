// Clients that are slow, silent, gone or wrong, mostly as raw sockets.
#include "net/http_connection.h"

#include <gtest/gtest.h>

#include "net/net_testing.h"

namespace weft::net {
namespace {

class HttpConnectionTest : public NetTest {};

constexpr char kAsk[] = "GET /echo HTTP/1.1\r\nHost: x\r\n\r\n";
constexpr char kAskAndClose[] = "GET /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

TEST_F(HttpConnectionTest, RefusesBeyondLimitsInTheHandlersFormat) {
  Listen();
  const auto expect = [&](const std::string& request, int status) {
    const std::string reply = Raw(request);
    EXPECT_TRUE(reply.starts_with("HTTP/1.1 " + std::to_string(status) + " ")) << reply;
    EXPECT_NE(reply.find("Content-Type: application/json"), std::string::npos) << reply;
    EXPECT_NE(reply.find("Connection: close"), std::string::npos) << reply;
  };
  expect("GET / HTTP/1.1\r\nX: " + std::string(9000, 'a') + "\r\n\r\n", 431);
  expect("POST / HTTP/1.1\r\nContent-Length: 2000000\r\n\r\n", 413);
  expect("NONSENSE\r\n\r\n", 400);
  expect("GET /a/../../etc/passwd HTTP/1.1\r\n\r\n", 400);
  expect("GET /%2e%2e/x HTTP/1.1\r\n\r\n", 400);
  expect("GET /%00 HTTP/1.1\r\n\r\n", 400);
  expect("GET /drop HTTP/1.1\r\n\r\n", 500);
}

TEST_F(HttpConnectionTest, WhoStopsInTheMiddleIsToldAndWhoSaysNothingIsNot) {
  options_.limits.handshake = Milliseconds(50);
  options_.limits.idle = Milliseconds(50);
  Listen();
  EXPECT_TRUE(Raw("GET / HTTP/1.1\r\n").starts_with("HTTP/1.1 408"));
  EXPECT_TRUE(Raw("POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nabc").starts_with("HTTP/1.1 408"));
  EXPECT_EQ(Raw(""), "");
}

// A client that sends its whole body before it reads: closing at once would reset the connection
// and the answer with it.
TEST_F(HttpConnectionTest, ARefusalReachesAClientThatGoesOnSending) {
  Listen();
  const std::string reply =
      Raw("POST / HTTP/1.1\r\nContent-Length: 8000000\r\n\r\n" + std::string(8000000, 'b'));
  EXPECT_TRUE(reply.starts_with("HTTP/1.1 413")) << reply;
  EXPECT_TRUE(reply.ends_with("}")) << reply;
}

TEST_F(HttpConnectionTest, AClientThatEndsItsSendingIsAnswered) {
  options_.limits.half_close_probe = Milliseconds(5);
  Listen();
  const RawClient client(server_->port());
  ASSERT_TRUE(client.Send("POST /hold HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi"));
  client.EndSending();
  ASSERT_TRUE(Comes(handler_.is_held.get_future()));
  // The server found out that somebody still listens, more than once.
  const std::string probe = "HTTP/1.1 100 Continue\r\n\r\n";
  EXPECT_EQ(client.ReadUntil(probe + probe), probe + probe);
  OnLoop([&] { handler_.held->Send(TextResponse(200, "text/plain", "late")); });
  const std::string reply = client.ReadAll();
  EXPECT_NE(reply.find("HTTP/1.1 200"), std::string::npos) << reply;
  EXPECT_TRUE(reply.ends_with("late")) << reply;
}

TEST_F(HttpConnectionTest, AStreamGoesOnForAClientThatEndsItsSending) {
  options_.limits.half_close_probe = Milliseconds(5);
  Listen();
  RawClient client(server_->port());
  ASSERT_TRUE(client.Send("GET /events HTTP/1.1\r\n\r\n"));
  client.EndSending();
  EXPECT_NE(client.ReadUntil("3\r\n:\n\n\r\n").find("data: first"), std::string::npos);
  OnLoop([&] { handler_.held->Write("data: second\n\n"); });
  EXPECT_NE(client.ReadUntil("data: second\n\n").find("data: second"), std::string::npos);
  auto left = handler_.client_left.get_future();
  EXPECT_EQ(left.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  client.Close();
  EXPECT_TRUE(Comes(std::move(left)));  // by the next comment
}

TEST_F(HttpConnectionTest, BytesBehindABodyDoNotHideThatAClientLeaves) {
  Listen();
  RawClient client(server_->port());
  ASSERT_TRUE(client.Send("POST /hold HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi\r\n\r\nmore"));
  ASSERT_TRUE(Comes(handler_.is_held.get_future()));
  client.Close();
  EXPECT_TRUE(Comes(handler_.client_left.get_future()));
}

TEST_F(HttpConnectionTest, MoreThanARequestAheadIsTooMuch) {
  options_.limits.ahead_bytes = 1000;
  Listen();
  const RawClient client(server_->port());
  ASSERT_TRUE(client.Send("POST /hold HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi"));
  client.Send(std::string(100000, 'x'));
  EXPECT_TRUE(Comes(handler_.client_left.get_future()));
}

TEST_F(HttpConnectionTest, RequestsInOnePacketAreAnsweredInOrder) {
  Listen();
  const std::string reply =
      Raw(std::string("POST /echo?q=1 HTTP/1.1\r\nContent-Length: 1\r\n\r\na\r\n") +
          "GET /echo?q=2 HTTP/1.1\r\n\r\nHEAD /echo?q=3 HTTP/1.1\r\n\r\n" + kAskAndClose);
  const size_t first = reply.find("POST /echo 1 a");
  const size_t second = reply.find("GET /echo 2 ");
  EXPECT_NE(first, std::string::npos) << reply;
  EXPECT_NE(second, std::string::npos) << reply;
  EXPECT_LT(first, second);
  EXPECT_TRUE(reply.ends_with("GET /echo  ")) << reply;
}

TEST_F(HttpConnectionTest, ASocketHandshakeBehindAnOpenRequestIsRefused) {
  Listen();
  const std::string reply = Raw(std::string(kAsk) +
                                "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: "
                                "websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
                                "dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
  EXPECT_NE(reply.find("HTTP/1.1 400"), std::string::npos) << reply;
}

TEST_F(HttpConnectionTest, OldClientsGetStreamsWithoutChunks) {
  Listen();
  const std::string reply = Raw("GET /stream HTTP/1.0\r\n\r\n");
  EXPECT_TRUE(reply.ends_with("\r\n\r\none two three")) << reply;
  EXPECT_EQ(reply.find("Transfer-Encoding"), std::string::npos) << reply;
}

TEST_F(HttpConnectionTest, OldClientsAreToldThatTheConnectionStays) {
  Listen();
  const RawClient client(server_->port());
  ASSERT_TRUE(client.Send("GET /echo?q=1 HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"));
  EXPECT_NE(client.ReadUntil("GET /echo 1 ").find("\r\nConnection: keep-alive\r\n"),
            std::string::npos);
  ASSERT_TRUE(client.Send("GET /echo?q=2 HTTP/1.0\r\n\r\n"));
  const std::string last = client.ReadAll();
  EXPECT_NE(last.find("\r\nConnection: close\r\n"), std::string::npos) << last;
  EXPECT_TRUE(last.ends_with("GET /echo 2 ")) << last;
  const std::string stream = Raw("GET /stream HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n");
  EXPECT_NE(stream.find("\r\nConnection: close\r\n"), std::string::npos) << stream;
}

TEST_F(HttpConnectionTest, TheHostOfAWholeAddressCounts) {
  Listen();
  const auto host_of = [&](const std::string& target, const std::string& fields) {
    const std::string reply =
        Raw("GET " + target + " HTTP/1.1\r\n" + fields + "Connection: close\r\n\r\n");
    EXPECT_TRUE(reply.ends_with("GET /echo 1 ")) << reply;
    std::string host;
    OnLoop([&] { host = handler_.last_request.HeaderList("host"); });
    return host;
  };
  EXPECT_EQ(host_of("http://a:80/echo?q=1", "Host: b\r\nProxy-Connection: keep-alive\r\n"), "a:80");
  EXPECT_EQ(host_of("HTTP://a/echo?q=1", ""), "a");
  EXPECT_EQ(host_of("/echo?q=1", "Host: b\r\n"), "b");
  EXPECT_TRUE(
      Raw("OPTIONS * HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n").ends_with("OPTIONS *  "));
  EXPECT_TRUE(Raw("CONNECT b:80 HTTP/1.1\r\nHost: b\r\n\r\n").starts_with("HTTP/1.1 501"));
  EXPECT_TRUE(Raw("GET * HTTP/1.1\r\nHost: b\r\n\r\n").starts_with("HTTP/1.1 400"));
  EXPECT_TRUE(Raw("GET http://u@b/ HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 400"));
}

TEST_F(HttpConnectionTest, EveryAnswerHasItsDate) {
  Listen();
  for (const std::string& request :
       {std::string(kAskAndClose), std::string("GET /stream HTTP/1.0\r\n\r\n"),
        std::string("NONSENSE\r\n\r\n"), std::string("GET /drop HTTP/1.0\r\n\r\n")}) {
    const std::string reply = Raw(request);
    EXPECT_NE(reply.find(" GMT\r\n"), std::string::npos) << reply;
    EXPECT_NE(reply.find("\r\nDate: "), std::string::npos) << reply;
  }
}

// Who asked is known for an answer that says so, also where the head is not whole.
TEST_F(HttpConnectionTest, RefusalsKnowWhoAsked) {
  options_.limits.handshake = Milliseconds(50);
  options_.limits.idle = Milliseconds(50);
  Listen();
  const std::string origin = "Origin: https://a\r\n", longest = "X: " + std::string(9000, 'a');
  const std::pair<std::string, int> cases[] = {
      {"GET / HTTP/1.1\r\n" + origin + longest + "\r\n\r\n", 431},
      {"GET / HTTP/1.1\r\n" + longest + "\r\n" + origin + "\r\n", 431},
      {"GET / HTTP/1.1\r\n" + longest + longest + "\r\n" + longest + "\r\n" + origin + "\r\n", 431},
      {"GET / HTTP/1.1\r\n" + origin + longest, 431},
      {"POST / HTTP/1.1\r\n" + origin + "Content-Length: 2000000\r\n\r\n", 413},
      {"POST /short HTTP/1.1\r\n" + origin + "Content-Length: 11\r\n\r\n", 413},
      {"POST /short HTTP/1.1\r\n" + origin +
           "Transfer-Encoding: chunked\r\n\r\n6\r\n123456\r\n5\r\n12345\r\n0\r\n\r\n",
       413},
      {"GET / HTTP/1.1\r\n" + origin + "X: ", 408},
      {"POST / HTTP/1.1\r\n" + origin + "Content-Length: 5\r\n\r\nab", 408},
      {"GET / HTTP/1.1\r\n" + origin + "bad field\r\n\r\n", 400},
      {"GET / HTTP/2.0\r\n" + origin + "\r\n", 505},
      {"GET / HTTP/x\r\n" + origin + "\r\n", 400},
      {"POST / HTTP/1.1\r\n" + origin + "Transfer-Encoding: gzip\r\n\r\n", 501},
      {"GET /drop HTTP/1.1\r\n" + origin + "\r\n", 500}};
  for (const std::pair<std::string, int>& each : cases) {
    const std::string& request = each.first;
    OnLoop([&] { handler_.failed_request = {}; });
    const std::string reply = Raw(request);
    EXPECT_TRUE(reply.starts_with("HTTP/1.1 " + std::to_string(each.second))) << request << reply;
    OnLoop([&] { EXPECT_EQ(handler_.failed_request.Header("origin"), "https://a") << request; });
  }
}

TEST_F(HttpConnectionTest, ABodyMayTakeItsTimeIfItKeepsArriving) {
  options_.limits.idle = Milliseconds(100);
  options_.limits.body_bytes_per_second = 100;
  Listen();
  const auto send = [&](int pieces, const std::string& piece) {
    const RawClient client(server_->port());
    EXPECT_TRUE(client.Send("POST /echo HTTP/1.1\r\nConnection: close\r\nContent-Length: " +
                            std::to_string(static_cast<size_t>(pieces) * piece.size()) +
                            "\r\n\r\n"));
    for (int i = 0; i < pieces && client.Send(piece); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return client.ReadAll().substr(0, 12);
  };
  EXPECT_EQ(send(20, std::string(10, 'a')), "HTTP/1.1 200");
  EXPECT_EQ(send(20, "a"), "HTTP/1.1 408");
}

TEST_F(HttpConnectionTest, WhoAsksWhetherToSendIsToldToGoOn) {
  Listen();
  const RawClient client(server_->port());
  ASSERT_TRUE(
      client.Send("POST /echo HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\nConnection: "
                  "close\r\n\r\n"));
  EXPECT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  ASSERT_TRUE(client.Send("ok"));
  EXPECT_TRUE(client.ReadAll().ends_with("POST /echo  ok"));
  const std::string old =
      Raw("POST /echo HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nok");
  EXPECT_TRUE(old.starts_with("HTTP/1.1 200")) << old;
}

TEST_F(HttpConnectionTest, AClientThatTakesNothingOfItsAnswerIsLeft) {
  options_.limits.write_stall = Milliseconds(50);
  Listen();
  const RawClient client(server_->port(), 4096);
  ASSERT_TRUE(client.Send("GET /large HTTP/1.1\r\n\r\n"));
  EXPECT_TRUE(Comes(handler_.client_left.get_future()));
}

// Takes a piece of the answer only now and then, two stall times long in all.
TEST_F(HttpConnectionTest, ASlowClientIsNotLeftWhileItTakesSomething) {
  options_.limits.write_stall = Seconds(1);
  Listen();
  const RawClient client(server_->port());
  ASSERT_TRUE(client.Send("GET /large HTTP/1.1\r\nConnection: close\r\n\r\n"));
  client.ReadUntil("\r\n\r\n");
  size_t count = 0;
  std::string piece;
  for (int pause = 0; pause < 16; ++pause) {
    std::this_thread::sleep_for(std::chrono::milliseconds(125));
    piece = client.ReadSome(4 << 20);
    count += piece.size();
  }
  EXPECT_EQ(count + client.ReadAll().size(), size_t{64 << 20});
}

TEST_F(HttpConnectionTest, ASubscriberThatTakesNothingIsLeftAfterAWhile) {
  options_.limits.write_stall = Milliseconds(50);
  options_.limits.stream_queue_bytes = 64 << 20;
  Listen();
  const RawClient client(server_->port(), 4096);
  ASSERT_TRUE(client.Send("GET /events HTTP/1.1\r\n\r\n"));
  ASSERT_TRUE(Comes(handler_.is_held.get_future()));
  OnLoop([&] { handler_.held->Write(std::string(32 << 20, 'x')); });
  EXPECT_TRUE(Comes(handler_.client_left.get_future()));
}

TEST_F(HttpConnectionTest, ASubscriberThatTakesNothingIsLeftWhenItsQueueIsFull) {
  Listen();
  const RawClient client(server_->port(), 4096);
  ASSERT_TRUE(client.Send("GET /events HTTP/1.1\r\n\r\n"));
  ASSERT_TRUE(Comes(handler_.is_held.get_future()));
  auto left = handler_.client_left.get_future();
  // Long before a write stalls: the kernel takes a few MiB, the queue 4, and here are 64.
  OnLoop([&] {
    for (int i = 0; i < 64; ++i) handler_.held->Write(std::string(1 << 20, 'x'));
  });
  EXPECT_EQ(left.wait_for(std::chrono::seconds(0)), std::future_status::ready);
}

TEST_F(HttpConnectionTest, AnswersWithoutABodyTellNoLength) {
  Listen();
  for (const char* status : {"204", "304"}) {
    const std::string reply =
        Raw(std::string("GET /") + status + " HTTP/1.1\r\n\r\n" + kAskAndClose);
    EXPECT_TRUE(reply.starts_with(std::string("HTTP/1.1 ") + status)) << reply;
    const size_t next = reply.find("HTTP/1.1 200");
    ASSERT_NE(next, std::string::npos) << reply;
    EXPECT_EQ(reply.substr(0, next).find("Content-Length"), std::string::npos) << reply;
  }
}

// The preparing takes longer than a client may take to read: that is not the client's fault.
TEST_F(HttpConnectionTest, APieceIsPreparedWhenThoseBeforeItWereSent) {
  options_.limits.write_stall = Milliseconds(20);
  std::vector<std::string> asked;
  std::function<void()> go_on;
  handler_.prepare = [&](const Slice& piece, std::function<void()> then) {
    asked.emplace_back(AsText(piece.bytes()));
    go_on = std::move(then);
  };
  Listen();
  const RawClient client(server_->port());
  ASSERT_TRUE(client.Send("GET /pieces HTTP/1.1\r\nConnection: close\r\n\r\n"));
  EXPECT_NE(client.ReadUntil("\r\n\r\n").find("Content-Length: 11\r\n"), std::string::npos);
  std::vector<std::string> sent;
  for (const char* piece : {"one", "two", "three"}) {
    sent.emplace_back(piece);
    ASSERT_TRUE(Holds([&] { return asked.size() >= sent.size(); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    OnLoop([&] {
      EXPECT_EQ(asked, sent);
      go_on();
    });
    EXPECT_EQ(client.ReadUntil(piece), piece);
  }
  EXPECT_EQ(client.ReadAll(), "");
}

TEST_F(HttpConnectionTest, AClientMayLeaveWhileItsPieceIsPrepared) {
  std::function<void()> go_on;
  handler_.prepare = [&](const Slice&, std::function<void()> then) { go_on = std::move(then); };
  Listen();
  RawClient client(server_->port());
  ASSERT_TRUE(client.Send("GET /pieces HTTP/1.1\r\n\r\n"));
  ASSERT_TRUE(Holds([&] { return go_on != nullptr; }));
  client.Close();
  ASSERT_TRUE(Comes(handler_.client_left.get_future()));
  OnLoop([&] { std::exchange(go_on, nullptr)(); });
  EXPECT_TRUE(Raw(kAskAndClose).starts_with("HTTP/1.1 200"));
}

TEST_F(HttpConnectionTest, TakesBothKindsOfAddressesOnTheSamePort) {
  options_.address = "[::]";
  Listen();
  {
    const RawClient client(server_->port());
    ASSERT_TRUE(client.Send(kAskAndClose));
    EXPECT_TRUE(client.ReadAll().starts_with("HTTP/1.1 200"));
  }
  const RawClient client(server_->port(), 0, true);
  if (!client.is_connected()) GTEST_SKIP() << "this machine has no IPv6 loopback";
  OnLoop([&] { EXPECT_EQ(handler_.last_request.remote_address, "127.0.0.1"); });
  ASSERT_TRUE(client.Send(kAskAndClose));
  EXPECT_TRUE(client.ReadAll().starts_with("HTTP/1.1 200"));
  OnLoop([&] {
    EXPECT_EQ(handler_.last_request.remote_address, "::1");
    EXPECT_TRUE(handler_.last_request.remote_is_loopback);
  });
}

// Counts what it is asked; its owner may have destroyed it as well.
class CountingHandler : public ServerHandler {
 public:
  explicit CountingHandler(EventLoop& loop) : loop_(loop) {}
  void OnRequest(HttpRequest, std::shared_ptr<Responder> responder) override {
    ++asked;
    responder->OnClosed([this] { ++closed; });
    held.push_back(std::move(responder));
    if (held.size() == 4) loop_.Stop();
  }
  bool OnHandshake(const HttpRequest&, HttpResponse*) override {
    ++asked;
    return false;
  }
  WebSocketCallbacks OnWebSocket(const HttpRequest&, std::shared_ptr<WebSocket>) override {
    ++asked;
    return {};
  }
  HttpResponse MakeError(int status, const std::string& sentence, const HttpRequest&) override {
    ++asked;
    return TextResponse(status, "text/plain", sentence);
  }

  std::vector<std::shared_ptr<Responder>> held;
  int asked = 0;
  int closed = 0;

 private:
  EventLoop& loop_;
};

TEST(Server, AsksNobodyAfterItsEndWhoeverHoldsAResponder) {
  EventLoop loop;
  CountingHandler handler(loop);
  auto server = Server::Listen(loop, {}, &handler).value();
  // The second request of each waits behind the answer to the first.
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<RawClient>(server->port()));
    EXPECT_TRUE(clients.back()->Send(std::string(kAsk) + kAsk));
  }
  loop.Run();
  handler.held[2]->StartStream(200, {});
  handler.held[3]->StartStream(200, {});
  server.reset();
  handler.held[0].reset();  // without an answer
  handler.held[1]->Send(TextResponse(200, "text/plain", "late"));
  handler.held[2]->Write("late");
  handler.held[2]->End();
  handler.held.clear();
  clients.clear();
  loop.Post([&] { loop.Post([&] { loop.Stop(); }); });
  loop.Run();
  EXPECT_EQ(handler.asked, 4);
  EXPECT_EQ(handler.closed, 0);
}

TEST(ConnectionLimits, OneNetworkHasItsShare) {
  ServerLimits limits;
  limits.connections = 5;
  limits.connections_per_address = 2;
  ConnectionCounter counter;
  EXPECT_TRUE(counter.TryAdd("2001:db8::1", limits));
  EXPECT_TRUE(counter.TryAdd("2001:db8::2", limits));
  EXPECT_FALSE(counter.TryAdd("2001:db8::3", limits));
  EXPECT_TRUE(counter.TryAdd("10.0.0.1", limits));
  EXPECT_TRUE(counter.TryAdd("127.0.0.1", limits));
  EXPECT_TRUE(counter.TryAdd("127.0.0.1", limits));
  EXPECT_FALSE(counter.TryAdd("127.0.0.1", limits));  // five in all
  counter.Remove("2001:db8::1");
  EXPECT_TRUE(counter.TryAdd("2001:db8::9", limits));
}

TEST(ConnectionLimits, IdleConnectionsMakeRoomForNewOnes) {
  const auto counter = std::make_shared<ConnectionCounter>();
  ServerLimits limits;
  limits.connections = 4;
  limits.connections_per_address = 2;
  std::vector<std::unique_ptr<ConnectionPlace>> places;
  for (const char* address : {"10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2"}) {
    EXPECT_TRUE(counter->TryAdd(address, limits));
    places.push_back(std::make_unique<ConnectionPlace>(counter, address));
  }
  std::string ended;
  const auto idle = [&](size_t place) {
    places[place]->SetIdle([&ended, place] { ended += std::to_string(place); });
  };
  EXPECT_FALSE(counter->TryAdd("10.0.0.1", limits));
  EXPECT_FALSE(counter->TryAdd("10.0.0.3", limits));  // four in all
  idle(2);
  EXPECT_FALSE(counter->TryAdd("10.0.0.1", limits)) << "of another address";
  idle(1);
  idle(0);
  EXPECT_TRUE(counter->TryAdd("10.0.0.1", limits));
  EXPECT_EQ(ended, "1") << "idle for longer than 0";
  EXPECT_TRUE(counter->TryAdd("10.0.0.3", limits));
  EXPECT_EQ(ended, "12");
  places[0]->SetIdle(nullptr);
  EXPECT_FALSE(counter->TryAdd("10.0.0.1", limits));
}

// Its clients are counted one by one, by whoever reads whom it forwards.
TEST(ConnectionLimits, AProxyIsNotOneAddress) {
  ConnectionCounter counter;
  ServerLimits limits;
  limits.connections = 5;
  limits.connections_per_address = 1;
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(counter.TryAdd("10.0.0.9", limits, false));
  EXPECT_FALSE(counter.TryAdd("10.0.0.9", limits, false));
}

// A connection that waits for its next request is closed, and a client that asks again is served.
TEST_F(NetTest, IdleConnectionsOfAFullServerEnd) {
  options_.limits.connections = 2;
  Listen();
  const std::string request = "GET /x HTTP/1.1\r\nHost: x\r\n\r\n";
  RawClient first(server_->port()), second(server_->port());
  for (const RawClient* client : {&first, &second}) {
    ASSERT_TRUE(client->Send(request));
    EXPECT_NE(client->ReadUntil("GET /x  "), "");
  }
  RawClient third(server_->port());
  ASSERT_TRUE(third.Send(request));
  EXPECT_NE(third.ReadUntil("GET /x  ").find("200"), std::string::npos);
  EXPECT_EQ(first.ReadAll(), "");
}

TEST(ConnectionLimits, WhoKeepsUpIsNeverCutOffForOthers) {
  const auto counter = std::make_shared<ConnectionCounter>();
  ServerLimits limits;
  for (const char* address : {"10.0.0.1", "10.0.0.2"}) counter->TryAdd(address, limits);
  ConnectionPlace lagging(counter, "10.0.0.1");
  const ConnectionPlace prompt(counter, "10.0.0.2");
  EXPECT_TRUE(MayQueue(lagging, 60, 80, 100));
  lagging.SetQueuedBytes(60);
  EXPECT_FALSE(MayQueue(lagging, 21, 80, 100));  // its own limit
  EXPECT_FALSE(MayQueue(lagging, 15, 80, 70));   // that of all
  EXPECT_TRUE(MayQueue(prompt, 15, 80, 70));
  EXPECT_FALSE(MayQueue(prompt, 81, 80, 1000));
  lagging.SetQueuedBytes(0);
  EXPECT_TRUE(MayQueue(lagging, 15, 80, 70));
}

}  // namespace
}  // namespace weft::net
