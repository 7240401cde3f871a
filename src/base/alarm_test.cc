#include "base/alarm.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace weft {
namespace {

TEST(Alarm, RingsAtTheTimeThatWasSetLast) {
  std::promise<Instant> rang;
  Alarm alarm([&] { rang.set_value(MonotonicNow()); });
  const Instant begin = MonotonicNow();
  alarm.Set(begin + Seconds(1000));
  alarm.Set(begin + Milliseconds(30));
  EXPECT_GE(rang.get_future().get() - begin, Milliseconds(30));
}

TEST(Alarm, WhatWasPutOffRingsLater) {
  std::promise<Instant> rang;
  Alarm alarm([&] { rang.set_value(MonotonicNow()); });
  const Instant begin = MonotonicNow();
  alarm.Set(begin + Milliseconds(10));
  alarm.Set(begin + Milliseconds(60));
  EXPECT_GE(rang.get_future().get() - begin, Milliseconds(60));
}

TEST(Alarm, MayBeSetFromWithinItsCall) {
  std::atomic<int> count = 0;
  std::promise<void> third;
  Alarm* self = nullptr;
  Alarm alarm([&] {
    if (++count == 3) return third.set_value();
    self->Set(MonotonicNow() + Milliseconds(1));
  });
  self = &alarm;
  alarm.Set(MonotonicNow());
  third.get_future().wait();
  alarm.Stop();
  EXPECT_EQ(count, 3);
}

TEST(Alarm, ThatWasTakenBackDoesNotRing) {
  std::atomic<int> count = 0;
  {
    Alarm alarm([&] { ++count; });
    alarm.Set(MonotonicNow() + Milliseconds(50));
    alarm.Set(std::nullopt);
    alarm.Stop();
    alarm.Set(MonotonicNow());
  }
  EXPECT_EQ(count, 0);
}

}  // namespace
}  // namespace weft
