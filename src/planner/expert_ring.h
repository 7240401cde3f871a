// Consistent hashing of (layer, expert, replica) on a ring says who holds which experts
// (moex-expert-disaggregation 3.3). Every holder has as many points on it as experts that it could
// hold. Numbers in, a placement out; nothing of an earlier placement is needed, because a holder
// that joins or leaves moves little.
//
//      .--A1--B1--A2-.      keys fall onto the circle and go clockwise to the first point whose
//     C1      |       A3    holder has room and no replica of the same expert. When B leaves, its
//      '--B2-key--C2-'      keys go on to the next points; all others stay where they are.
//
// How much moves: a join or leave of one of N equal holders moves r E / N experts to or from it.
// Where holders are full, keys pass them, and a change moves some of these too. The 1,000 changes
// of expert_ring_test.cc have offers filled up to 19 of 20 bytes. They made 1.09 times as much on
// average and 1.53 times at worst; the test's bounds are 1.2 and 2. With offers filled to three
// quarters nothing else moved at all.
//
// A hub asks itself without a line. So the hot experts of its own layers are placed with it before
// anything is on the ring, the most popular first, as far as it has room.
#pragma once

#include <cstdint>
#include <vector>

#include "base/layer_range.h"

namespace weft::planner {

struct ExpertLayer {
  uint32_t layer = 0;
  uint32_t experts = 0;
  uint64_t bytes_per_expert = 0;
};

struct ExpertHolder {
  uint32_t id = 0;
  uint64_t memory_bytes = 0;           // of its offer, for experts
  std::vector<LayerRange> hub_layers;  // whose experts it asks for
};

struct ExpertProblem {
  std::vector<ExpertLayer> layers;
  std::vector<ExpertHolder> holders;  // ids that differ
  // Replicas of each expert; 0: as many as nine tenths of the memory hold, up to max_replicas.
  uint32_t replicas = 0;
  uint32_t max_replicas = 3;
  // How often each expert was chosen, by place in `layers` and expert; empty: not known.
  std::vector<std::vector<double>> popularity;
  // Those that get one replica more while memory allows, the most popular first.
  std::vector<std::vector<bool>> hot;
};

struct PlacedExpert {
  uint32_t layer = 0;
  uint32_t expert = 0;
  uint32_t replica = 0;
  bool operator==(const PlacedExpert&) const = default;
};

struct HolderExperts {
  uint32_t id = 0;
  uint64_t used_bytes = 0;  // never more than it offers
  std::vector<PlacedExpert> experts;
};

struct ExpertPlacement {
  uint32_t replicas = 0;               // that were aimed at
  std::vector<HolderExperts> holders;  // as in the problem
  std::vector<PlacedExpert> unplaced;  // replica 0 only: nobody has room for these
};

// REQUIRES: popularity and hot, where given, are given together and have something for every
// expert.
ExpertPlacement PlaceExperts(const ExpertProblem& problem);

}  // namespace weft::planner
