#include "server/kept_prefixes.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "api/openai_response.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/sha256.h"

namespace weft::server {
namespace {

// Between attempts to keep what an earlier start kept.
constexpr Duration kRetryInterval = Seconds(10);

// Of what clients would like to be kept, with so many digits of a digest of their key behind it.
constexpr std::string_view kCachedName = "prompt_cache_key.";
constexpr size_t kKeyDigits = 24;

api::ApiError ToError(const swarm::FinishRequest& end) {
  if (!end.error) return {409, "It was forgotten before it was computed.", "", "", "forgotten"};
  api::ApiError error = api::FromError(*end.error);
  // Nothing comes of trying again: a place has to be made.
  if (end.error->code() == ErrorCode::kOutOfMemory)
    error = {409, error.message, "invalid_request_error", "keep", "too_many_kept"};
  return error;
}

}  // namespace

KeptPrefixes::Entry* KeptPrefixes::Find(const std::string& salt, const std::string& name) {
  for (auto& [number, entry] : entries_)
    if (entry.prefix.name == name && entry.prefix.salt == salt) return &entry;
  return nullptr;
}

void KeptPrefixes::Keep(Prefix prefix, const std::string& client, Done done) {
  if (Entry* known = Find(prefix.salt, prefix.name)) {
    if (known->prefix.token_ids == prefix.token_ids) {
      if (known->prefix.is_kept) return done(std::nullopt);
      known->waiting.push_back(std::move(done));
      return;
    }
    // The core goes on keeping what has the name until the new one is computed.
    Drop(*known);
  }
  prefix.asked_at_s = std::time(nullptr);
  const uint64_t number = next_number_++;
  Entry& entry = entries_[number];
  entry.prefix = std::move(prefix);
  entry.waiting.push_back(std::move(done));
  Submit(number, client);
}

void KeptPrefixes::KeepWhileRoom(const std::string& key, Prefix prefix, const std::string& client) {
  if (most_cached_ == 0) return;
  prefix.name = std::string(kCachedName) + ToHex(Sha256(AsBytes(key))).substr(0, kKeyDigits);
  if (Find(prefix.salt, prefix.name) == nullptr) MakeRoomForCached();
  const std::string salt = prefix.salt, name = prefix.name;
  Keep(std::move(prefix), client, [](const std::optional<api::ApiError>&) {});
  if (Entry* entry = Find(salt, name)) entry->asked_last = ++asked_last_;
}

void KeptPrefixes::MakeRoomForCached() {
  const Entry* oldest = nullptr;
  size_t count = 0;
  for (const auto& [number, entry] : entries_) {
    if (!entry.prefix.name.starts_with(kCachedName)) continue;
    ++count;
    if (oldest == nullptr || entry.asked_last < oldest->asked_last) oldest = &entry;
  }
  if (count < most_cached_) return;
  const Prefix gone = oldest->prefix;
  Forget(gone.salt, gone.name);
}

// May end the entry before it returns.
void KeptPrefixes::Submit(uint64_t number, const std::string& client) {
  const Prefix& prefix = entries_.at(number).prefix;
  swarm::Request request;
  request.client = client;
  request.salt = prefix.salt;
  request.keep = prefix.name;
  request.prompt_ids = prefix.token_ids;
  RequestCallbacks callbacks;
  callbacks.on_finish = [this, number](const swarm::FinishRequest& end) { OnFinish(number, end); };
  const swarm::RequestId id = generator_.Submit(std::move(request), std::move(callbacks));
  const auto entry = entries_.find(number);
  if (entry != entries_.end()) entry->second.request = id;
}

void KeptPrefixes::OnFinish(uint64_t number, const swarm::FinishRequest& end) {
  const auto found = entries_.find(number);
  if (found == entries_.end()) return;  // it was forgotten, or another one has its name
  Entry& entry = found->second;
  entry.request = 0;
  const std::vector<Done> waiting = std::exchange(entry.waiting, {});
  if (end.reason == swarm::FinishReason::kStop) {
    entry.prefix.is_kept = true;
    const Prefix& kept = entry.prefix;
    records_.NoteKept({kept.salt, kept.name, kept.token_ids, kept.asked_at_s});
    for (const Done& done : waiting) done(std::nullopt);
    return;
  }
  const api::ApiError error = ToError(end);
  if (!entry.prefix.name.starts_with(kCachedName))
    LogWarn("the prefix '{}' of {} tokens is not kept: {}", entry.prefix.name,
            entry.prefix.token_ids.size(), error.message);
  // What was promised before a restart is tried until it is there; others are told.
  const bool is_late = end.error && end.error->code() == ErrorCode::kUnavailable;
  if (entry.is_restored && is_late)
    timer_.FireAfter(kRetryInterval, [this] { TryAgain(); });
  else
    entries_.erase(found);
  for (const Done& done : waiting) done(error);
}

void KeptPrefixes::TryAgain() {
  std::vector<uint64_t> numbers;
  for (const auto& [number, entry] : entries_)
    if (!entry.prefix.is_kept && entry.request == 0) numbers.push_back(number);
  for (const uint64_t number : numbers) Submit(number, "");
}

void KeptPrefixes::Drop(Entry& entry) {
  const swarm::RequestId request = entry.request;
  const std::vector<Done> waiting = std::move(entry.waiting);
  std::erase_if(entries_, [&](const auto& each) { return &each.second == &entry; });
  if (request != 0) generator_.Cancel(request);
  for (const Done& done : waiting) done(ToError({}));
}

bool KeptPrefixes::Forget(const std::string& salt, const std::string& name) {
  Entry* entry = Find(salt, name);
  if (entry == nullptr) return false;
  Drop(*entry);
  generator_.ForgetPrefix(salt, name);
  records_.NoteForgotten(salt, name);
  return true;
}

std::vector<KeptPrefixes::Prefix> KeptPrefixes::Of(const std::string& salt) const {
  std::vector<Prefix> prefixes;
  for (const auto& [number, entry] : entries_)
    if (entry.prefix.salt == salt) prefixes.push_back(entry.prefix);
  return prefixes;
}

void KeptPrefixes::Restore(const std::vector<store::StoredPrefix>& found,
                           const std::vector<std::string>& salts) {
  for (const store::StoredPrefix& each : found) {
    const bool is_used = std::ranges::find(salts, each.salt) != salts.end();
    const std::string& salt = is_used ? each.salt : salts.back();
    if (Find(salt, each.name) != nullptr) continue;
    const uint64_t number = next_number_++;
    Entry& entry = entries_[number];
    entry.prefix = {salt, each.name, each.token_ids, each.kept_at_s, false};
    entry.is_restored = true;
    Submit(number, "");
  }
}

}  // namespace weft::server
