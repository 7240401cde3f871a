// What the engine of a scripted worker (core_testing.h) holds, by the rules of engine/engine.h: for
// every loaded layer and session a generation and the rows that were appended, here the ids of
// their tokens. A run that the real engine would refuse is refused, and so is one whose session the
// layers know with other tokens than those that were sent to the first layer: keys and values that
// are out of date are what the core must never build on.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "swarm/binding.h"
#include "wire/data_frame.h"
#include "wire/fork_frame.h"

namespace weft::swarm {

// The tokens of every session as they were sent to layer 0.
class TestTokens {
 public:
  // Rows of layer 0. A token that changes ends what was known behind it.
  void Note(uint32_t session, uint32_t first, std::span<const int32_t> ids);
  // Those of the first `count` positions, as far as they are known.
  std::vector<int32_t> Of(uint32_t session, uint32_t count) const;

 private:
  std::map<uint32_t, std::vector<int32_t>> sessions_;
};

class TestEngine {
 public:
  // Layers that are loaded already keep their rows.
  void Load(LayerSpan layers);
  void KeepOnly(const std::vector<LayerSpan>& ranges);
  void Release() { layers_.clear(); }
  void Forget(uint32_t session);

  // Appends the rows to every layer. `known`: the session's tokens in front of the run and in it.
  // Returns why the run is refused, which changes nothing, or nothing.
  std::string Append(LayerSpan layers, const wire::Run& run, std::span<const int32_t> rows,
                     std::span<const int32_t> known);
  // Returns why the fork is refused, which changes nothing, or nothing.
  std::string Fork(LayerSpan layers, const wire::Fork& fork);
  // Rows that all of these layers hold.
  uint32_t Held(LayerSpan layers, uint32_t session) const;
  struct HeldRows {
    uint32_t generation = 0, count = 0;
  };
  // Of every session of which they hold some.
  std::map<uint32_t, HeldRows> Sessions(LayerSpan layers) const;
  bool IsLoaded(LayerSpan layers) const;

 private:
  struct Rows {
    uint32_t generation = 0;
    std::vector<int32_t> ids;
  };
  std::map<uint32_t, std::map<uint32_t, Rows>> layers_;  // by layer and session
};

}  // namespace weft::swarm
