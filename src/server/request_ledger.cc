#include "server/request_ledger.h"

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "base/sha256.h"

namespace weft::server {
namespace {

constexpr size_t kMaxKeyBytes = 255;
// So many tokens at most are computed again because they were not noted.
constexpr size_t kTokensPerNote = 16;

std::string HashOf(std::initializer_list<std::string_view> parts) {
  Sha256Stream stream;
  for (const std::string_view part : parts) stream.Update(AsBytes(part));
  const Sha256Digest digest = stream.Finish();
  return std::string(AsText(digest));
}

}  // namespace

api::ApiResult<KeyedCall> MakeKeyedCall(std::string_view key, std::string_view kind,
                                        std::string_view body, int64_t api_key) {
  const bool is_printable =
      std::all_of(key.begin(), key.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  if (key.empty() || key.size() > kMaxKeyBytes || !is_printable) {
    return api::ApiError{400,
                         "The header Idempotency-Key has " + std::to_string(key.size()) +
                             " bytes; expected 1 to 255 printable characters without spaces.",
                         "invalid_request_error", "Idempotency-Key", "invalid_idempotency_key"};
  }
  // The key's length keeps apart where it ends and the body begins.
  const std::string what = kind == "chat" ? "weft body " : "weft " + std::string(kind) + " body ";
  const std::string whose =
      api_key == 0 ? "weft key " : "weft key of " + std::to_string(api_key) + " ";
  return KeyedCall{HashOf({whose, key}),
                   HashOf({what, std::to_string(key.size()), " ", key, body})};
}

void RequestLedger::Ask(const KeyedCall& call, Known then) const {
  auto answer = [digest = call.digest,
                 then = std::move(then)](const std::optional<store::KnownRequest>& known) {
    if (!known) return then(std::optional<uint64_t>());
    if (known->digest == digest) return then(std::optional<uint64_t>(known->seed));
    then(api::ApiError{422,
                       "This Idempotency-Key was used with another body within the last day: use a "
                       "new key for a new request.",
                       "invalid_request_error", "Idempotency-Key", "idempotency_key_reused"});
  };
  const auto live = live_.find(call.key);
  if (live != live_.end()) return answer(live->second.known);
  records_.FindRequest(call.key, std::move(answer));
}

uint64_t RequestLedger::SeedFor(const KeyedCall& call) const {
  const Sha256Digest mac = HmacSha256(AsBytes(seed_key_), AsBytes(call.digest));
  return LoadLe<uint64_t>(mac.data());
}

RequestLedger::Run RequestLedger::Begin(store::KeyedRequest request, int64_t now_s) {
  request.begun_at_s = now_s;
  Run run{request.key, next_number_++};
  live_[run.key] = {run.number, {request.digest, request.seed}, request.request.has_value(), 0, {}};
  records_.NoteBegun(std::move(request));
  return run;
}

RequestLedger::Live* RequestLedger::Find(const Run& run) {
  const auto live = live_.find(run.key);
  return live == live_.end() || live->second.number != run.number ? nullptr : &live->second;
}

void RequestLedger::AddToken(const Run& run, int32_t token_id) {
  Live* live = Find(run);
  if (live == nullptr || !live->has_prompt) return;
  live->token_ids.push_back(token_id);
  if (live->token_ids.size() < kTokensPerNote) return;
  const uint32_t first = live->noted_tokens;
  live->noted_tokens += static_cast<uint32_t>(live->token_ids.size());
  records_.NoteTokens(run.key, first, std::exchange(live->token_ids, {}));
}

void RequestLedger::SetSession(const Run& run, const store::StoredSession& session) {
  const Live* live = Find(run);
  if (live != nullptr && live->has_prompt) records_.NoteSession(run.key, session);
}

void RequestLedger::End(const Run& run, uint32_t generated_tokens) {
  if (Find(run) == nullptr) return;
  live_.erase(run.key);
  records_.NoteEnded(run.key, generated_tokens);
}

}  // namespace weft::server
