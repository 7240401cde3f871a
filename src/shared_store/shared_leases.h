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
#include "shared_store/cluster_tables.h"

namespace weft::shared_store {

// A server as its peers find it.
struct SharedServer {
  cluster::ServerId id;
  cluster::StartId start;
  std::string name;                  // of one server of the cluster
  std::string url;                   // "https://a.weft.school.lan"
  std::vector<uint8_t> fingerprint;  // SHA-256 of its certificate; empty: it has none of its own
  std::string version, roles;
  Duration seen;                         // so long ago
  bool is_draining = false;              // somebody has told this start of it to go
  std::vector<std::string> models = {};  // their names: the server leads no others; none: any
  std::vector<uint8_t> next_check = {};  // of the key that it has beside the one that counts
};

// Whether the server may lead the model of this name.
bool Serves(const SharedServer& server, const std::string& model);

// A cell and what it runs.
struct SharedCell {
  cluster::CellRow row;
  std::string model;              // its name
  std::vector<uint8_t> digest;    // of its package
  std::vector<uint8_t> swarm_id;  // CoreOptions::swarm_id
  std::vector<uint8_t> options;   // of the model, the same at every server
  // As the leader has said with its last renewal.
  bool up = false;
  uint32_t workers = 0;
  // The last move: who led before, not set where nobody did, and how many seconds after 1970.
  cluster::ServerId former;
  int64_t taken_unix_s = 0;
};

struct SharedTables {
  std::string cluster;  // its name
  KeyChecks keys;
  std::vector<SharedServer> servers;
  std::vector<SharedCell> cells;
};

// Reads all that servers share, for this server or for whoever looks after them.
void ReadTables(postgres::Connection& connection, std::function<void(Result<SharedTables>)> done);
// Tells the server of this name to lead nothing any more, until it starts again. False: there is
// none.
void AskToGo(postgres::Connection& connection, const std::string& name,
             std::function<void(Result<bool>)> done);

// What a server asks of its cluster's leases. Each answer comes once, on the loop, never before the
// call returns, and not after the leases have ended.
class LeaseStore {
 public:
  LeaseStore() = default;
  LeaseStore(const LeaseStore&) = delete;
  LeaseStore& operator=(const LeaseStore&) = delete;
  virtual ~LeaseStore() = default;

  template <typename Told>
  using Then = std::function<void(Result<Told>)>;
  using Done = std::function<void(Status)>;
  // Tells the others that this server is there, and again that it is still. kAlreadyExists: another
  // server has the name, and was seen in the last minute.
  virtual void Register(const SharedServer& server, Done done) = 0;
  virtual void Read(Then<SharedTables> done) = 0;
  // Gives the new incarnation; nullopt: the row was not as the statement wanted it.
  virtual void Take(const cluster::Take& take, Then<std::optional<cluster::Incarnation>> done) = 0;
  // Gives those that are renewed. A cell that is missing has another holder.
  virtual void Renew(const std::vector<cluster::Renew::Cell>& cells,
                     Then<std::vector<cluster::CellId>> done) = 0;
  // Makes `to` the holder of a lease that expires at once. False: it was not this server's.
  virtual void Give(cluster::CellId cell, cluster::Incarnation incarnation, cluster::Holder to,
                    Then<bool> done) = 0;
  // Writes a placement of the leader with this incarnation. False: another one leads, and nothing
  // was written.
  virtual void WritePlacement(cluster::CellId cell, cluster::Incarnation incarnation,
                              std::vector<uint8_t> body, Then<bool> done) = 0;
  // Gives the last one; empty: there is none.
  virtual void ReadPlacement(cluster::CellId cell, Then<std::vector<uint8_t>> done) = 0;
};

class SharedLeases : public LeaseStore {
 public:
  // `connection` outlives this. `lease_time`: until a lease that is not renewed has expired.
  SharedLeases(postgres::Connection& connection, cluster::Holder self, Duration lease_time)
      : connection_(connection), self_(self), lease_time_(lease_time) {}

  // Adds a model with a cell. kAlreadyExists: the model is there, or another package has its name.
  void AddCell(const std::string& model, const std::vector<uint8_t>& digest,
               const std::vector<uint8_t>& options, const std::vector<uint8_t>& swarm_id,
               Then<cluster::CellId> done);

  void Register(const SharedServer& server, Done done) override;
  void Read(Then<SharedTables> done) override;
  void Take(const cluster::Take& take, Then<std::optional<cluster::Incarnation>> done) override;
  void Renew(const std::vector<cluster::Renew::Cell>& cells,
             Then<std::vector<cluster::CellId>> done) override;
  void Give(cluster::CellId cell, cluster::Incarnation incarnation, cluster::Holder to,
            Then<bool> done) override;
  void WritePlacement(cluster::CellId cell, cluster::Incarnation incarnation,
                      std::vector<uint8_t> body, Then<bool> done) override;
  void ReadPlacement(cluster::CellId cell, Then<std::vector<uint8_t>> done) override;

 private:
  void ReplaceServer(const SharedServer& server, Done done);

  postgres::Connection& connection_;
  const cluster::Holder self_;
  const Duration lease_time_;
};

}  // namespace weft::shared_store
