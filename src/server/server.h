// Server: one model on one port: page, package, API and worker sockets over the orchestrator's
// core. Computes nothing: workers attach to its host.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/model_text.h"
#include "api/ollama_models.h"
#include "base/clock.h"
#include "base/result.h"
#include "net/server.h"
#include "package/package.h"
#include "server/chat_routes.h"
#include "server/embedding_routes.h"
#include "server/key_keeper.h"
#include "server/package_routes.h"
#include "server/recovery.h"
#include "server/router.h"
#include "server/sharing.h"
#include "server/stage_graphs.h"
#include "server/static_files.h"
#include "server/swarm_feed.h"
#include "server/swarm_host.h"
#include "server/what_if.h"

namespace weft::server {

// A request for a chat may take this much, a position of the context. Tokens are seldom longer,
// also where every character is escaped (\uXXXX, as Python does it).
constexpr size_t kBodyBytesPerPosition = 16;
// And in any case: a text that is too long for the context is told so, escaped or not.
constexpr size_t kLeastBodyLimitBytes = 2 << 20;
// The same where a request may have many texts.
constexpr size_t kLeastEmbeddingBodyBytes = 16 << 20;

struct ServerOptions {
  std::string address = "127.0.0.1";
  uint16_t port = 8080;                 // 0: any free one
  std::string tls;                      // "", "auto" (self-signed), or a PEM certificate file
  std::string tls_key;                  // PEM; "": in the certificate's file
  std::filesystem::path state_folder;   // for the self-signed certificate; "": there is none
  bool is_shared = false;               // demands secrets also where only this machine listens
  std::vector<std::string> host_names;  // further names of this server
  std::vector<std::string> allowed_origins;
  std::vector<std::string> trusted_proxies;  // addresses whose X-Forwarded-... are believed
  // nullopt: those of the environment, or new ones where others can reach the server.
  std::optional<Secrets> secrets;
  // Asked for those of files, which count more than the environment; may be empty.
  std::function<Result<Secrets>()> read_secrets;
  // What a restart needs is kept there; "": nowhere.
  std::filesystem::path journal;
  bool journal_is_asked_for = false;  // a server that cannot have it does not start
  bool journal_prompts = false;
  bool new_secrets = false;  // those of earlier starts are not let in any more
  // Named API keys and their usage; "": there are none.
  std::filesystem::path keys;
  bool keys_are_asked_for = false;  // a server that cannot read them does not start
  uint32_t context_length =
      swarm::kDefaultContextLength;  // no more than what the model was made for is used
  size_t body_limit_bytes = 0;  // of a chat's request; 0: by the context, kBodyBytesPerPosition
  uint32_t sessions = swarm::kDefaultSessions;
  uint32_t generate_interval = 0;
  swarm::PlanKind plan_kind = swarm::PlanKind::kLayers;
  uint32_t expert_copies = 0;        // of swarm::CoreOptions
  std::optional<double> loss_limit;  // of swarm::CoreOptions
  Duration prefill_chunk_time = Milliseconds(50);
  uint32_t marks = swarm::kDefaultMarks;  // of a conversation, in layers with recurrent state
  uint64_t history_bytes = 1 << 30;       // of boundary rows that are kept for whoever takes over
  uint32_t queue = swarm::kDefaultQueueLimit;
  uint32_t worker_limit = swarm::kDefaultWorkerLimit;
  Duration wait = Seconds(30);          // of a request for a swarm that is down
  Duration token_limit = Seconds(900);  // a request that got no token for so long is ended
  bool log_requests = false;            // a line for each answer
  Instant started = MonotonicNow();     // of the program, for the log
};

// What is served.
struct ServedModel {
  package::Package package;
  swarm::ModelInfo info;
  std::shared_ptr<const api::ModelText> text;
  std::shared_ptr<StageGraphs> graphs;
  std::optional<StaticFiles> files;  // nullopt: no page was built
};

class Server {
 public:
  // Everything that can fail: afterwards the port is open, and Run answers.
  static Result<std::unique_ptr<Server>> Listen(const ServerOptions& options, ServedModel model);

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
  const std::filesystem::path* journal() const { return recovery_ ? &options_.journal : nullptr; }
  const net::TlsContext* tls() const { return tls_.get(); }
  // For workers in this process; they end before the server does.
  net::EventLoop& loop() { return loop_; }
  SwarmHost& host() { return *host_; }

 private:
  explicit Server(const ServerOptions& options);

  Status OpenJournal(const swarm::ModelInfo& model);
  Status NoteSecrets();
  Status OpenKeys(const std::string& model_name);
  void HashSecretsInto(swarm::CoreOptions& core) const;
  void MakeHost(ServedModel& model);
  void MakeRouter();
  void CountTokens();
  void CloseRevoked();
  RequestLedger MakeLedger();
  std::function<void(journal::pb::Record)> MakeNote();
  std::vector<std::string> Salts() const;
  Status Open();
  Result<std::shared_ptr<net::TlsContext>> MakeTls() const;
  Result<AccessPolicy> MakeAccess() const;
  std::string TlsKey() const;
  void ReloadCertificate();
  void OnSwarmChanged();
  void TellLack(const swarm::Snapshot& snapshot);
  void BeginStop();

  const ServerOptions options_;
  Reach reach_;
  Secrets secrets_;
  net::EventLoop loop_;
  std::unique_ptr<Recovery> recovery_;  // nullptr: there is no journal
  std::vector<journal::pb::Secrets> earlier_secrets_;
  std::unique_ptr<KeyKeeper> keys_;
  TaskQueue planning_thread_;
  std::shared_ptr<net::TlsContext> tls_;
  std::unique_ptr<SwarmHost> host_;
  std::unique_ptr<SwarmFeed> feed_;
  std::unique_ptr<WhatIf> what_if_;
  std::unique_ptr<ChatRoutes> chat_;
  std::unique_ptr<EmbeddingRoutes> embeddings_;
  std::unique_ptr<PackageRoutes> package_routes_;
  std::optional<StaticFiles> files_;
  api::OllamaModel ollama_model_;
  SharedLinks links_;
  size_t body_limit_bytes_ = 0;
  std::unique_ptr<Router> router_;
  std::unique_ptr<net::Server> server_;
  net::EventLoop::Timer look_timer_;
  net::EventLoop::Timer stop_timer_;
  bool look_pending_ = false;
  std::string told_lack_;  // of memory, that the log has
  swarm::SwarmState last_state_ = swarm::SwarmState::kDown;
};

}  // namespace weft::server
