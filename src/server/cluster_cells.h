// ClusterCells: the models that a server of a cluster serves, each with its cell in the database.
//
//   weft serve tiny gpt-oss --cluster URL     tiny:    cell 1 of the cluster, led by this server
//                                             gpt-oss: cell 2, led by another one
//
// The cell's row says how its model is run, and its number, which are the same at every server.
// What becomes of each lease is told to its ClusterCell. All of it is on the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster_host/cluster_member.h"
#include "net/loop.h"
#include "server/cell.h"
#include "server/cluster_cell.h"
#include "server/server_options.h"

namespace weft::server {

class ClusterCells {
 public:
  struct Model {
    std::string name;
    package::Digest digest;
  };

  // Joins the cluster with these models. Errors are those of cluster_host::ClusterMember::Join.
  static Result<std::unique_ptr<ClusterCells>> Join(net::EventLoop& loop,
                                                    const ServerOptions& options,
                                                    const std::vector<uint8_t>& fingerprint,
                                                    const std::vector<Model>& models);

  cluster_host::ClusterMember& member() { return *member_; }

  // REQUIRES of all below: the server serves the model.
  // The server's options, but for those that the cell's row says.
  const ServerOptions& OptionsOf(const std::string& model) const;
  // What the cell shares with others, of this server (`shared`) and of the cluster.
  CellShared SharedBy(const CellShared& shared, const std::string& model) const;
  // Of the cell, the same at every server and never used again.
  uint32_t NumberOf(const std::string& model) const;
  // Gives the cell's part in the cluster. Call it for all models before Start: messages of other
  // servers find each of them. `cell` outlives it, and it lives as long as the loop runs.
  std::unique_ptr<ClusterCell> Make(Cell& cell, std::function<void()> on_first_lead);

  // The port is open: others may ask this server, and its cells may be led here. `on_changed` is
  // called when a leader, or what is known of it, may be another one; cells have been told.
  void Start(std::function<void()> on_changed);
  // This server stops: requests of other servers go on at the next leaders.
  void StopServing();

 private:
  struct Place {
    cluster::CellId id;
    ServerOptions options;
    std::string swarm_id;
    ClusterCell* cell = nullptr;
  };

  ClusterCells(net::EventLoop& loop, std::unique_ptr<cluster_host::ClusterMember> member)
      : loop_(loop), member_(std::move(member)) {}

  net::EventLoop& loop_;
  const std::unique_ptr<cluster_host::ClusterMember> member_;
  std::map<std::string, Place> places_;  // by model
};

}  // namespace weft::server
