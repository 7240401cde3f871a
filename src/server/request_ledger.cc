#include "server/request_ledger.h"

#include <algorithm>
#include <utility>

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

api::ApiResult<std::optional<uint64_t>> RequestLedger::SeedOf(const KeyedCall& call,
                                                              int64_t now_s) {
  contents_.DropOldRequests(now_s);
  const journal::RequestEntry* entry = contents_.FindRequest(call.key);
  if (entry == nullptr) return std::optional<uint64_t>();
  if (entry->begun.digest() == call.digest) return std::optional<uint64_t>(entry->begun.seed());
  return api::ApiError{422,
                       "This Idempotency-Key was used with another body within the last day: use a "
                       "new key for a new request.",
                       "invalid_request_error", "Idempotency-Key", "idempotency_key_reused"};
}

void RequestLedger::Apply(journal::pb::Record record) {
  contents_.Apply(record);
  if (note_) note_(std::move(record));
}

RequestLedger::Run RequestLedger::Begin(journal::pb::RequestBegun begun, int64_t now_s) {
  begun.set_begun_at_s(now_s);
  Run run{begun.key(), next_number_++};
  live_[run.key] = {run.number, begun.has_request(), 0, {}};
  journal::pb::Record record;
  *record.mutable_request_begun() = std::move(begun);
  Apply(std::move(record));
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
  journal::pb::Record record;
  auto& tokens = *record.mutable_request_tokens();
  tokens.set_key(run.key);
  tokens.set_first(live->noted_tokens);
  tokens.mutable_token_ids()->Assign(live->token_ids.begin(), live->token_ids.end());
  live->noted_tokens += static_cast<uint32_t>(live->token_ids.size());
  live->token_ids.clear();
  Apply(std::move(record));
}

void RequestLedger::End(const Run& run, uint32_t generated_tokens) {
  if (Find(run) == nullptr) return;
  live_.erase(run.key);
  NoteEnd(run.key, generated_tokens);
}

void RequestLedger::Drop(const std::string& key) {
  NoteEnd(key, 0);
}

void RequestLedger::NoteEnd(const std::string& key, uint32_t generated_tokens) {
  journal::pb::Record record;
  record.mutable_request_ended()->set_key(key);
  record.mutable_request_ended()->set_generated_tokens(generated_tokens);
  Apply(std::move(record));
}

}  // namespace weft::server
