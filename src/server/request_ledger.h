// RequestLedger: requests that carry an Idempotency-Key, while they run and for a day after. The
// same key with the same body is computed with the same seed, whatever has happened since, so its
// answer is the same. The same key with another body is the client's mistake, and told so.
//
// The seed is made of the call's digest and a key of the server's (HMAC). So two calls that come at
// once have the same one, and a lost record changes no answer. What is known of the key is only
// asked for because another body may have come with it.
//
// The key itself is not kept, and the body only by a digest that includes the key. So a reader of
// the records cannot try out what a body may have said.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/openai_request.h"
#include "server/cell_records.h"

namespace weft::server {

struct KeyedCall {
  std::string key, digest;  // SHA-256 of the key, and of key and body
};

// 400 unless the key has 1 to 255 printable characters without spaces. `kind`: of the body, "chat"
// for a chat of OpenAI's. `api_key`: the named one that was shown, 0: none; two users who choose
// the same key do not meet.
api::ApiResult<KeyedCall> MakeKeyedCall(std::string_view key, std::string_view kind,
                                        std::string_view body, int64_t api_key = 0);

class RequestLedger {
 public:
  // `records` outlive this. `seed_key`: of the server's own.
  RequestLedger(CellRecords& records, std::string seed_key)
      : records_(records), seed_key_(std::move(seed_key)) {}

  // Of one run of a request: notes of an earlier run with the same key have no effect.
  struct Run {
    std::string key;
    uint64_t number = 0;
  };

  // Gives the seed that was noted for the body, or nullopt: the key is new. 422: it came with
  // another body.
  using Known = std::function<void(api::ApiResult<std::optional<uint64_t>>)>;
  // Calls `then` once, on the loop; at once where the request runs.
  void Ask(const KeyedCall& call, Known then) const;
  // Gives the seed of a call that names none: the same for the same key and body, always.
  uint64_t SeedFor(const KeyedCall& call) const;

  // `request` without its time. REQUIRES: Ask had no objection.
  Run Begin(store::KeyedRequest request, int64_t now_s);
  // A token of a request that was begun with its prompt. Noted some at a time.
  void AddToken(const Run& run, int32_t token_id);
  // The same of the session that it has.
  void SetSession(const Run& run, const store::StoredSession& session);
  void End(const Run& run, uint32_t generated_tokens);
  // Nobody goes on with this request of an earlier start: its prompt is forgotten, its seed stays.
  void Drop(const std::string& key) { records_.NoteEnded(key, 0); }
  // What was noted until now survives this process.
  void Flush() const { records_.Flush(); }

 private:
  struct Live {
    uint64_t number = 0;
    store::KnownRequest known;
    bool has_prompt = false;
    uint32_t noted_tokens = 0;
    std::vector<int32_t> token_ids;  // not noted yet
  };
  Live* Find(const Run& run);

  CellRecords& records_;
  const std::string seed_key_;
  std::map<std::string, Live> live_;  // by key
  uint64_t next_number_ = 1;
};

}  // namespace weft::server
