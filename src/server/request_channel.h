// RequestChannel: one end of a link between two servers, as requests of one cell see it. Its owner
// hands what comes to LinkedRequests or LinkedGenerator, tells them when the link is lost, and ends
// the link when they say that a message was bad.
#pragma once

#include "wire/cluster_requests.pb.h"

namespace weft::server {

// No message is much longer than this, but for the prompt of a request.
inline constexpr size_t kMessageBytes = size_t{1} << 20;

class RequestChannel {
 public:
  virtual ~RequestChannel() = default;
  // The channel fills in the cell. What cannot be sent any more is dropped. Nobody is told anything
  // before this returns.
  virtual void Send(wire::pb::RequestMessage message) = 0;
  // So much waits that more has to wait elsewhere (LinkedRequests::OnDrained).
  virtual bool is_full() const = 0;
};

}  // namespace weft::server
