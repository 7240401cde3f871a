// Cell: one model that is served: the core over its devices, and everything that answers requests
// for it. Cells of a server share its loop, its port and its keys, and nothing of their cores. All
// of it happens on the loop.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/ollama_models.h"
#include "base/task_queue.h"
#include "net/loop.h"
#include "server/chat_routes.h"
#include "server/clustered_generator.h"
#include "server/constraint_cache.h"
#include "server/embedding_routes.h"
#include "server/key_table.h"
#include "server/package_routes.h"
#include "server/recovery.h"
#include "server/routes.h"
#include "server/server_options.h"
#include "server/swarm_host.h"
#include "server/what_if.h"

namespace weft::server {

// What the cells of a server share. All of it outlives them.
struct CellShared {
  const ServerOptions& options;
  net::EventLoop& loop;
  TaskQueue& planning;
  KeyTable& keys;
  // Gives a core the hashes of the secrets that it lets workers in with.
  std::function<void(swarm::CoreOptions&)> add_secrets;
  // Of a server of several models: requests come to the right one already, and wait long while
  // devices load it. Its name is in the log.
  bool has_several = false;
  // Of a server of a cluster: what its cell's row says. Then nobody leads the cell here until
  // Cell::Lead.
  struct Shared {
    std::string swarm_id;
    std::string seed_key;  // of keyed requests, the same at every server
  };
  std::optional<Shared> cluster = {};
};

// With what a cell of a cluster is led.
struct CellLead {
  uint64_t incarnation = 0;
  std::vector<swarm::Successor> successors;
  std::optional<store::pb::Placement> placement;  // of an earlier leader
};

// The longest request for a chat with a context of so many positions.
size_t BodyLimitOf(const ServerOptions& options, bool embeds, uint32_t context_length);

// What Ollama's clients are told of a package. `text` may be null: it was not read.
api::OllamaModel DescribeForOllama(const package::Package& package, const api::ModelText* text,
                                   uint32_t context_length);

class Cell {
 public:
  Cell(const CellShared& shared, ServedModel model, std::unique_ptr<CellRecovery> recovery);
  Cell(const Cell&) = delete;
  Cell& operator=(const Cell&) = delete;

  const std::string& name() const { return card_.name; }
  const api::ModelCard& card() const { return card_; }
  const package::Digest& digest() const { return digest_; }
  // Init.swarm_id of its cores, 16 bytes.
  const std::string& swarm_id() const { return core_.swarm_id; }
  bool lowered() const { return lowered_; }
  SwarmHost& host() { return *host_; }
  const SwarmHost& host() const { return *host_; }
  // Whom routes ask, of a cell of a cluster: its core may be at another server. Else nullptr.
  ClusteredGenerator* clustered() { return clustered_.get(); }
  // Requests would be answered, by whichever server leads.
  bool is_up() const { return clustered_ ? clustered_->is_up() : host_->is_up(); }
  // From its source, the constraint of an answer; on a thread that nobody waits for.
  ConstraintCache::Compile ConstraintCompiler() const;
  // Ends every request with `error`, those that come later too.
  void EndRequests(const Error& error);
  // Continues what an earlier start left behind. Call it once, from the loop.
  void Resume(const std::vector<std::string>& salts) { chat_->Resume(recovery_->found(), salts); }
  // Makes the core of a cell of a cluster. SwarmHost::EndLeading ends it.
  void Lead(CellLead lead);
  // Gives placements that are to be kept, of a cell of a cluster.
  void OnPlacement(std::function<void(const store::pb::Placement&)> callback) {
    on_placement_ = std::move(callback);
  }
  // Told of workers that have seen a higher incarnation; of a cell of a cluster.
  void OnWorkerSaw(std::function<void(uint64_t seen)> callback) {
    on_worker_saw_ = std::move(callback);
  }
  // Fills in what answers for this model alone.
  void AddParts(RouteParts& parts);
  PackageRoutes& package_routes() { return *package_routes_; }
  api::ServedModel Served() const { return chat_->Served(); }
  // Whether the package has this blob.
  bool HasBlob(const std::string& digest) const { return blobs_.contains(digest); }
  const api::OllamaModel& ollama_model() const { return ollama_model_; }
  size_t body_limit_bytes() const { return body_limit_bytes_; }
  // Is told that it stops, and was not killed: what ends from now on is not noted.
  void NoteStop() { recovery_->NoteStop(); }
  // Called after the picture of its swarm may have changed.
  void OnChanged(std::function<void()> callback) { on_changed_ = std::move(callback); }

 private:
  swarm::CoreOptions CoreOptionsOf(ServedModel& model) const;
  void LeadAlone();
  void CountTokens();
  void OnSwarmChanged();
  void TellLack(const swarm::Snapshot& snapshot);

  const CellShared shared_;
  const std::unique_ptr<CellRecovery> recovery_;  // the others use it
  api::ModelCard card_;
  package::Digest digest_;
  bool lowered_ = false;
  swarm::CoreOptions core_;  // of any core of this cell: nothing of one time of leading
  std::set<std::string> blobs_;
  size_t body_limit_bytes_ = 0;
  std::shared_ptr<const api::ModelText> text_;
  std::unique_ptr<SwarmHost> host_;
  std::unique_ptr<ClusteredGenerator> clustered_;
  std::unique_ptr<WhatIf> what_if_;
  std::unique_ptr<ChatRoutes> chat_;
  std::unique_ptr<EmbeddingRoutes> embeddings_;
  std::unique_ptr<PackageRoutes> package_routes_;
  api::OllamaModel ollama_model_;
  std::function<void()> on_changed_;
  std::function<void(const store::pb::Placement&)> on_placement_;
  std::function<void(uint64_t)> on_worker_saw_;
  net::EventLoop::Timer look_timer_;
  bool look_pending_ = false;
  std::string told_lack_;  // of memory, that the log has
  swarm::SwarmState last_state_ = swarm::SwarmState::kDown;
};

}  // namespace weft::server
