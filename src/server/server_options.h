// What a server is told when it starts: its settings, and what a model is that it serves.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/model_text.h"
#include "base/clock.h"
#include "base/result.h"
#include "cluster_host/member_options.h"
#include "package/package.h"
#include "server/sharing.h"
#include "server/stage_graphs.h"
#include "server/static_files.h"
#include "swarm/options.h"

namespace weft::server {

// A request for a chat may take this much, a position of the context. Tokens are seldom longer,
// also where every character is escaped (\uXXXX, as Python does it).
constexpr size_t kBodyBytesPerPosition = 16;
// And in any case: a text that is too long for the context is told so, escaped or not.
constexpr size_t kLeastBodyLimitBytes = 2 << 20;
// The same where a request may have many texts.
constexpr size_t kLeastEmbeddingBodyBytes = 16 << 20;

// A device that could hold less of a model would only be in the way of plans, and does not help it.
constexpr uint64_t kLeastOfferBytes = 32 << 20;

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
  bool half_rows = false;            // of swarm::CoreOptions
  std::optional<double> loss_limit;  // of swarm::CoreOptions
  Duration prefill_chunk_time = Milliseconds(50);
  uint32_t marks = swarm::kDefaultMarks;  // of a conversation, in layers with recurrent state
  uint64_t history_bytes = 1 << 30;       // of boundary rows that are kept for whoever takes over
  uint32_t queue = swarm::kDefaultQueueLimit;
  uint32_t worker_limit = swarm::kDefaultWorkerLimit;
  Duration wait = Seconds(30);          // of a request for a swarm that is down
  Duration token_limit = Seconds(900);  // a request that got no token for so long is ended
  bool log_requests = false;            // a line for each answer
  // Of a server of several models (models.h): how long one without requests stays loaded, nullopt:
  // until others want its memory; and the memory of the built-in worker, 0: there is none.
  std::optional<Duration> keep_alive = Seconds(300);
  uint64_t memory_bytes = 0;
  // Servers that may lead after this one; workers hear of them, and pages may speak with them.
  std::vector<swarm::Successor> successors;
  Instant started = MonotonicNow();  // of the program, for the log
  // Of a server that leads its model by turns with others. The cell's own options then count more
  // than those above.
  std::optional<cluster_host::MemberOptions> cluster;
};

// What is served.
struct ServedModel {
  package::Package package;
  swarm::ModelInfo info;
  std::shared_ptr<const api::ModelText> text;
  std::shared_ptr<StageGraphs> graphs;
  std::optional<StaticFiles> files;  // nullopt: no page was built
};

}  // namespace weft::server
