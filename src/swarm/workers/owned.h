// Owned<T, Owner>: a T that everybody reads and Owner alone changes. The compiler keeps the table
// of owners (ARCHITECTURE.md): edit() is private, and Owner its only friend.
//
//   Owned<WorkerPings, Health> pings;       // in Worker
//   worker.pings->next_at                   // anywhere
//   worker.pings.edit().next_at = now;      // in members of Health; an error elsewhere
#pragma once

namespace weft::swarm {

template <typename T, typename Owner>
class Owned {
 public:
  const T& operator*() const { return value_; }
  const T* operator->() const { return &value_; }

 private:
  friend Owner;
  friend struct OwnedTesting;  // of tests, which begin where no owner has been
  T& edit() { return value_; }

  T value_{};
};

}  // namespace weft::swarm
