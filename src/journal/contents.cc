#include "journal/contents.h"

#include <algorithm>

#include "journal/record_format.h"

namespace weft::journal {

void Contents::Apply(const pb::Record& record) {
  stopped_at_s_.reset();
  switch (record.kind_case()) {
    case pb::Record::kStart:
      return Apply(record.start());
    case pb::Record::kSecrets:
      return Apply(record.secrets());
    case pb::Record::kPlacement:
      placement_ = record.placement();
      return;
    case pb::Record::kRequestBegun:
      return Apply(record.request_begun());
    case pb::Record::kRequestTokens:
      return Apply(record.request_tokens());
    case pb::Record::kRequestEnded:
      return Apply(record.request_ended());
    case pb::Record::kPopularity:
      return Apply(record.popularity());
    case pb::Record::kKeptPrefix:
      return Apply(record.kept_prefix());
    case pb::Record::kStop:
      stopped_at_s_ = record.stop().at_s();
      return;
    case pb::Record::KIND_NOT_SET:  // of a later version
      return;
  }
}

void Contents::Apply(const pb::Start& start) {
  if (start.package_digest() == package_digest_) return;
  package_digest_ = start.package_digest();
  // How devices come and go has nothing to do with the model.
  pb::Placement kept;
  if (placement_) kept.mutable_lifetimes()->Swap(placement_->mutable_lifetimes());
  placement_.reset();
  if (kept.lifetimes_size() > 0) placement_ = std::move(kept);
  kept_prefixes_.clear();
  requests_.clear();
}

void Contents::Apply(const pb::Secrets& secrets) {
  pb::Secrets latest = secrets;
  latest.clear_only_key();
  latest.clear_only_token();
  std::erase_if(secrets_, [&](const pb::Secrets& each) {
    const bool same_key = each.api_key() == secrets.api_key();
    const bool same_token = each.join_token() == secrets.join_token();
    if (same_key && same_token && each.used()) latest.set_used(true);
    return (same_key && same_token) || (secrets.only_key() && !same_key) ||
           (secrets.only_token() && !same_token);
  });
  if (secrets_.size() >= kMostSecrets) {
    const auto unused = std::find_if(secrets_.begin(), secrets_.end(),
                                     [](const pb::Secrets& each) { return !each.used(); });
    secrets_.erase(unused != secrets_.end() ? unused : secrets_.begin());
  }
  secrets_.push_back(std::move(latest));
}

void Contents::Apply(const pb::Popularity& popularity) {
  std::erase_if(popularities_, [&](const pb::Popularity& each) {
    return each.package_digest() == popularity.package_digest();
  });
  if (popularities_.size() >= kMostPopularities) popularities_.erase(popularities_.begin());
  popularities_.push_back(popularity);
}

void Contents::Apply(const pb::KeptPrefix& prefix) {
  std::erase_if(kept_prefixes_, [&](const pb::KeptPrefix& each) {
    return each.name() == prefix.name() && each.salt() == prefix.salt();
  });
  if (prefix.token_ids().empty()) return;
  if (kept_prefixes_.size() >= kMostKeptPrefixes) kept_prefixes_.erase(kept_prefixes_.begin());
  kept_prefixes_.push_back(prefix);
}

const RequestEntry* Contents::FindRequest(std::string_view key) const {
  // The latest are asked for most.
  const auto found = std::find_if(requests_.rbegin(), requests_.rend(),
                                  [key](const auto& each) { return each.begun.key() == key; });
  return found == requests_.rend() ? nullptr : &*found;
}

// A key that is used again begins anew, with what is known of its prompt.
void Contents::Apply(const pb::RequestBegun& begun) {
  std::erase_if(requests_, [&](const auto& each) { return each.begun.key() == begun.key(); });
  if (requests_.size() >= kMostRequests) requests_.pop_front();
  requests_.push_back({begun, {}, std::nullopt});
}

void Contents::Apply(const pb::RequestTokens& tokens) {
  RequestEntry* entry = Find(tokens.key());
  if (entry == nullptr || entry->generated_tokens || !entry->begun.has_request()) return;
  // Behind a gap nothing can be used: it is computed again.
  if (tokens.first() != entry->token_ids.size()) return;
  entry->token_ids.insert(entry->token_ids.end(), tokens.token_ids().begin(),
                          tokens.token_ids().end());
}

// What is over needs its seed alone.
void Contents::Apply(const pb::RequestEnded& ended) {
  RequestEntry* entry = Find(ended.key());
  if (entry == nullptr) return;
  entry->generated_tokens = ended.generated_tokens();
  entry->token_ids.clear();
  entry->begun.clear_request();
}

void Contents::DropOldRequests(int64_t now_s) {
  std::erase_if(requests_, [now_s](const RequestEntry& each) {
    const int64_t begun_at_s = each.begun.begun_at_s();
    // A clock that was set back a little leaves none of them in the future for long.
    return begun_at_s <= now_s - kRequestSeconds || begun_at_s > now_s + kRequestSeconds;
  });
}

void Contents::DropPrompts() {
  for (RequestEntry& each : requests_) {
    each.begun.clear_request();
    each.token_ids.clear();
  }
}

std::vector<pb::Record> Contents::Records() const {
  std::vector<pb::Record> records(1);
  records.back().mutable_start()->set_package_digest(package_digest_);
  for (const pb::Secrets& each : secrets_) *records.emplace_back().mutable_secrets() = each;
  if (placement_) *records.emplace_back().mutable_placement() = *placement_;
  for (const pb::Popularity& each : popularities_)
    *records.emplace_back().mutable_popularity() = each;
  for (const pb::KeptPrefix& each : kept_prefixes_)
    *records.emplace_back().mutable_kept_prefix() = each;
  for (const RequestEntry& each : requests_) {
    *records.emplace_back().mutable_request_begun() = each.begun;
    if (!each.token_ids.empty()) {
      auto& tokens = *records.emplace_back().mutable_request_tokens();
      tokens.set_key(each.begun.key());
      tokens.mutable_token_ids()->Assign(each.token_ids.begin(), each.token_ids.end());
    }
    if (each.generated_tokens) {
      auto& ended = *records.emplace_back().mutable_request_ended();
      ended.set_key(each.begun.key());
      ended.set_generated_tokens(*each.generated_tokens);
    }
  }
  if (stopped_at_s_) records.emplace_back().mutable_stop()->set_at_s(*stopped_at_s_);
  return records;
}

Result<ReadContents> ReadJournal(ByteSpan file) {
  ASSIGN_OR_RETURN(const DecodedRecords records, DecodeRecords(file));
  ReadContents read;
  read.good_bytes = records.good_bytes;
  for (const std::string_view payload : records.payloads) {
    pb::Record record;
    if (record.ParseFromArray(payload.data(), static_cast<int>(payload.size())))
      read.contents.Apply(record);
    else
      read.good_bytes -= payload.size();
  }
  return read;
}

std::string WriteJournal(const Contents& contents, std::string_view mark) {
  std::string file = FormatLine(mark);
  for (const pb::Record& record : contents.Records()) {
    const std::string payload = record.SerializeAsString();
    // Only what somebody else has written can be longer.
    if (payload.size() <= kMaxPayloadBytes) file += EncodeRecord(mark, payload);
  }
  return file;
}

}  // namespace weft::journal
