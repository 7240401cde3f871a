// ReadingQueue: bodies that wait to become tokens, on threads of their own. Clients take turns
// (fair_tasks.h), and none may have more than its share of what waits.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "api/api_error.h"
#include "net/loop.h"
#include "server/fair_tasks.h"
#include "swarm/options.h"

namespace weft::server {

class ReadingQueue {
 public:
  // As many requests may wait to be read as may wait for a conversation (`weft serve --queue`), and
  // `kLeastRoom` at least: reading takes milliseconds. `loop` outlives this.
  static constexpr size_t kLeastRoom = swarm::kDefaultQueueLimit;
  ReadingQueue(net::EventLoop& loop, size_t queue_limit);

  // 503 when more wait than is good for anyone, 429 when too many of one client do.
  std::optional<api::ApiError> FindNoRoom(const std::string& client) const;
  // `read` is called once, on a thread, and what it gives once, on the loop: connections end there
  // alone, so that it must hand on what it holds of them.
  void Push(const std::string& client, size_t byte_count,
            std::function<std::function<void()>()> read);

 private:
  net::EventLoop& loop_;
  const size_t most_waiting_;
  size_t waiting_ = 0;
  size_t waiting_bytes_ = 0;
  std::map<std::string, size_t> waiting_by_client_;
  // Last: its threads use what stands above.
  FairTasks threads_;
};

}  // namespace weft::server
