// The Generates of one connection (wire/whole_frame.h), from when they come to their last
// tokens.
//
// A worker that takes several makes one batch after the other: one interval of tokens of each that
// has joined. A Generate joins when its turn among the messages has come, so that the rows of its
// prompt are there. Between two batches one piece of other work has its turn:
//
//   messages   Generate 1   Generate 2   step 3        step 4
//   computed   1   1 2   1 2   step 3   1 2   step 4   1 2 ...
//
// So a token never waits for more than one step, nor a step for more than one batch. A worker that
// takes one at a time makes all tokens of a Generate before anything else.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "wire/whole_frame.h"

namespace weft::worker {

class GenerateQueue {
 public:
  // From Connect on: how many sessions a batch takes.
  void Begin(uint32_t places) {
    Clear();
    places_ = places;
  }
  void Clear() {
    known_.clear();
    joined_.clear();
    due_ = false;
  }

  // It has come, and waits for its turn.
  void Add(const wire::Generate& generate) {
    known_[generate.sequence] = {generate.session, generate.binding, false};
  }
  // Its turn has come.
  void Join(wire::Generate generate) { joined_.push_back(std::move(generate)); }

  // Nobody wants the rest: it ends before the next batch. Of one that has ended it says nothing.
  void Stop(uint32_t sequence) {
    if (const auto known = known_.find(sequence); known != known_.end())
      known->second.stopped = true;
  }
  // The same for those whose session is over, or whose binding was dropped.
  template <typename IsOver>
  void StopWhere(IsOver is_over) {
    for (auto& [sequence, known] : known_)
      if (is_over(known.session, known.binding)) known.stopped = true;
  }

  bool IsStopped(uint32_t sequence) const {
    const auto known = known_.find(sequence);
    return known != known_.end() && known->second.stopped;
  }

  // Whether the next work is a batch, where other work waits or does not.
  bool IsNext(bool others_wait) const {
    return !joined_.empty() && (places_ == 1 || due_ || !others_wait);
  }
  // Other work that takes its time was begun.
  void Passed() { due_ = true; }

  // The next batch, and apart from it those that ended since.
  struct Batch {
    std::vector<wire::Generate> wanted, unwanted;
  };
  Batch Take() {
    due_ = false;
    Batch batch;
    std::deque<wire::Generate> rest;
    for (wire::Generate& generate : joined_) {
      if (known_.at(generate.sequence).stopped)
        batch.unwanted.push_back(std::move(generate));
      else if (batch.wanted.size() < std::max(places_, 1u))
        batch.wanted.push_back(std::move(generate));
      else
        rest.push_back(std::move(generate));
    }
    joined_ = std::move(rest);
    for (const wire::Generate& generate : batch.unwanted) known_.erase(generate.sequence);
    return batch;
  }
  // What is left of one that was taken; it goes behind those that had no place.
  void GoOn(wire::Generate rest) { joined_.push_back(std::move(rest)); }
  void End(uint32_t sequence) { known_.erase(sequence); }

  bool has_joined() const { return !joined_.empty(); }

 private:
  struct Known {
    uint32_t session = 0, binding = 0;
    bool stopped = false;
  };
  uint32_t places_ = 0;
  bool due_ = false;
  std::map<uint32_t, Known> known_;    // by sequence, until its last tokens
  std::deque<wire::Generate> joined_;  // what is still wanted of them
};

}  // namespace weft::worker
