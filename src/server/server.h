// Server: one model or several on one port: page, package, API and worker sockets over the
// orchestrator's cores. Computes nothing: workers attach to its hosts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cluster_host/cluster_member.h"
#include "net/server.h"
#include "server/admin_routes.h"
#include "server/cell.h"
#include "server/cluster_cells.h"
#include "server/evictions.h"
#include "server/key_keeper.h"
#include "server/models.h"
#include "server/recovery.h"
#include "server/router.h"
#include "server/server_options.h"
#include "server/sharing.h"
#include "server/static_files.h"
#include "server/swarm_feed.h"

namespace weft::server {

class Server {
 public:
  // Everything that can fail: afterwards the port is open, and Run answers.
  static Result<std::unique_ptr<Server>> Listen(const ServerOptions& options, ServedModel model);
  // The same of several models (models.h).
  static Result<std::unique_ptr<Server>> Listen(const ServerOptions& options, ModelLibrary library);

  // Serves until Stop(), which any thread may call. Waiting requests are told why they end, and
  // those with their answers are let take them.
  void Run() { loop_.Run(); }
  void Stop();
  void StopOnSignal();
  // At SIGHUP a certificate that was named is read again, for connections to come.
  void ReloadOnSignal();

  const Reach& reach() const { return reach_; }
  // The secrets in clear, once: the server keeps hashes.
  Secrets TakeSecrets();
  // Keys and links of earlier starts are let in, too.
  bool admits_earlier() const { return !earlier_secrets_.empty(); }
  // nullptr: there is none.
  const std::filesystem::path* journal() const {
    return has_journal_ ? &options_.journal : nullptr;
  }
  const net::TlsContext* tls() const { return tls_.get(); }
  // For workers in this process; they end before the server does.
  net::EventLoop& loop() { return loop_; }
  // Of a server of one model.
  SwarmHost& host() { return cell_->host(); }
  // Of a server of a cluster; else nullptr.
  cluster_host::ClusterMember* member() { return cluster_ ? &cluster_->member() : nullptr; }
  // Called on the loop with the others of the cluster when they are known, and when they change.
  void OnServersMet(std::function<void(const std::vector<cluster_host::PeerAddress>&)> callback) {
    on_servers_met_ = std::move(callback);
  }
  // Of one with several.
  Models& models() { return *models_; }

 private:
  explicit Server(const ServerOptions& options);
  static Result<std::unique_ptr<Server>> Prepare(const ServerOptions& options);

  Status JoinCluster(const std::vector<ClusterCells::Model>& models);
  void StartCluster();
  void MeetServers();
  void NoteClusterKeys();
  void LetInEarlier(AccessPolicy& access) const;
  Status OpenJournal();
  Status NoteSecrets();
  Status OpenKeys(const std::string& model_name);
  void WarnOfOwnKeys() const;
  void HashSecretsInto(swarm::CoreOptions& core) const;
  CellShared Shared(bool has_several);
  RouteParts Parts();
  // `routes`: of the cell or of the models; `admin`: with them.
  void MakeRouter(std::vector<Route> routes, AdminParts admin);
  void CloseRevoked();
  std::vector<std::string> Salts() const;
  Status Open();
  Result<std::shared_ptr<net::TlsContext>> MakeTls() const;
  Result<AccessPolicy> MakeAccess() const;
  std::string TlsKey() const;
  void ReloadCertificate();
  void BeginStop();

  ServerOptions options_;
  Reach reach_;
  Secrets secrets_;
  net::EventLoop loop_;
  std::unique_ptr<Recovery> recovery_;
  bool has_journal_ = false;  // else it is in memory
  std::vector<store::StoredSecrets> earlier_secrets_;
  std::unique_ptr<KeyKeeper> keys_;
  Evictions evictions_;
  TaskQueue planning_thread_;
  std::shared_ptr<net::TlsContext> tls_;
  std::unique_ptr<SwarmFeed> feed_;
  std::unique_ptr<ClusterCells> cluster_;               // of a server of a cluster
  std::unique_ptr<Cell> cell_;                          // of a server of one model
  std::unique_ptr<ClusterCell> cluster_cell_;           // the same, of a cluster
  std::unique_ptr<Models> models_;                      // of one with several
  std::vector<cluster_host::PeerAddress> met_servers_;  // the others of the cluster
  // Hashes of what follows from its keys, where nobody has chosen another one.
  bool derives_api_key_ = false, derives_join_token_ = false;
  std::vector<std::string> derived_api_keys_, derived_join_tokens_;
  std::function<void(const std::vector<cluster_host::PeerAddress>&)> on_servers_met_;
  size_t body_limit_bytes_ = 0;
  std::optional<StaticFiles> files_;
  SharedLinks links_;
  std::unique_ptr<Router> router_;
  std::unique_ptr<net::Server> server_;
  net::EventLoop::Timer stop_timer_;
};

}  // namespace weft::server
