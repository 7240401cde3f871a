// RequestLedger: requests that carry an Idempotency-Key, while they run and for a day after. The
// same key with the same body is computed with the same seed, whatever has happened since, so its
// answer is the same. The same key with another body is the client's mistake, and told so.
//
// The key itself is not kept, and the body only by a digest that includes the key. So a reader of
// the journal cannot try out what a body may have said.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/openai_request.h"
#include "journal/contents.h"

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
  // `note` is given what a journal has to know, `flush` waits until the journal has it; both may be
  // empty.
  using Note = std::function<void(journal::pb::Record)>;
  RequestLedger(journal::Contents found, Note note, std::function<void()> flush = nullptr)
      : contents_(std::move(found)), note_(std::move(note)), flush_(std::move(flush)) {}
  RequestLedger() : RequestLedger({}, nullptr) {}

  // Of one run of a request: notes of an earlier run with the same key have no effect.
  struct Run {
    std::string key;
    uint64_t number = 0;
  };

  // 422: the key came with another body. Otherwise the seed that the body's answer has, if there is
  // one.
  api::ApiResult<std::optional<uint64_t>> SeedOf(const KeyedCall& call, int64_t now_s);
  // `begun` without its time. REQUIRES: SeedOf had no objection.
  Run Begin(journal::pb::RequestBegun begun, int64_t now_s);
  // A token of a request that was begun with its prompt. Noted some at a time.
  void AddToken(const Run& run, int32_t token_id);
  void End(const Run& run, uint32_t generated_tokens);
  // Nobody goes on with this request of an earlier start: its prompt is forgotten, its seed stays.
  void Drop(const std::string& key);
  // What was noted until now survives this process.
  void Flush() const {
    if (flush_) flush_();
  }

 private:
  struct Live {
    uint64_t number = 0;
    bool has_prompt = false;
    uint32_t noted_tokens = 0;
    std::vector<int32_t> token_ids;  // not noted yet
  };
  void Apply(journal::pb::Record record);
  void NoteEnd(const std::string& key, uint32_t generated_tokens);
  Live* Find(const Run& run);

  journal::Contents contents_;
  Note note_;
  std::function<void()> flush_;
  std::map<std::string, Live> live_;  // by key
  uint64_t next_number_ = 1;
};

}  // namespace weft::server
