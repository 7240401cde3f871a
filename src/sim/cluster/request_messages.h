// What a gateway and the leader of a cell say to each other about answers
// (wire/cluster_requests.proto), as plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "swarm/events.h"

namespace weft::sim {

// Each attempt of a gateway at an answer has a number of its own.
struct SubmitAsked {
  uint64_t number = 0;
  swarm::Request request;
};
struct CancelAsked {
  uint64_t number = 0;
};
using ToLeader = std::variant<SubmitAsked, CancelAsked>;

// The leader leads no more: the request goes on elsewhere.
struct LeadsNoMore {};
struct Accepted {};
struct ToGateway {
  uint64_t number = 0;
  std::variant<Accepted, swarm::SessionTrace, swarm::EmitToken, swarm::FinishRequest, LeadsNoMore>
      event;
};

}  // namespace weft::sim
