// How often devices leave, from how long each stayed and how often it went, across connections.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "swarm/placement.h"

namespace weft::swarm {

class Lifetimes {
 public:
  // Of more devices than this, one that is away and was there for the shortest time is forgotten.
  static constexpr size_t kMost = 1024;

  void NoteJoined(const std::string& device, Instant now);
  // Not called for one that leaves in order, whose layers are elsewhere by then.
  void NoteLost(const std::string& device, Instant now);
  void NoteLeft(const std::string& device, Instant now);

  // Expected losses per second of presence. With n losses in t seconds, (n + 1) / (t + 1800): of a
  // device that nothing is known of one in half an hour, of one that was lost three times in its
  // ten minutes four in forty minutes, of one that has stayed for a day one in a day and a half
  // hour.
  double LossesPerS(const std::string& device, Instant now) const;
  // How long it stays, on average: with n losses in t seconds, t / (n + 1).
  double MeanStayS(const std::string& device, Instant now) const;
  size_t device_count() const { return records_.size(); }

  // What a core that starts again has to know, of at most kPlaced devices: those that were there
  // for the longest.
  static constexpr size_t kPlaced = 256;
  std::vector<PlacedLifetime> Placed(Instant now) const;
  // What makes no sense is left out.
  void Restore(const std::vector<PlacedLifetime>& placed);

 private:
  struct Record {
    size_t connections = 0;  // now
    size_t losses = 0;
    Duration stayed;  // in connections that are over
    Instant since;    // of the first that goes on
  };
  static Duration Stayed(const Record& record, Instant now);
  void NoteGone(Record& record, Instant now);

  std::map<std::string, Record> records_;
};

}  // namespace weft::swarm
