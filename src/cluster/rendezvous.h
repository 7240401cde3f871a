// Rendezvous hashing (Thaler and Ravishankar, 1998): every server gets a random-looking weight for
// a cell, and the heaviest come first.
//
//   weight(cell, server) = mix(mix(cell) + server)
//
// So all servers agree on a cell's order without a word. When a server goes, only its own cells
// move, each to the next in its order.
#pragma once

#include <vector>

#include "cluster/ids.h"

namespace weft::cluster {

// Sorts the servers by falling weight for the cell.
std::vector<ServerId> RendezvousOrder(CellId cell, std::vector<ServerId> servers);

}  // namespace weft::cluster
