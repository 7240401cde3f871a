// LedCell: what stands behind a lease on this server: a core while the server leads, and workers
// that come all the same while it does not. The lease's host says what becomes of it.
#pragma once

#include <cstdint>
#include <vector>

#include "cluster/ids.h"
#include "cluster_host/peer_links.h"

namespace weft::cluster_host {

class LedCell {
 public:
  LedCell() = default;
  LedCell(const LedCell&) = delete;
  LedCell& operator=(const LedCell&) = delete;
  virtual ~LedCell() = default;

  // Starts the core with what an earlier leader has placed; `placement` is empty where none has.
  // Workers that were parked are its first ones. `successors`: whom its workers turn to later.
  virtual void Lead(cluster::Incarnation incarnation, const std::vector<uint8_t>& placement,
                    const std::vector<PeerAddress>& successors) = 0;
  // The core that runs goes on with this incarnation, or with these successors.
  virtual void Change(cluster::Incarnation incarnation,
                      const std::vector<PeerAddress>& successors) = 0;
  // Ends the core. Its workers go to that server, or to their successors where its URL is "".
  virtual void StepDown(const PeerAddress& to) = 0;
  // Says where a worker goes that comes while this server does not lead: to that server, or where
  // its URL is "" it waits here for a moment.
  virtual void PlaceWorkers(const PeerAddress& to) = 0;
};

}  // namespace weft::cluster_host
