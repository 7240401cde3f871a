#include "server/parked_sockets.h"

#include <algorithm>
#include <utility>

#include "server/worker_socket.h"

namespace weft::server {

net::WebSocketCallbacks ParkedSockets::Park(Parked parked) {
  LimitStranger(*parked.socket);
  const auto waiting =
      std::make_shared<Waiting>(Waiting{std::move(parked), MonotonicNow() + limit_, {}});
  net::WebSocketCallbacks callbacks;
  callbacks.on_message = [waiting](Slice message) {
    if (waiting->callbacks.on_message) waiting->callbacks.on_message(std::move(message));
  };
  callbacks.on_closed = [waiting, weak = weak_from_this()](const std::string& reason) {
    if (const auto self = weak.lock()) std::erase(self->waiting_, waiting);
    waiting->parked.socket.reset();
    if (waiting->callbacks.on_closed) waiting->callbacks.on_closed(reason);
  };
  if (waiting_.size() >= kMostParked || !elsewhere_.empty()) {
    Dismiss(*waiting);
    return callbacks;
  }
  waiting_.push_back(waiting);
  if (waiting_.size() == 1) timer_.FireAfter(limit_, [this] { DismissOverdue(); });
  return callbacks;
}

void ParkedSockets::Dismiss(const Waiting& waiting) const {
  waiting.parked.socket->Close(elsewhere_, net::kTryElsewhere);
}

void ParkedSockets::SendElsewhere(std::string elsewhere) {
  elsewhere_ = std::move(elsewhere);
  if (elsewhere_.empty()) return;
  for (const auto& each : waiting_) Dismiss(*each);
  waiting_.clear();
}

void ParkedSockets::DismissOverdue() {
  const Instant now = MonotonicNow();
  while (!waiting_.empty() && waiting_.front()->until <= now) {
    Dismiss(*waiting_.front());
    waiting_.pop_front();
  }
  if (!waiting_.empty())
    timer_.FireAfter(waiting_.front()->until - now, [this] { DismissOverdue(); });
}

void ParkedSockets::AttachAll(const Attach& attach) {
  std::erase_if(waiting_, [&](const std::shared_ptr<Waiting>& each) {
    auto callbacks = attach(each->parked);
    if (!callbacks) return false;
    each->callbacks = *std::move(callbacks);
    return true;
  });
}

}  // namespace weft::server
