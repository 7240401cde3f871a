// Devices whose connection broke a moment ago, and what they had loaded. A worker keeps its engine,
// with keys and values, for a while (Init.resume_ms); when it is back, what still fits is used at
// once, and what was measured of it need not be measured again.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "swarm/workers/worker.h"

namespace weft::swarm {

struct Absence {
  std::string device;
  WorkerId worker;                // the connection that broke
  std::vector<Binding> bindings;  // that were loaded
  WorkerTimes times;
  WorkerMemory memory;
  bool measured = false;
  CheckState check = CheckState::kUnchecked;
  Instant until;
};

class Absences {
 public:
  // Of more devices than this the one that has been away for the longest is forgotten.
  static constexpr size_t kMost = 256;

  void Note(const Worker& worker, Instant until);
  // In place of what was kept of the device. REQUIRES: `until` is not before that of any other.
  void Add(Absence absence);
  // The device is back, or is another one: what was kept of it.
  std::optional<Absence> Take(const std::string& device);
  bool Knows(const std::string& device) const;
  // Whether somebody who may come back holds it.
  bool Holds(BindingId binding) const;
  // Forgets those that stayed away for too long; whether there were any.
  bool Expire(Instant now);
  std::optional<Instant> next_timer() const;
  size_t count() const { return absences_.size(); }
  const std::vector<Absence>& all() const { return absences_; }

 private:
  std::vector<Absence> absences_;  // by rising `until`
};

}  // namespace weft::swarm
