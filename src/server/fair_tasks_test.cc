#include "server/fair_tasks.h"

#include <gtest/gtest.h>

#include <future>

namespace weft::server {
namespace {

TEST(FairTasks, ClientsTakeTurns) {
  std::string order;
  std::promise<void> begin, done;
  {
    FairTasks tasks(1);
    tasks.Push("first", [&] { begin.get_future().wait(); });
    for (int i = 0; i < 3; ++i) tasks.Push("greedy", [&] { order += 'g'; });
    tasks.Push("polite", [&] { order += 'p'; });
    tasks.Push("polite", [&] { order += 'p'; });
    tasks.Push("last", [&] { order += 'l'; });
    for (int i = 0; i < 2; ++i) tasks.Push("greedy", [&] { order += 'g'; });
    tasks.Push("~", [&] { order += '~'; });
    tasks.Push("greedy", [&] { done.set_value(); });
    begin.set_value();
    done.get_future().wait();
  }
  EXPECT_EQ(order, "glp~gpggg");
}

}  // namespace
}  // namespace weft::server
