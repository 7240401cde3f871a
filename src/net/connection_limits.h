// How many connections a server has, in all and by address, and how many of them owe an answer. For
// src/net only; everything happens on the loop's thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "net/server.h"

namespace weft::net {

// How many connections there are, in all and by address, and how many of them owe an answer.
class ConnectionCounter {
 public:
  bool TryAdd(const std::string& address, const ServerLimits& limits);
  void Remove(const std::string& address) {
    --total_;
    if (--by_address_[address] == 0) by_address_.erase(address);
  }
  void AddAnswer() { ++open_answers_; }
  void RemoveAnswer() {
    if (--open_answers_ == 0 && on_all_answered_) on_all_answered_();
  }
  // Calls back whenever no answer is owed any more, also now; null ends it.
  void OnAllAnswered(std::function<void()> callback) {
    on_all_answered_ = std::move(callback);
    if (open_answers_ == 0 && on_all_answered_) on_all_answered_();
  }

 private:
  std::map<std::string, size_t> by_address_;
  size_t total_ = 0;
  size_t open_answers_ = 0;
  std::function<void()> on_all_answered_;
};

// Holds one place in the counter for as long as it lives.
class ConnectionPlace {
 public:
  ConnectionPlace(std::shared_ptr<ConnectionCounter> counter, std::string address)
      : counter_(std::move(counter)), address_(std::move(address)) {}
  ~ConnectionPlace() {
    SetAnswering(false);
    counter_->Remove(address_);
  }
  ConnectionPlace(const ConnectionPlace&) = delete;
  ConnectionPlace& operator=(const ConnectionPlace&) = delete;

  // Between a request and the end of its answer.
  bool answering() const { return answering_; }
  void SetAnswering(bool answering) {
    if (answering == answering_) return;
    answering_ = answering;
    answering ? counter_->AddAnswer() : counter_->RemoveAnswer();
  }

 private:
  std::shared_ptr<ConnectionCounter> counter_;
  std::string address_;
  bool answering_ = false;
};

}  // namespace weft::net
