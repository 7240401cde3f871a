#include "store/old_journal.h"

#include <algorithm>

#include "base/sha256.h"
#include "store/old_journal.pb.h"

namespace weft::store {
namespace {

// Longer than any record: a prompt's token ids take at most 5 bytes for each of a body's 2^20.
constexpr size_t kMaxPayloadBytes = 8u << 20;
constexpr size_t kMarkBytes = 16;

constexpr std::string_view kAnyFormat = "weft journal ";
constexpr std::string_view kFormat = "weft journal 1 ";
constexpr size_t kHashBytes = 8;
constexpr size_t kHeadBytes = kMarkBytes + sizeof(uint32_t) + kHashBytes;

bool IsMark(std::string_view text) {
  return text.size() == kMarkBytes && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// What the first line says where it begins as ours does, made fit for a message.
std::string VersionOf(std::string_view text) {
  std::string version;
  for (const char c : text.substr(kAnyFormat.size(), 10)) {
    if (c < '0' || c > '9') break;
    version += c;
  }
  return version.empty() ? "unknown" : version;
}

// The mark of a file that begins as a journal does.
Result<std::string_view> MarkOf(std::string_view text) {
  if (text.starts_with(kFormat)) {
    const std::string_view mark = text.substr(kFormat.size(), kMarkBytes);
    if (IsMark(mark) && text.substr(kFormat.size() + kMarkBytes).starts_with('\n')) return mark;
  } else if (text.starts_with(kAnyFormat)) {
    return Error(ErrorCode::kUnsupported,
                 "The journal has the version " + VersionOf(text) + "; this weft reads version 1.");
  }
  return Error(ErrorCode::kInvalidData,
               "The file does not begin as a journal does (\"weft journal 1\" and its mark).");
}

// The payload of the record that begins with a mark at this place; nullopt: there is none.
std::optional<std::string_view> PayloadAt(std::string_view text, size_t at) {
  const std::string_view rest = text.substr(at);
  if (rest.size() < kHeadBytes) return std::nullopt;
  const ByteSpan head = AsBytes(rest).subspan(kMarkBytes);
  const auto payload_bytes = LoadLe<uint32_t>(head.data());
  if (payload_bytes > kMaxPayloadBytes || payload_bytes > rest.size() - kHeadBytes)
    return std::nullopt;
  const std::string_view payload = rest.substr(kHeadBytes, payload_bytes);
  const Sha256Digest digest = Sha256(AsBytes(payload));
  if (!std::equal(digest.begin(), digest.begin() + kHashBytes, head.begin() + sizeof(uint32_t)))
    return std::nullopt;
  return payload;
}

// Applies records to what a journal comes to.
class Reader {
 public:
  void Apply(const pb::Record& record) {
    journal_.stopped_at_s.reset();
    switch (record.kind_case()) {
      case pb::Record::kStart:
        return Apply(record.start());
      case pb::Record::kSecrets:
        return Apply(record.secrets());
      case pb::Record::kPlacement:
        journal_.placement = record.placement();
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
        journal_.stopped_at_s = record.stop().at_s();
        return;
      case pb::Record::KIND_NOT_SET:  // of a later version
        return;
    }
  }
  OldJournal Take() { return std::move(journal_); }

 private:
  void Apply(const pb::Start& start);
  void Apply(const pb::Secrets& secrets);
  void Apply(const pb::Popularity& popularity);
  void Apply(const pb::KeptPrefix& prefix);
  void Apply(const pb::RequestBegun& begun);
  void Apply(const pb::RequestTokens& tokens);
  void Apply(const pb::RequestEnded& ended);
  OldJournal::Request* Find(std::string_view key);

  OldJournal journal_;
};

void Reader::Apply(const pb::Start& start) {
  if (start.package_digest() == journal_.package_digest) return;
  journal_.package_digest = start.package_digest();
  // How devices come and go has nothing to do with the model.
  pb::Placement kept;
  if (journal_.placement) kept.mutable_lifetimes()->Swap(journal_.placement->mutable_lifetimes());
  journal_.placement.reset();
  if (kept.lifetimes_size() > 0) journal_.placement = std::move(kept);
  journal_.kept_prefixes.clear();
  journal_.requests.clear();
}

void Reader::Apply(const pb::Secrets& secrets) {
  StoredSecrets latest{secrets.api_key(), secrets.join_token(), secrets.hidden_join_token(),
                       secrets.used()};
  std::erase_if(journal_.secrets, [&](const StoredSecrets& each) {
    const bool same_key = each.api_key == latest.api_key;
    const bool same_token = each.join_token == latest.join_token;
    if (same_key && same_token && each.used) latest.used = true;
    return (same_key && same_token) || (secrets.only_key() && !same_key) ||
           (secrets.only_token() && !same_token);
  });
  if (journal_.secrets.size() >= kMostOldSecrets) {
    const auto unused = std::ranges::find_if(journal_.secrets,
                                             [](const StoredSecrets& each) { return !each.used; });
    journal_.secrets.erase(unused != journal_.secrets.end() ? unused : journal_.secrets.begin());
  }
  journal_.secrets.push_back(std::move(latest));
}

void Reader::Apply(const pb::Popularity& popularity) {
  auto& known = journal_.popularities;
  std::erase_if(known, [&](const pb::Popularity& each) {
    return each.package_digest() == popularity.package_digest();
  });
  if (known.size() >= kMostOldPopularities) known.erase(known.begin());
  known.push_back(popularity);
}

void Reader::Apply(const pb::KeptPrefix& prefix) {
  auto& known = journal_.kept_prefixes;
  std::erase_if(known, [&](const StoredPrefix& each) {
    return each.name == prefix.name() && each.salt == prefix.salt();
  });
  if (prefix.token_ids().empty()) return;
  if (known.size() >= kMostOldPrefixes) known.erase(known.begin());
  known.push_back({prefix.salt(),
                   prefix.name(),
                   {prefix.token_ids().begin(), prefix.token_ids().end()},
                   prefix.kept_at_s()});
}

OldJournal::Request* Reader::Find(std::string_view key) {
  const auto found =
      std::ranges::find_if(journal_.requests, [key](const auto& each) { return each.key == key; });
  return found == journal_.requests.end() ? nullptr : &*found;
}

// A key that is used again begins anew, with what is known of its prompt.
void Reader::Apply(const pb::RequestBegun& begun) {
  auto& known = journal_.requests;
  std::erase_if(known, [&](const auto& each) { return each.key == begun.key(); });
  if (known.size() >= kMostOldRequests) known.pop_front();
  OldJournal::Request& request = known.emplace_back();
  request.key = begun.key();
  request.digest = begun.digest();
  request.seed = begun.seed();
  request.begun_at_s = begun.begun_at_s();
  request.prompt_tokens = begun.prompt_tokens();
  request.attempts = begun.attempts();
  if (begun.has_request()) request.request = begun.request();
}

void Reader::Apply(const pb::RequestTokens& tokens) {
  OldJournal::Request* request = Find(tokens.key());
  if (request == nullptr || request->generated_tokens || !request->request) return;
  // Behind a gap nothing can be used: it is computed again.
  if (tokens.first() != request->token_ids.size()) return;
  request->token_ids.insert(request->token_ids.end(), tokens.token_ids().begin(),
                            tokens.token_ids().end());
}

// What is over needs its seed alone.
void Reader::Apply(const pb::RequestEnded& ended) {
  OldJournal::Request* request = Find(ended.key());
  if (request == nullptr) return;
  request->generated_tokens = ended.generated_tokens();
  request->token_ids.clear();
  request->request.reset();
}

}  // namespace

bool LooksLikeOldJournal(std::string_view beginning) {
  return beginning.starts_with(kAnyFormat);
}

Result<OldJournal> ReadOldJournal(ByteSpan file) {
  const std::string_view text = AsText(file);
  ASSIGN_OR_RETURN(const std::string_view mark, MarkOf(text));
  Reader reader;
  size_t at = kFormat.size() + kMarkBytes + 1;
  size_t good_bytes = at;
  while ((at = text.find(mark, at)) != std::string_view::npos) {
    const auto payload = PayloadAt(text, at);
    const size_t record_bytes = payload ? kHeadBytes + payload->size() : 0;
    at += std::max<size_t>(record_bytes, 1);
    pb::Record record;
    if (!payload || !record.ParseFromArray(payload->data(), static_cast<int>(payload->size())))
      continue;
    good_bytes += record_bytes;
    reader.Apply(record);
  }
  OldJournal journal = reader.Take();
  journal.good_bytes = good_bytes;
  return journal;
}

}  // namespace weft::store
