#include "net/udp_socket.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

namespace weft::net {
namespace {

TEST(UdpSocket, DatagramsArriveWithWhereTheyComeFrom) {
  for (const std::string address : {"127.0.0.1", "::1"}) {
    EventLoop loop;
    auto hub = UdpSocket::Open(loop, address, 0);
    if (!hub.ok() && address == "::1") GTEST_SKIP() << "no IPv6 here";
    ASSERT_TRUE(hub.ok()) << hub.error().ToString();
    auto device = UdpSocket::Open(loop, address, 0).value();
    ASSERT_EQ((*hub)->Addresses().size(), 1u);
    EXPECT_NE((*hub)->port(), 0);
    std::vector<uint8_t> answer;
    const Instant begin = MonotonicNow();
    (*hub)->Receive([&](ReceivedDatagram datagram) {
      EXPECT_EQ(datagram.from, device->Addresses()[0]);
      std::ranges::reverse(datagram.bytes);
      (*hub)->Send(std::vector<OutgoingDatagram>{{datagram.from, datagram.bytes}});
    });
    device->Receive([&](ReceivedDatagram datagram) {
      EXPECT_EQ(datagram.from, (*hub)->Addresses()[0]);
      EXPECT_GE(datagram.came, begin - Milliseconds(1));
      EXPECT_LE(datagram.came, MonotonicNow());
      answer = std::move(datagram.bytes);
      loop.Stop();
    });
    const std::vector<uint8_t> question = {1, 2, 3};
    device->Send(std::vector<OutgoingDatagram>{{(*hub)->Addresses()[0], question}});
    loop.Run();
    EXPECT_EQ(answer, (std::vector<uint8_t>{3, 2, 1}));
  }
}

TEST(UdpSocket, WhoPollsTakesWhatComesAndTheLoopTheRest) {
  EventLoop loop;
  const auto hub = UdpSocket::Open(loop, "127.0.0.1", 0).value();
  const auto device = UdpSocket::Open(loop, "127.0.0.1", 0).value();
  const auto send = [&](uint8_t byte) {
    device->Send(std::vector<OutgoingDatagram>{{hub->Addresses()[0], {byte}}});
  };
  std::vector<uint8_t> of_loop, of_poll;
  hub->Receive([&](const ReceivedDatagram& datagram) {
    of_loop.push_back(datagram.bytes.at(0));
    loop.Stop();
  });
  hub->SetPolled(true);
  send(1);
  // The loop has nothing to do, and would take it.
  EventLoop::Timer timer(loop);
  timer.FireAfter(Milliseconds(30), [&] { loop.Stop(); });
  loop.Run();
  EXPECT_TRUE(of_loop.empty());
  hub->TakeReceived(
      [&](const ReceivedDatagram& datagram) { of_poll.push_back(datagram.bytes.at(0)); });
  EXPECT_EQ(of_poll, std::vector<uint8_t>{1});
  // What was not taken is the loop's.
  send(2);
  hub->SetPolled(false);
  loop.Run();
  EXPECT_EQ(of_loop, std::vector<uint8_t>{2});
}

// Those of one length go to the system as one, and arrive as what they were.
TEST(UdpSocket, ManyAtOnceArriveAsTheyAreAndInOrder) {
  for (const std::string address : {"127.0.0.1", "::1"}) {
    EventLoop loop;
    const auto from = UdpSocket::Open(loop, address, 0);
    if (!from.ok() && address == "::1") GTEST_SKIP() << "no IPv6 here";
    std::vector<std::shared_ptr<UdpSocket>> to;
    std::vector<std::vector<std::vector<uint8_t>>> sent(2), came(2);
    size_t left = 0;
    for (size_t i = 0; i < 2; ++i) {
      to.push_back(UdpSocket::Open(loop, address, 0).value());
      to[i]->Receive([&, i](const ReceivedDatagram& datagram) {
        came[i].push_back(datagram.bytes);
        if (--left == 0) loop.Stop();
      });
    }
    std::vector<OutgoingDatagram> all;
    uint8_t number = 0;
    const auto add = [&](size_t i, size_t count, size_t bytes) {
      for (size_t k = 0; k < count; ++k, ++left) {
        std::vector<uint8_t> datagram(bytes, ++number);
        sent[i].push_back(datagram);
        all.push_back({to[i]->Addresses()[0], datagram});
      }
    };
    add(0, 70, 1232);  // more than the system takes as one
    add(0, 1, 100);
    add(0, 2, 300);  // longer than the one before
    add(1, 3, 1000);
    add(0, 1, 1000);
    add(1, 1, 40);
    (*from)->Send(all);
    EventLoop::Timer timer(loop);
    timer.FireAfter(Seconds(5), [&] { loop.Stop(); });
    loop.Run();
    EXPECT_EQ(came, sent) << left << " did not arrive";
  }
}

TEST(UdpSocket, WhatIsThereIsReceivedBeforeItIsGivenUp) {
  EventLoop loop;
  const auto hub = UdpSocket::Open(loop, "127.0.0.1", 0).value();
  const auto device = UdpSocket::Open(loop, "127.0.0.1", 0).value();
  size_t received = 0, then = 0;
  hub->Receive([&](const ReceivedDatagram&) { ++received; });
  device->Send(std::vector<OutgoingDatagram>(100, {hub->Addresses()[0], {1, 2}}));
  hub->AfterReceived([&] {
    then = received;
    loop.Stop();
  });
  loop.Run();
  EXPECT_EQ(then, 100u);
}

TEST(UdpSocket, OfAllAddressesLoopbackIsTheLast) {
  EventLoop loop;
  const auto socket = UdpSocket::Open(loop, "0.0.0.0", 0).value();
  const DatagramAddress loopback = ToDatagramAddress("127.0.0.1", socket->port()).value();
  ASSERT_FALSE(socket->Addresses().empty());
  EXPECT_EQ(socket->Addresses().back(), loopback);
}

TEST(UdpSocket, APortThatIsTakenIsRefusedWithItsNumber) {
  EventLoop loop;
  const auto first = UdpSocket::Open(loop, "127.0.0.1", 0).value();
  const auto second = UdpSocket::Open(loop, "127.0.0.1", first->port());
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().message().find(std::to_string(first->port())), std::string::npos);
  EXPECT_FALSE(UdpSocket::Open(loop, "here", 0).ok());
}

// With freed memory overwritten, or under AddressSanitizer, a loop that took its insides along ends
// the process here.
TEST(UdpSocket, MayOutliveItsLoop) {
  std::shared_ptr<UdpSocket> waits, waits_not;
  std::optional<EventLoop::Timer> set, not_set;
  {
    EventLoop loop;
    waits = UdpSocket::Open(loop, "127.0.0.1", 0).value();
    waits_not = UdpSocket::Open(loop, "127.0.0.1", 0).value();
    waits->Receive([waits](const ReceivedDatagram&) { FAIL(); });
    set.emplace(loop).FireAfter(Duration(), [] { FAIL(); });
    not_set.emplace(loop);
  }
  const DatagramAddress to = waits->Addresses()[0];
  waits_not->Send(std::vector<OutgoingDatagram>{{to, {1}}});
  waits->AfterReceived([] { FAIL(); });
  set->FireAfter(Duration(), [] { FAIL(); });
  const std::weak_ptr<UdpSocket> held_by_what_it_calls = waits;
  for (auto* socket : {&waits, &waits_not}) (*socket)->Stop();
  waits.reset();
  EXPECT_TRUE(held_by_what_it_calls.expired());
}

}  // namespace
}  // namespace weft::net
