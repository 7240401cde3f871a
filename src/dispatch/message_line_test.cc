// Messages over a way that loses, delays, repeats and reorders what goes on it, on a virtual clock.
#include "dispatch/message_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>

#include "base/random.h"

namespace weft::dispatch {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using Type = wire::DatagramType;

std::vector<uint8_t> Message(uint32_t number, size_t byte_count) {
  std::vector<uint8_t> message(byte_count);
  for (size_t i = 0; i < byte_count; ++i) message[i] = static_cast<uint8_t>(number + i * 7);
  return message;
}

// Two ends, and what is on its way between them.
class Way {
 public:
  struct Faults {
    double loss = 0, repeats = 0;
    Duration delay = Milliseconds(1), jitter;
  };
  Way(uint64_t seed, const Faults& faults) : faults_(faults), random_(seed) {}

  // `on_message` of the end that a message comes to.
  std::function<void(int end, const Slice& message)> on_message = [](int, const Slice&) {};

  MessageLine& line(int end) { return lines_[end]; }
  Instant now() const { return now_; }
  size_t bodies(Type type) const { return count_.contains(type) ? count_.at(type) : 0; }

  // What goes to this end from now on comes so much later at the soonest: its machine is busy.
  void Pause(int end, Duration time) { paused_until_[end] = now_ + time; }

  void Send(int end, std::vector<uint8_t> message) {
    lines_[end].Send(now_, std::move(message));
    Carry(end);
  }
  // Until nothing is on its way and no timer runs, or for so long.
  void Run(Duration most = Seconds(60)) {
    const Instant end = now_ + most;
    for (;;) {
      std::optional<Instant> next;
      if (!bodies_.empty()) next = bodies_.begin()->first;
      for (const MessageLine& line : lines_)
        if (const auto due = line.timer(); due && (!next || *due < *next)) next = due;
      if (!next || *next > end) return;
      now_ = std::max(now_, *next);
      while (!bodies_.empty() && bodies_.begin()->first <= now_) {
        auto [to, body] = std::move(bodies_.begin()->second);
        bodies_.erase(bodies_.begin());
        for (const Slice& message : lines_[to].OnBody(now_, body.type, body.bytes))
          on_message(to, message);
        Carry(to);
      }
      for (int each = 0; each < 2; ++each) lines_[each].OnTimer(now_), Carry(each);
    }
  }

 private:
  bool Happens(double share) { return random_.Uniform() < share; }
  void Carry(int from) {
    for (MessageLine::Body& body : lines_[from].TakeBodies()) {
      ++count_[body.type];
      if (Happens(faults_.loss)) continue;
      for (int copies = Happens(faults_.repeats) ? 2 : 1; copies > 0; --copies) {
        const auto late =
            static_cast<int64_t>(random_.Uniform() * static_cast<double>(faults_.jitter.us));
        const Instant soonest = now_ + faults_.delay + Microseconds(late);
        bodies_.emplace(std::max(soonest, paused_until_[1 - from]), std::pair(1 - from, body));
      }
    }
  }

