// ClusterMember: what a server needs to take part in a cluster: the database, its own row in it,
// the links to the others, and the leases. It joins before the server opens its port.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "cluster_host/cluster_key.h"
#include "cluster_host/lease_host.h"
#include "cluster_host/member_options.h"
#include "cluster_host/peer_links.h"
#include "net/address.h"
#include "net/loop.h"
#include "postgres/connection.h"
#include "shared_store/shared_keys.h"
#include "shared_store/shared_leases.h"
#include "wire/cluster.pb.h"

namespace weft::cluster_host {

// A model that a server brings.
struct WantedCell {
  std::string model;            // its name
  std::vector<uint8_t> digest;  // of its package
  wire::pb::CellOptions options;
};

// The cell that the cluster has for it.
struct JoinedCell {
  shared_store::SharedCell cell;
  wire::pb::CellOptions options;  // of the server that made it
};

// The last name of a server in the cluster: "a" of https://a.weft.school.lan, "a:8443" of
// https://a.weft.school.lan:8443, "192.168.1.7:8080" of http://192.168.1.7:8080.
std::string ServerNameOf(const net::Url& url);

// Connects to the database, and runs `loop` until that is done. The error says what to do.
// REQUIRES: nobody else runs the loop.
Result<std::unique_ptr<postgres::Connection>> OpenDatabase(net::EventLoop& loop,
                                                           const std::string& url);
// The keys of the cluster with that database, which have a connection of their own. The error says
// what to do.
Result<std::unique_ptr<shared_store::SharedKeys>> OpenKeys(const std::string& url);
// The keys of a file in the order in which they count: the database says which one is first. Keys
// that are not its own stay where they are.
Result<std::vector<ClusterKey>> SortKeys(const std::string& url, std::vector<ClusterKey> keys);
// Runs `loop` until `ask` has told its answer. REQUIRES: the same; and that it tells one.
Status Await(net::EventLoop& loop, const std::function<void(std::function<void()>)>& ask);

class ClusterMember {
 public:
  // Checks database, tables and key, registers the server, and finds or adds the cells. Errors are
  // sentences that say what to do. `fingerprint`: of the server's own certificate, empty where it
  // has none. `wanted`: one or more, of different names.
  static Result<std::unique_ptr<ClusterMember>> Join(net::EventLoop& loop,
                                                     const MemberOptions& options,
                                                     const std::vector<uint8_t>& fingerprint,
                                                     const std::vector<WantedCell>& wanted);

  // The first one counts. Another one is valid, too, while it is exchanged.
  const std::vector<ClusterKey>& keys() const { return keys_; }
  // Called on the loop when they are others, because the file or the database has changed.
  void OnKeys(std::function<void()> callback) { on_keys_ = std::move(callback); }
  // In the order in which they were wanted.
  const std::vector<JoinedCell>& cells() const { return cells_; }
  PeerLinks& links() { return *links_; }
  LeaseHost& leases() { return *leases_; }
  // "school: 3 servers, 1 cell", for people.
  std::string Describe() const;
  void Start();

 private:
  ClusterMember(net::EventLoop& loop, const MemberOptions& options)
      : keys_(options.keys), key_file_(options.key_file), key_timer_(loop) {}
  Status TakeId(const std::filesystem::path& path);
  Result<JoinedCell> FindCell(net::EventLoop& loop, const WantedCell& wanted);
  Status ReadTables(net::EventLoop& loop);
  // nullptr: the cluster does not have the model yet.
  const shared_store::SharedCell* FindModel(const std::string& model) const;
  static Result<JoinedCell> ChooseCell(const WantedCell& wanted,
                                       const shared_store::SharedCell& cell);

  void LookForKeys();
  void SetLinkKeys(const shared_store::KeyChecks& valid);

  std::vector<ClusterKey> keys_;
  const std::filesystem::path key_file_;
  std::filesystem::file_time_type key_file_time_;  // when that was changed that was read
  shared_store::KeyChecks valid_keys_;             // that links are told of
  net::EventLoop::Timer key_timer_;
  std::function<void()> on_keys_;
  Descriptor id_file_;  // locked as long as this server runs
  cluster::Holder self_;
  shared_store::SharedTables tables_;
  std::vector<JoinedCell> cells_;
  std::unique_ptr<postgres::Connection> database_;
  std::unique_ptr<shared_store::SharedLeases> store_;
  std::unique_ptr<PeerLinks> links_;
  std::unique_ptr<LeaseHost> leases_;
};

}  // namespace weft::cluster_host
