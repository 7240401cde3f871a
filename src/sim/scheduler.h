// Virtual time: what is to happen when. Equal times happen in the order in which they were asked
// for, so that a seed replays a run exactly.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "base/clock.h"

namespace weft::sim {

class Scheduler {
 public:
  Instant now() const { return now_; }

  void At(Instant when, std::function<void()> what) {
    queue_.push({when < now_ ? now_ : when, next_order_++, std::move(what)});
  }
  void After(Duration delay, std::function<void()> what) { At(now_ + delay, std::move(what)); }

  // Does the next thing that is due at `until` or before; false: nothing is.
  bool Step(Instant until) {
    if (queue_.empty() || queue_.top().when > until) {
      now_ = until > now_ ? until : now_;
      return false;
    }
    // The queue only gives out const references; the moved-from entry is popped at once.
    Entry entry = std::move(const_cast<Entry&>(queue_.top()));
    queue_.pop();
    now_ = entry.when;
    entry.what();
    return true;
  }
  // Nothing happens until then, and what was due meanwhile happens then, in its order: the machine
  // slept, and its clock went on.
  void Sleep(Duration time) {
    const Instant end = now_ + time;
    std::priority_queue<Entry> rest;
    for (; !queue_.empty(); queue_.pop()) {
      Entry entry = std::move(const_cast<Entry&>(queue_.top()));
      entry.when = std::max(entry.when, end);
      entry.order = next_order_++;
      rest.push(std::move(entry));
    }
    queue_ = std::move(rest);
    now_ = end;
  }
  size_t waiting_count() const { return queue_.size(); }

 private:
  struct Entry {
    Instant when;
    uint64_t order;
    std::function<void()> what;
    bool operator<(const Entry& other) const {
      return when != other.when ? when > other.when : order > other.order;
    }
  };
  Instant now_{1'000'000};
  uint64_t next_order_ = 0;
  std::priority_queue<Entry> queue_;
};

}  // namespace weft::sim
