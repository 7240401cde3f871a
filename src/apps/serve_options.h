// What `weft serve` is told.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "swarm/options.h"

namespace weft::apps {

struct ServeOptions {
  // Folders, or names in the library; none: all of the library.
  std::vector<std::string> packages;
  int64_t keep_alive_s = 300;  // of a model without requests; negative: as long as it can
  std::string address;         // "": this machine alone, or with `share` every network
  uint16_t port = 8080;
  bool share = false;
  std::string tls;  // "", "auto", or certificate file
  std::string tls_key;
  std::string worker_memory;
  bool no_worker = false;
  std::string gpu = "auto";  // or "off", "software"
  bool verify = false;       // every weight, also those of files that did not change
  uint32_t threads = std::max(1u, std::thread::hardware_concurrency());
  uint32_t context_length = swarm::kDefaultContextLength;
  uint32_t sessions = swarm::kDefaultSessions;
  uint32_t marks = swarm::kDefaultMarks;
  uint32_t generate_interval = 0;
  uint32_t prefill_chunk_ms = 50;
  std::string plan = "auto";           // of kPlanKinds
  std::string expert_copies = "auto";  // or 1 to 4
  std::string expert_rows = "f32";     // or "f16"
  bool lossy = false, exact = false;   // whether sums of neuron groups may be lost
  double loss_limit = swarm::kDefaultLossLimit;
  std::string body_limit;  // bytes; "": by the context
  std::string history;     // bytes; "": 5% of the memory, at most 1 GiB
  uint32_t queue = swarm::kDefaultQueueLimit;
  uint32_t worker_limit = swarm::kDefaultWorkerLimit;
  uint32_t wait_s = 30;
  uint32_t token_limit_s = 900;
  std::string web_root;
  std::vector<std::string> host_names;
  std::vector<std::string> allowed_origins;
  std::vector<std::string> trusted_proxies;
  // "": in the state folder where there is one and the port is known; "off": none.
  std::string journal;
  std::string keys;  // "": in the state folder; "off": no named keys
  bool journal_prompts = false;
  bool control_tokens_in_text = false;
  bool new_secrets = false;  // those of earlier starts are not let in any more
  bool own_secrets = false;  // new ones, whatever the environment says
  // Files whose first line is a secret; "": that of the environment, or a new one.
  std::string api_key_file;
  std::string join_token_file;
  // Of a server that leads its model by turns with others; "": it is alone.
  std::string cluster;      // the database's address
  std::string url;          // how others reach this server
  std::string cluster_key;  // file; "": cluster.key in /etc/weft or the state folder
  std::string log;          // a level, "": as it is
  std::string log_format = "text";
  bool log_requests = false;
  std::string config;  // a file of settings (settings.h)
};

}  // namespace weft::apps
