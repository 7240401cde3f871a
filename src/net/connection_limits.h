// The sum of all connections of a server: how many there are, in all and by address, how many of
// them owe an answer, and how many bytes wait to be sent. For src/net only; everything happens on
// the loop's thread.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "net/limits.h"

namespace weft::net {

class ConnectionPlace;

class ConnectionCounter {
 public:
  // Whether there is a place for another connection of this address, after idle ones have made room
  // where need be: of that address, or of any. `is_counted`: the limit by address is for it, too.
  bool TryAdd(const std::string& address, const ServerLimits& limits, bool is_counted = true);
  void Remove(const std::string& address);
  void AddAnswer() { ++open_answers_; }
  void RemoveAnswer() {
    if (--open_answers_ == 0 && on_all_answered_) on_all_answered_();
  }
  // Calls back whenever no answer is owed any more, also now; null ends it.
  void OnAllAnswered(std::function<void()> callback) {
    on_all_answered_ = std::move(callback);
    if (open_answers_ == 0 && on_all_answered_) on_all_answered_();
  }
  size_t& queued_bytes() { return queued_bytes_; }
  // Whom connections ask, and whom they tell of their end, may be gone from here on. They end when
  // they next have something to do, and say nothing.
  void EndServer() {
    on_all_answered_ = nullptr;
    server_is_gone_ = true;
  }
  bool server_is_gone() const { return server_is_gone_; }

 private:
  friend class ConnectionPlace;
  struct Idle {
    std::string network;
    ConnectionPlace* place = nullptr;
    std::function<void()> end;
  };
  // Ends the connection that has been idle for the longest, of this network or of any ("").
  bool EndIdle(const std::string& network);

  std::map<std::string, size_t> by_network_;  // keys of NetworkOf
  std::list<Idle> idle_;                      // the longest idle first
  size_t total_ = 0;
  size_t open_answers_ = 0;
  size_t queued_bytes_ = 0;
  std::function<void()> on_all_answered_;
  bool server_is_gone_ = false;
};

// Holds one place in the counter for as long as it lives. The listener, the connection and, after
// it, the WebSocket share it: the last of them gives it up.
class ConnectionPlace {
 public:
  ConnectionPlace(std::shared_ptr<ConnectionCounter> counter, std::string address)
      : counter_(std::move(counter)), address_(std::move(address)) {}
  ~ConnectionPlace() { GiveUp(); }
  ConnectionPlace(const ConnectionPlace&) = delete;
  ConnectionPlace& operator=(const ConnectionPlace&) = delete;

  // The connection waits for its next request and ends with `end` where somebody needs its place;
  // null: it does not wait any more.
  void SetIdle(std::function<void()> end);
  // It has ended, whoever still holds this.
  void GiveUp() {
    if (std::exchange(given_up_, true)) return;
    SetIdle(nullptr);
    SetAnswering(false);
    SetQueuedBytes(0);
    counter_->Remove(address_);
  }
  // Between a request and the end of its answer.
  bool answering() const { return answering_; }
  void SetAnswering(bool answering) {
    if (answering == answering_) return;
    answering_ = answering;
    answering ? counter_->AddAnswer() : counter_->RemoveAnswer();
  }
  // What waits to be sent on this connection.
  void SetQueuedBytes(size_t byte_count) {
    counter_->queued_bytes() += byte_count;
    counter_->queued_bytes() -= queued_bytes_;
    queued_bytes_ = byte_count;
  }
  size_t queued_bytes() const { return queued_bytes_; }
  size_t queued_bytes_of_all() const { return counter_->queued_bytes(); }
  bool server_is_gone() const { return counter_->server_is_gone(); }

 private:
  std::shared_ptr<ConnectionCounter> counter_;
  const std::string address_;
  std::optional<std::list<ConnectionCounter::Idle>::iterator> idle_;
  bool given_up_ = false;
  bool answering_ = false;
  size_t queued_bytes_ = 0;
};

// Whether `place` may queue `byte_count` more with room for `limit` of its own. When all
// connections together hold too much, those that lag behind are cut off, and the others go on. An
// empty queue is always let through.
bool MayQueue(const ConnectionPlace& place, size_t byte_count, size_t limit, size_t limit_of_all);

}  // namespace weft::net
