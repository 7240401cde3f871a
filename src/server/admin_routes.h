// What the owner of a server sees and does (/api/admin/..., the page /admin): devices of all models
// with the reasons why they get no work, evictions, models and who uses them. Only for admins.
#pragma once

#include <cstdint>
#include <vector>

#include "server/cell.h"
#include "server/evictions.h"
#include "server/key_table.h"
#include "server/models.h"
#include "server/router.h"

namespace weft::server {

// What the routes tell of. All of it outlives them.
struct AdminParts {
  Evictions* evictions = nullptr;
  const KeyTable* keys = nullptr;  // for the names of clients
  // Of a server of one model: its cell, and what the model takes of all devices together.
  Cell* cell = nullptr;
  uint64_t need_bytes = 0;
  // Of a server of several. One of `cell` and `models` is set.
  Models* models = nullptr;
};

std::vector<Route> AdminRoutes(const AdminParts& parts);

}  // namespace weft::server
