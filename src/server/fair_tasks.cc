#include "server/fair_tasks.h"

#include <utility>

namespace weft::server {

void FairTasks::Push(const std::string& client, std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_[client].push_back(std::move(task));
  }
  threads_.Push([this] { TakeNext()(); });
}

// There is one for each time that a thread was asked.
std::function<void()> FairTasks::TakeNext() {
  const std::lock_guard lock(mutex_);
  auto next = tasks_.upper_bound(last_);
  if (next == tasks_.end()) next = tasks_.begin();
  last_ = next->first;
  std::function<void()> task = std::move(next->second.front());
  next->second.pop_front();
  if (next->second.empty()) tasks_.erase(next);
  return task;
}

}  // namespace weft::server
