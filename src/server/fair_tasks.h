// FairTasks: tasks of many clients on a few threads, by turns: one of each client, then the next
// one of each. A client with many long tasks makes another one's wait for no more than one of them
// at each thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "base/task_queue.h"

namespace weft::server {

class FairTasks {
 public:
  explicit FairTasks(unsigned thread_count) : threads_(thread_count) {}

  // Any thread. One client's tasks begin in their order.
  void Push(const std::string& client, std::function<void()> task);

 private:
  std::function<void()> TakeNext();

  std::mutex mutex_;
  std::map<std::string, std::deque<std::function<void()>>> tasks_;  // by client
  std::string last_;                                                // client that had a turn
  // Last: its threads use what stands above.
  TaskQueue threads_;
};

}  // namespace weft::server
