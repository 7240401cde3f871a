// Memory of devices that failed, which is: that answered wrongly, refused work, or did not do it
// while they went on talking. After a number of failures in a row a device is left out of plans for
// a while, longer each time, also when it reconnects. A device that goes away, even in the middle
// of a step, has not failed: its user closed a lid. Bounded: the devices that failed longest ago
// are forgotten.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/clock.h"
#include "swarm/options.h"

namespace weft::swarm {

class Probation {
 public:
  explicit Probation(const CoreOptions& options) : options_(options) {}

  // Returns true when the device is put aside by this failure.
  bool NoteFailure(const std::string& device, Instant now);
  // At once, whatever it did before.
  void PutAside(const std::string& device, Instant now);
  // It was put aside for what turned out to be another's fault. False: it was not put aside.
  bool Withdraw(const std::string& device);
  // It has worked well for a while.
  void NoteSuccess(const std::string& device) { records_.erase(device); }

  // It has failed and not made up for it since.
  bool HasFailed(const std::string& device) const { return records_.contains(device); }
  bool IsAside(const std::string& device, Instant now) const;
  // When a device that is aside may be used again; nullopt: it is not aside.
  std::optional<Instant> AsideUntil(const std::string& device, Instant now) const;
  // Nothing can be computed without devices that are aside: each may be used again so long after
  // its last failure, whatever it was told.
  void Hasten(Duration wait);
  // When the next device that was put aside may be used again.
  std::optional<Instant> next_return() const;
  // True once for each such moment that has come.
  bool TakeReturn(Instant now);
  size_t record_count() const { return records_.size(); }

 private:
  struct Record {
    uint32_t failures = 0;
    uint32_t times_aside = 0;
    Instant aside_until{INT64_MIN};
    bool returns = false;          // aside_until has not been taken yet
    uint32_t failures_before = 0;  // PutAside
    Instant last_failure;
  };
  const CoreOptions& options_;
  std::map<std::string, Record> records_;
};

}  // namespace weft::swarm
