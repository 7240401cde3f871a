// What the records of a journal come to, one applied after the other; bounded, whatever they are.
// Not the file (journal.h), and not what the server makes of it.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "journal/journal.pb.h"

namespace weft::journal {

// Of more pairs of secrets than this, those that nobody has used go first, then the oldest.
inline constexpr size_t kMostSecrets = 8;
// Of more requests than this, or longer ago, the oldest are forgotten.
inline constexpr size_t kMostRequests = 4096;
inline constexpr int64_t kRequestSeconds = 24 * 3600;

// Of more packages than this, the popularity that was noted first is forgotten.
inline constexpr size_t kMostPopularities = 8;

// Of more kept prefixes than this, the oldest are forgotten.
inline constexpr size_t kMostKeptPrefixes = 64;

struct RequestEntry {
  pb::RequestBegun begun;
  std::vector<int32_t> token_ids;            // generated so far, where the prompt is known
  std::optional<uint32_t> generated_tokens;  // set: it has ended
};

class Contents {
 public:
  void Apply(const pb::Record& record);
  // Forgets requests that are too old at this Unix time.
  void DropOldRequests(int64_t now_s);
  // What requests asked and were answered; their seeds stay.
  void DropPrompts();

  // Applied to empty contents in this order, they come to these contents.
  std::vector<pb::Record> Records() const;

  const std::string& package_digest() const { return package_digest_; }
  // When it was told to stop, after everything else; nullopt: it was not.
  std::optional<int64_t> stopped_at_s() const { return stopped_at_s_; }
  const std::vector<pb::Secrets>& secrets() const { return secrets_; }  // the latest last
  const std::optional<pb::Placement>& placement() const { return placement_; }
  // Of whatever package was served, too, each once; the latest last.
  const std::vector<pb::Popularity>& popularities() const { return popularities_; }
  // Of the package that is served; the latest last.
  const std::vector<pb::KeptPrefix>& kept_prefixes() const { return kept_prefixes_; }
  const std::deque<RequestEntry>& requests() const { return requests_; }  // the latest last
  // nullptr: none is known.
  const RequestEntry* FindRequest(std::string_view key) const;

 private:
  void Apply(const pb::Start& start);
  void Apply(const pb::Secrets& secrets);
  void Apply(const pb::Popularity& popularity);
  void Apply(const pb::KeptPrefix& prefix);
  void Apply(const pb::RequestBegun& begun);
  void Apply(const pb::RequestTokens& tokens);
  void Apply(const pb::RequestEnded& ended);
  RequestEntry* Find(std::string_view key) { return const_cast<RequestEntry*>(FindRequest(key)); }

  std::string package_digest_;
  std::optional<int64_t> stopped_at_s_;
  std::vector<pb::Secrets> secrets_;
  std::optional<pb::Placement> placement_;
  std::vector<pb::Popularity> popularities_;
  std::vector<pb::KeptPrefix> kept_prefixes_;
  std::deque<RequestEntry> requests_;
};

// The contents of a journal's bytes, and how many of them are right; the others are left out. An
// error: as DecodeRecords.
struct ReadContents {
  Contents contents;
  size_t good_bytes = 0;
};
Result<ReadContents> ReadJournal(ByteSpan file);

// The whole file that ReadJournal reads as these contents.
std::string WriteJournal(const Contents& contents, std::string_view mark);

}  // namespace weft::journal
