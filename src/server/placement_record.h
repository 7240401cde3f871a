// A core's placement as a record of the journal, and back.
#pragma once

#include <string>
#include <vector>

#include "journal/journal.pb.h"
#include "swarm/placement.h"

namespace weft::server {

journal::pb::Placement ToRecord(const swarm::Placement& placement);
// What the record of a placement does not have.
journal::pb::Popularity ToRecord(const std::vector<swarm::PlacedPopularity>& popularity,
                                 const std::string& package_digest);
// Not checked (swarm::Popularity leaves out what is wrong).
std::vector<swarm::PlacedPopularity> FromRecord(const journal::pb::Popularity& record);
// Not checked (swarm::CheckPlacement).
swarm::Placement FromRecord(const journal::pb::Placement& record);

}  // namespace weft::server
