// A core's placement as a record of the store, and back.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "store/records.pb.h"
#include "swarm/options.h"
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
// With what a later core has to have in common with this one.
store::pb::Placement ToRecord(const swarm::Placement& placement, const swarm::CoreOptions& core);
// Checked: nullopt, with a warning where that is strange, if a core with these options cannot take
// it up.
std::optional<swarm::Placement> TakeUp(const store::pb::Placement& record,
                                       const swarm::CoreOptions& core);

}  // namespace weft::server
