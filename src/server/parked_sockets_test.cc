// Workers that come before their server can lead: they wait without a word, and are not refused.
#include "server/parked_sockets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/fake_socket_testing.h"

namespace weft::server {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class ParkedSocketsTest : public testing::Test {
 protected:
  net::WebSocketCallbacks Park(const std::shared_ptr<FakeSocket>& socket,
                               std::optional<uint32_t> cell = std::nullopt) {
    return parked_->Park({"10.0.0.1", true, cell, socket});
  }
  void RunFor(Duration time) {
    net::EventLoop::Timer end(loop_);
    end.FireAfter(time, [this] { loop_.Stop(); });
    loop_.Run();
  }

  net::EventLoop loop_;
  std::shared_ptr<ParkedSockets> parked_ =
      std::make_shared<ParkedSockets>(loop_, Milliseconds(100));
};

TEST_F(ParkedSocketsTest, WhoWaitsTooLongIsSentElsewhere) {
  const auto socket = std::make_shared<FakeSocket>();
  Park(socket);
  EXPECT_THAT(socket->closed, IsEmpty());
  EXPECT_TRUE(socket->allowance) << "it may send what a stranger may";
  RunFor(Milliseconds(150));
  EXPECT_THAT(socket->closed, ElementsAre("4307 "));
  const auto other = std::make_shared<FakeSocket>();
  Park(other);
  RunFor(Milliseconds(150));
  EXPECT_THAT(other->closed, ElementsAre("4307 "));
  EXPECT_THAT(socket->closed, ElementsAre("4307 "));
}

TEST_F(ParkedSocketsTest, WhoIsTakenStays) {
  const auto one = std::make_shared<FakeSocket>(), two = std::make_shared<FakeSocket>();
  const net::WebSocketCallbacks callbacks = Park(one, 3);
  Park(two, 4);
  std::vector<std::string> heard;
  parked_->AttachAll(
      [&](const ParkedSockets::Parked& each) -> std::optional<net::WebSocketCallbacks> {
        EXPECT_TRUE(each.is_owner);
        if (each.cell != 3) return std::nullopt;
        net::WebSocketCallbacks worker;
        worker.on_message = [&](const Slice& message) {
          heard.emplace_back(AsText(message.bytes()));
        };
        worker.on_closed = [&](const std::string& reason) { heard.push_back(reason); };
        return worker;
      });
  callbacks.on_message(Slice::OfText("connect"));
  RunFor(Milliseconds(150));
  EXPECT_THAT(one->closed, IsEmpty());
  EXPECT_THAT(two->closed, ElementsAre("4307 "));
  callbacks.on_closed("gone");
  EXPECT_THAT(heard, ElementsAre("connect", "gone"));
}

TEST_F(ParkedSocketsTest, WhoGoesIsForgotten) {
  const auto socket = std::make_shared<FakeSocket>();
  const net::WebSocketCallbacks callbacks = Park(socket);
  callbacks.on_message(Slice::OfText("too early"));
  callbacks.on_closed("gone");
  parked_->AttachAll([](const ParkedSockets::Parked&) -> std::optional<net::WebSocketCallbacks> {
    ADD_FAILURE() << "nobody waits";
    return std::nullopt;
  });
  RunFor(Milliseconds(150));
  EXPECT_THAT(socket->closed, IsEmpty());
  EXPECT_EQ(socket.use_count(), 1);
}

TEST_F(ParkedSocketsTest, OfTooManyTheLastAreSentElsewhereAtOnce) {
  std::vector<std::shared_ptr<FakeSocket>> sockets(ParkedSockets::kMostParked + 1);
  for (auto& socket : sockets) Park(socket = std::make_shared<FakeSocket>());
  EXPECT_THAT(sockets.front()->closed, IsEmpty());
  EXPECT_THAT(sockets.back()->closed, ElementsAre("4307 "));
}

TEST_F(ParkedSocketsTest, WhereAnotherServerLeadsAllAreSentThereAtOnce) {
  const auto one = std::make_shared<FakeSocket>(), two = std::make_shared<FakeSocket>();
  Park(one);
  parked_->SendElsewhere("wss://b:8443");
  Park(two);
  EXPECT_THAT(one->closed, ElementsAre("4307 wss://b:8443"));
  EXPECT_THAT(two->closed, ElementsAre("4307 wss://b:8443"));
  parked_->SendElsewhere("");
  const auto three = std::make_shared<FakeSocket>();
  Park(three);
  EXPECT_THAT(three->closed, IsEmpty()) << "it waits again";
  RunFor(Milliseconds(150));
  EXPECT_THAT(three->closed, ElementsAre("4307 "));
  EXPECT_THAT(one->closed, ElementsAre("4307 wss://b:8443"));
}

}  // namespace
}  // namespace weft::server
