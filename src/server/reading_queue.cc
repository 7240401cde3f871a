#include "server/reading_queue.h"

#include <algorithm>
#include <utility>

#include "server/responses.h"
#include "swarm/flow/fair_queue.h"

namespace weft::server {
namespace {

// A long conversation takes one of them for a second or so; two, so that a short one goes past it.
constexpr unsigned kThreads = 2;
// Bytes of bodies that wait for them, in all but the one that goes beyond.
constexpr size_t kMaxWaitingBytes = 256 << 20;

}  // namespace

ReadingQueue::ReadingQueue(net::EventLoop& loop, size_t queue_limit)
    : loop_(loop), most_waiting_(std::max(kLeastRoom, queue_limit)), threads_(kThreads) {}

std::optional<api::ApiError> ReadingQueue::FindNoRoom(const std::string& client) const {
  if (waiting_bytes_ >= kMaxWaitingBytes) {
    return Overloaded(std::to_string(waiting_bytes_) +
                      " bytes of requests wait to be read already, the limit. Try again later.");
  }
  const auto found = waiting_by_client_.find(client);
  const size_t own = found == waiting_by_client_.end() ? 0 : found->second;
  switch (swarm::RoomFor(waiting_, own, most_waiting_)) {
    case swarm::Room::kFree:
      return std::nullopt;
    case swarm::Room::kOverShare:
      return OverShare("You have " + std::to_string(own) +
                       " requests that wait to be read already, the limit for one client.");
    case swarm::Room::kFull:
      break;
  }
  return Overloaded(std::to_string(waiting_) +
                    " requests wait to be read already, the limit. Try again later.");
}

void ReadingQueue::Push(const std::string& client, size_t byte_count,
                        std::function<std::function<void()>()> read) {
  ++waiting_;
  ++waiting_by_client_[client];
  waiting_bytes_ += byte_count;
  threads_.Push(client, [this, client, byte_count, read = std::move(read)]() mutable {
    std::function<void()> then = read();
    read = nullptr;
    loop_.Post([this, client, byte_count, then = std::move(then)] {
      --waiting_;
      waiting_bytes_ -= byte_count;
      const auto own = waiting_by_client_.find(client);
      if (--own->second == 0) waiting_by_client_.erase(own);
      then();
    });
  });
}

}  // namespace weft::server
