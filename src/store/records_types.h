// What records.h keeps, as the server uses it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/records.pb.h"

namespace weft::store {

// The secrets of one start.
struct StoredSecrets {
  std::string api_key, join_token;  // their SHA-256, 32 bytes each
  std::string hidden_join_token;    // the token itself, under the key (server/sharing.h)
  bool used = false;                // somebody was let in by one of them
};

// A prefix that is kept by name (swarm::Request::keep).
struct StoredPrefix {
  std::string salt, name;
  std::vector<int32_t> token_ids;
  int64_t kept_at_s = 0;  // Unix time
};

// A request that carries an Idempotency-Key.
struct KeyedRequest {
  std::string key, digest;  // SHA-256 of the key, and of key and body
  uint64_t seed = 0;
  int64_t begun_at_s = 0;  // Unix time
  uint32_t prompt_tokens = 0;
  uint32_t attempts = 0;               // to go on with it, of starts that were not told to stop
  std::optional<pb::Request> request;  // with the prompt, where that may be kept
};

// The session in which devices hold what they have computed for a request (swarm::SessionTrace).
struct StoredSession {
  uint32_t session = 0, first_generation = 0, last_generation = 0;
  bool operator==(const StoredSession&) const = default;
};

// One that had not ended.
struct OpenRequest : KeyedRequest {
  std::vector<int32_t> token_ids;  // generated so far
  std::optional<StoredSession> session;
};

struct KnownRequest {
  std::string digest;
  uint64_t seed = 0;
};

// What earlier starts of a cell have left.
struct FoundCell {
  int64_t cell = 0;          // by which records know it
  uint64_t incarnation = 0;  // of this start: higher than that of any before
  // The time of the order to stop, the last event of a run; nullopt after a crash.
  std::optional<int64_t> stopped_at_ms;
  std::optional<pb::Placement> placement;
  std::vector<pb::Lifetime> lifetimes;  // of all devices, whatever they served
  std::optional<pb::Popularity> popularity;
  std::vector<StoredPrefix> kept_prefixes;  // the latest last
  std::vector<OpenRequest> open_requests;   // whose prompts are known; the latest last
};

}  // namespace weft::store
