// What a membership asks for while it handles an event, in this order.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "worker/membership_events.h"

namespace weft::worker {

class Outbox {
 public:
  // The event that is handled happened now.
  void Begin(Instant now) { now_ = now; }
  Instant now() const { return now_; }
  std::vector<Action> Take() { return std::exchange(actions_, {}); }

  void Do(Action action) { actions_.push_back(std::move(action)); }
  // Only where somebody listens.
  void DoIfConnected(Action action) {
    if (connected_) Do(std::move(action));
  }
  void Send(wire::pb::WorkerMessage message) { DoIfConnected(SendControl{std::move(message)}); }
  void SendBytes(std::vector<uint8_t> message) {
    DoIfConnected(worker::SendFrame{{Slice(std::move(message))}});
  }

  bool connected() const { return connected_; }
  void SetConnected(bool connected) { connected_ = connected; }

  // Nothing is handled any more.
  bool ended() const { return ended_; }
  void End() { ended_ = true; }
  void Finish(Error error) {
    ended_ = true;
    Do(worker::Finish{std::move(error)});
  }
  // The server has sent what it must not send.
  void Violation(std::string sentence) {
    Finish(Error(ErrorCode::kInvalidData, std::move(sentence)));
  }

 private:
  std::vector<Action> actions_;
  Instant now_;
  bool connected_ = true, ended_ = false;
};

}  // namespace weft::worker
