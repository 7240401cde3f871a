// SharedLeases: who leads which cell, as PostgreSQL has it. The statements of docs/cluster.md, each
// a transaction of its own, so that of two servers that ask at once one gets what it asks for.
//
// All times that are compared are the database's own: clocks of servers do not matter.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cluster/events.h"
#include "postgres/connection.h"

namespace weft::shared_store {

// A server as its peers find it.
struct SharedServer {
  cluster::ServerId id;
  cluster::StartId start;
  std::string name;                  // of one server of the cluster
  std::string url;                   // "https://a.weft.school.lan"
  std::vector<uint8_t> fingerprint;  // SHA-256 of its certificate; empty: it has none of its own
  std::string version, roles;
  Duration seen;  // so long ago
};

// A cell and what it runs.
struct SharedCell {
  cluster::CellRow row;
  std::string model;              // its name
  std::vector<uint8_t> digest;    // of its package
  std::vector<uint8_t> swarm_id;  // CoreOptions::swarm_id
  std::vector<uint8_t> options;   // of the model, the same at every server
  bool up = false;
};

struct SharedTables {
  std::vector<SharedServer> servers;
  std::vector<SharedCell> cells;
};

class SharedLeases {
 public:
  // `connection` outlives this. `lease_time`: until a lease that is not renewed has expired.
  SharedLeases(postgres::Connection& connection, cluster::Holder self, Duration lease_time)
      : connection_(connection), self_(self), lease_time_(lease_time) {}

  using Done = std::function<void(Status)>;
  // Tells the others that this server is there, and again that it is still. kAlreadyExists: another
  // server has the name.
  void Register(const SharedServer& server, Done done);
  // Adds a cell of the model, and the model where there is none of this name. kAlreadyExists:
  // another package has the name.
  void AddCell(const std::string& model, const std::vector<uint8_t>& digest,
               const std::vector<uint8_t>& options, const std::vector<uint8_t>& swarm_id,
               std::function<void(Result<cluster::CellId>)> done);
  void Read(std::function<void(Result<SharedTables>)> done);
  // Gives the new incarnation; nullopt: the row was not as the statement wanted it.
  void Take(const cluster::Take& take,
            std::function<void(Result<std::optional<cluster::Incarnation>>)> done);
  // Gives those that are renewed. A cell that is missing has another holder.
  void Renew(const std::vector<cluster::Renew::Cell>& cells,
             std::function<void(Result<std::vector<cluster::CellId>>)> done);
  // Makes `to` the holder of a lease that expires at once. False: it was not this server's.
  void Give(cluster::CellId cell, cluster::Incarnation incarnation, cluster::Holder to,
            std::function<void(Result<bool>)> done);

  // Writes a placement of the leader with this incarnation. False: another one leads, and nothing
  // was written.
  void WritePlacement(cluster::CellId cell, cluster::Incarnation incarnation,
                      std::vector<uint8_t> body, std::function<void(Result<bool>)> done);
  // Gives the last one; empty: there is none.
  void ReadPlacement(cluster::CellId cell, std::function<void(Result<std::vector<uint8_t>>)> done);

 private:
  postgres::Connection& connection_;
  const cluster::Holder self_;
  const Duration lease_time_;
};

}  // namespace weft::shared_store
