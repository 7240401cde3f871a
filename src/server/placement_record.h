// A core's placement as a record of the store, and back.
#pragma once

#include <string>
#include <vector>

#include "store/records.pb.h"
#include "swarm/placement.h"

namespace weft::server {

store::pb::Placement ToRecord(const swarm::Placement& placement);
// What the record of a placement does not have.
store::pb::Popularity ToRecord(const std::vector<swarm::PlacedPopularity>& popularity,
                               const std::string& package_digest);
// Not checked (swarm::Popularity leaves out what is wrong).
std::vector<swarm::PlacedPopularity> FromRecord(const store::pb::Popularity& record);
// Not checked (swarm::CheckPlacement).
swarm::Placement FromRecord(const store::pb::Placement& record);

}  // namespace weft::server
