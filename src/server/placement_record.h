// A core's placement as a record of the journal, and back.
#pragma once

#include "journal/journal.pb.h"
#include "swarm/placement.h"

namespace weft::server {

journal::pb::Placement ToRecord(const swarm::Placement& placement);
// Not checked (swarm::CheckPlacement).
swarm::Placement FromRecord(const journal::pb::Placement& record);

}  // namespace weft::server
