// Evictions: devices that the owner has sent away. Each may come back after an hour, or when the
// owner lets it in. They are known by the id that a device keeps, so they keep out a device and not
// a person: who has the join token may come with another browser. They end with the server.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"

namespace weft::server {

// Long enough for a talk with its user, and nobody has to remember to let the device in again.
inline constexpr Duration kEvictionTime = Seconds(3600);

struct Eviction {
  uint64_t number = 0;  // never used again
  std::string device;   // swarm::WorkerSnapshot::device_id
  // For people, as they were when it went.
  std::string name, kind, address;
  Instant until;
};

class Evictions {
 public:
  // Of more devices than this the one that may come back first is forgotten.
  static constexpr size_t kMost = 1024;

  // Keeps the device out from now on, and gives its number; one that was out already stays so from
  // now on. `eviction`: without number and end.
  uint64_t Evict(Eviction eviction, Instant now);
  // False: no device has this number, or its time is over.
  bool LetIn(uint64_t number, Instant now);
  // Gives the sentence that the device is told; nullopt lets it in.
  std::optional<std::string> Find(const std::string& device, Instant now) const;
  // By rising end.
  const std::vector<Eviction>& Current(Instant now);

 private:
  void Expire(Instant now);

  std::vector<Eviction> evictions_;  // by rising end
  uint64_t last_number_ = 0;
};

}  // namespace weft::server
