// The incarnation of a swarm: a number of the server's start, which only rises for one swarm id. A
// worker that has seen a higher one works for nobody with a lower one (docs/protocol.md, "Which
// server leads").
//
//   recorded    clock (Unix ms)    this start
//   0           1795574400123      1795574400123    a new swarm
//   ...123      1795574460500      1795574460500    started again
//   ...60500    1795570000000      ...60501         the clock was set back meanwhile
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace weft::swarm {

// A worker may be ahead of a server by so much and be believed: of milliseconds, 139 years. A clock
// that begins at 1970 after a power cut is within it.
inline constexpr uint64_t kMostAhead = uint64_t{1} << 42;
// No start has a higher one: room for more claims of kMostAhead than anybody can make.
inline constexpr uint64_t kMostIncarnation = uint64_t{1} << 63;

// Gives that of a start. `recorded`: of the start before, 0 where none is known.
uint64_t NextIncarnation(uint64_t recorded, int64_t unix_ms);

// Generations of sessions begin above this number at a leader with this incarnation. Two leaders
// may begin with one placement, and give one number to two sessions: their generations are others.
//
//   (incarnation - 1) * 2^64 / golden ratio, its first 30 bits: 0 for incarnation 1
inline uint32_t GenerationsAbove(uint64_t incarnation) {
  return static_cast<uint32_t>(((incarnation - 1) * 0x9e3779b97f4a7c15ull) >> 34);
}

// The incarnation with which this core leads, and what numbers that workers have seen mean for it.
class OwnIncarnation {
 public:
  explicit OwnIncarnation(uint64_t number) : number_(number) {}

  uint64_t number() const { return number_; }
  // Rises when the number changes.
  uint64_t version() const { return version_; }

  // Tells what a worker that has seen `seen` of this swarm means for this server. Error
  // kInvalidData: nobody can have seen that.
  enum class Heard {
    kServe,  // it may be served
    // Another start led after this one, so its numbers count for this worker no more. With nobody
    // else to lead, this server leads again above it (Raise).
    kIsOutdated,
  };
  Result<Heard> Hear(uint64_t seen) const;
  // Leads again, above what was seen.
  void Raise(uint64_t seen);
  // Leads on with this number. A lower one changes nothing.
  void RaiseTo(uint64_t number);

 private:
  uint64_t number_ = 0, version_ = 0;
};

}  // namespace weft::swarm
