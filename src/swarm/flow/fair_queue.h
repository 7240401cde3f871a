// FairQueue: the requests that wait for a session, and whose turn it is. A client is whoever the
// host says a request comes from (Request::client). Turns go round by client: who has the fewest
// sessions first, then whoever was served the fewest tokens, prompts included. Requests of one
// client keep their order.
//
//   two sessions, A sends 60 requests, then B one and C one:
//   A1 A2 run; B1 takes the place of A2 at once, which goes on later; C1 is next, then A2
//
// A client that was away comes back with the count of whoever was served least meanwhile: time
// without requests is no credit.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "swarm/flow/session.h"

namespace weft::swarm {

// Whether a queue of `limit` places that has `total` takes one more of a client of whom it has
// `own`. A client may have half of the places. Whoever has none finds room up to twice the limit: a
// queue that others have filled keeps nobody out.
enum class Room { kFree, kOverShare, kFull };
Room RoomFor(size_t total, size_t own, size_t limit);

class FairQueue {
 public:
  // The client's request begins, or ends: between the two its count is kept. The share is what its
  // rows are charged to (ActiveRequest::Charge).
  std::shared_ptr<ClientShare> Enter(const std::string& client);
  void Leave(ClientShare& share);

  void Push(ActiveRequest request) { waiting_.push_back(std::move(request)); }
  // One that had its turn and goes on before others of its client.
  void PushFront(ActiveRequest request) { waiting_.push_front(std::move(request)); }

  // Sessions that the client has.
  using CountActive = std::function<uint32_t(const ClientShare&)>;
  using MayBegin = std::function<bool(const ActiveRequest&)>;
  // The place in waiting() of the request whose turn is next, of those that may begin; nullopt:
  // none waits.
  std::optional<size_t> Next(const CountActive& active, const MayBegin& may_begin) const;
  // How many of those that wait have their turn before each of them, as far as is known now.
  std::map<RequestId, uint32_t> CountAhead(const CountActive& active) const;
  ActiveRequest Take(size_t place);

  size_t CountOf(const std::string& client) const;
  size_t client_count() const { return shares_.size(); }
  // In the order in which they came.
  const std::deque<ActiveRequest>& waiting() const { return waiting_; }

 private:
  std::deque<ActiveRequest> waiting_;
  std::map<std::string, std::shared_ptr<ClientShare>> shares_;
};

}  // namespace weft::swarm