  const Faults faults_;
  SeededRandom random_;
  Instant now_{};
  std::array<MessageLine, 2> lines_;
  std::array<Instant, 2> paused_until_{};
  std::multimap<Instant, std::pair<int, MessageLine::Body>> bodies_;
  std::map<Type, size_t> count_;
};

TEST(MessageLine, AnAnswerConfirmsItsQuestion) {
  Way way(1, {});
  std::vector<size_t> came;
  way.on_message = [&](int end, const Slice& message) {
    came.push_back(message.byte_count());
    if (end == 1) way.Send(1, Message(2, 3000));
  };
  way.Send(0, Message(1, 4 * MessageLine::kPacketBytes));
  way.Run();
  EXPECT_THAT(came, ElementsAre(4 * MessageLine::kPacketBytes, 3000));
  EXPECT_EQ(way.now().us, 3000 + 1000);  // there and back, and RECEIVED of the answer
  EXPECT_EQ(way.bodies(Type::kPacket), 4u + 3);
  EXPECT_EQ(way.bodies(Type::kReceived), 1u);
  EXPECT_EQ(way.bodies(Type::kParity), 0u);
}

TEST(MessageLine, MessagesComeWholeOnceAndInOrderInAThousandSeedsOfBadWays) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    SeededRandom random(seed);
    Way::Faults faults;
    faults.loss = 0.05 * random.Uniform();
    faults.repeats = 0.2 * random.Uniform();
    faults.jitter = Microseconds(static_cast<int64_t>(random.Below(300)));
    Way way(seed, faults);
    std::array<std::vector<std::vector<uint8_t>>, 2> sent, came;
    way.on_message = [&](int end, const Slice& message) {
      came[end].emplace_back(message.bytes().begin(), message.bytes().end());
    };
    for (uint32_t i = 0; i < 30; ++i) {
      const int end = static_cast<int>(random.Below(2));
      auto message = Message(i, 1 + random.Below(12'000));
      if (way.line(end).HasRoomFor(message.size())) {
        sent[1 - end].push_back(message);
        way.Send(end, std::move(message));
      }
      way.Run(Microseconds(static_cast<int64_t>(random.Below(4000))));
    }
    way.Run();
    for (int end = 0; end < 2; ++end) {
      ASSERT_FALSE(way.line(end).is_broken()) << "seed " << seed;
      ASSERT_FALSE(way.line(end).timer()) << "seed " << seed;
      ASSERT_EQ(came[end], sent[end]) << "seed " << seed;
    }
  }
}

// Of so many questions and answers of a row of 1,024 columns, or of a longer one, the time that one
// takes in the mean.
double MeanExchangeMs(double loss, int count, size_t bytes = 4200) {
  Way::Faults faults;
  faults.loss = loss;
  Way way(7, faults);
  int left = count;
  way.on_message = [&](int end, const Slice&) {
    if (end == 1) return way.Send(1, Message(1, bytes - 63));
    if (--left > 0) way.Send(0, Message(1, bytes));
  };
  way.Send(0, Message(1, bytes));
  way.Run(Seconds(600));
  EXPECT_EQ(left, 0);
  return static_cast<double>(way.now().us) / 1000 / count;
}

TEST(MessageLine, ALossCostsLittleMoreThanItsWay) {
  EXPECT_NEAR(MeanExchangeMs(0, 2000), 2.0, 0.01);
  // Without parities one exchange in three would wait for a packet: for 2 ms and more. With P alone
  // one would take 2.2 ms.
  EXPECT_LT(MeanExchangeMs(0.05, 2000), 2.1);
  // A row of 4,096 columns has 14 packets. With P alone it would take 2.8 ms.
  EXPECT_LT(MeanExchangeMs(0.05, 2000, 16'500), 2.2);
  EXPECT_LT(MeanExchangeMs(0.1, 2000, 16'500), 2.8);
}

// Its packets are all sent again, some of them several times, but they were not lost.
TEST(MessageLine, AnEndThatIsBusyForAWhileDoesNotBreakALine) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SeededRandom random(seed);
    Way way(seed, {.loss = 0.05});
    size_t answers = 0;
    way.on_message = [&](int end, const Slice&) {
      if (end == 1) way.Send(1, Message(2, 12'000));
      answers += end == 0 ? 1 : 0;
    };
    for (uint32_t i = 0; i < 300; ++i) {
      if (random.Below(10) == 0)
        way.Pause(1, Milliseconds(10 + static_cast<int64_t>(random.Below(40))));
      ASSERT_TRUE(way.line(0).HasRoomFor(16'000)) << "seed " << seed << ", message " << i;
      way.Send(0, Message(i, 16'000));
      way.Run();
    }
    EXPECT_EQ(answers, 300u);
    EXPECT_FALSE(way.line(0).is_broken() || way.line(1).is_broken()) << "seed " << seed;
  }
}

TEST(MessageLine, ALineThatLosesMostBreaks) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Way way(seed, {.loss = 0.6});
    for (uint32_t i = 0; i < 200 && way.line(0).HasRoomFor(16'000); ++i) {
      way.Send(0, Message(i, 16'000));
      way.Run();
    }
    EXPECT_TRUE(way.line(0).is_broken()) << "seed " << seed;
  }
}

TEST(MessageLine, NothingIsSentAgainWhereNothingIsLost) {
  Way::Faults faults;
  faults.jitter = Microseconds(300);
  Way way(3, faults);
  int left = 500;
  way.on_message = [&](int end, const Slice&) {
    if (end == 1) return way.Send(1, Message(1, 4137));
    if (--left > 0) way.Send(0, Message(1, 4200));
  };
  way.Send(0, Message(1, 4200));
  way.Run();
  EXPECT_LT(way.bodies(Type::kPacket), 500u * 8 * 1.01);
}

// Two ends of a line, of which the first one has seen that packets get lost.
class LossyLine : public testing::Test {
 protected:
  // Each makes it send a packet again.
  void Lose(int times) {
    for (int i = 0; i < times; ++i) {
      from_.Send(now_, Message(0, 10));
      (void)from_.TakeBodies();
      now_ = now_ + Seconds(1);
      from_.OnTimer(now_);
      Exchange(from_, to_);
      now_ = now_ + Seconds(1);
      to_.OnTimer(now_);
      Exchange(to_, from_);
    }
  }
  // What comes of this message without these of its bodies.
  std::vector<Slice> WithoutBodies(const std::vector<uint8_t>& message, size_t bodies_in_all,
                                   std::initializer_list<size_t> lost) {
    from_.Send(now_, message);
    const auto bodies = from_.TakeBodies();
    EXPECT_THAT(bodies, SizeIs(bodies_in_all));
    std::vector<Slice> whole;
    for (size_t i = 0; i < bodies.size(); ++i)
      if (std::ranges::find(lost, i) == lost.end())
        for (Slice& each : to_.OnBody(now_, bodies[i].type, bodies[i].bytes))
          whole.push_back(std::move(each));
    now_ = now_ + Seconds(1);
    to_.OnTimer(now_);
    Exchange(to_, from_);
    return whole;
  }

 private:
  void Exchange(MessageLine& a, MessageLine& b) {
    for (const auto& body : a.TakeBodies()) (void)b.OnBody(now_, body.type, body.bytes);
  }

  MessageLine from_, to_;
  Instant now_{};
};

TEST_F(LossyLine, APacketIsMadeAgainOfTheOthersAndTheirParity) {
  Lose(1);
  const std::vector<uint8_t> message = Message(5, 3 * MessageLine::kPacketBytes + 17);
  for (size_t lost = 0; lost < 4; ++lost) {
    const std::vector<Slice> whole = WithoutBodies(message, 5, {lost});
    ASSERT_THAT(whole, SizeIs(1)) << lost;
    EXPECT_TRUE(std::ranges::equal(whole[0].bytes(), message));
  }
}

// Packets are 0 to 4, then come P and Q.
TEST_F(LossyLine, TwoPacketsAreMadeAgainOfTheOthersAndTwoParities) {
  Lose(8);
  const std::vector<uint8_t> message = Message(9, 4 * MessageLine::kPacketBytes + 5);
  for (size_t lost = 0; lost < 7; ++lost)
    for (size_t also = 0; also < lost; ++also) {
      Lose(1);
      const std::vector<Slice> whole = WithoutBodies(message, 7, {lost, also});
      ASSERT_THAT(whole, SizeIs(1)) << lost << ", " << also;
      EXPECT_TRUE(std::ranges::equal(whole[0].bytes(), message)) << lost << ", " << also;
    }
}

TEST(MessageLine, ALineOnWhichNothingComesBreaks) {
  Way::Faults faults;
  faults.loss = 1;
  Way way(1, faults);
  way.Send(0, Message(1, 5000));
  way.Run();
  EXPECT_TRUE(way.line(0).is_broken());
  EXPECT_FALSE(way.line(0).HasRoomFor(1));
  EXPECT_LT(way.now().us, 2'000'000);
}

TEST(MessageLine, TakesNoMoreThanTheOtherEndCanTellOf) {
  MessageLine line;
  EXPECT_FALSE(line.HasRoomFor(MessageLine::kWindow * MessageLine::kPacketBytes + 1));
  line.Send({}, Message(1, MessageLine::kWindow * MessageLine::kPacketBytes));
  EXPECT_FALSE(line.HasRoomFor(1));
}

TEST(MessageLine, BodiesThatNoLineSendsChangeNothingOrEndIt) {
  SeededRandom random(9);
  for (int trial = 0; trial < 3000; ++trial) {
    MessageLine line;
    line.Send({}, Message(1, 3000));
    for (int i = 0; i < 40; ++i) {
      std::vector<uint8_t> body(random.Below(60));
      for (uint8_t& byte : body) byte = static_cast<uint8_t>(random.Below(4));
      // Numbers near those that are expected.
      for (size_t at = 13; at < body.size() && at < 20; ++at)
        if (at != 16 && at != 18) body[at] = 0;
      const Type types[] = {Type::kPacket, Type::kReceived, Type::kParity};
      for (const Slice& message : line.OnBody({}, types[random.Below(3)], body))
        ASSERT_LE(message.byte_count(), 40u * 60);
      (void)line.TakeBodies();
    }
  }
  // A message whose packets do not agree on how many they are.
  MessageLine line;
  std::vector<uint8_t> body(MessageLine::kHeadBytes + 1);
  StoreLe<uint32_t>(&body[0], 1);
  for (uint32_t number = 1; number <= 2; ++number) {
    StoreLe<uint32_t>(&body[12], number);
    StoreLe<uint16_t>(&body[16], static_cast<uint16_t>(number - 1));
    StoreLe<uint16_t>(&body[18], static_cast<uint16_t>(number + 1));
    EXPECT_THAT(line.OnBody({}, Type::kPacket, body), IsEmpty());
  }
  EXPECT_TRUE(line.is_broken());
}

}  // namespace
}  // namespace weft::dispatch
