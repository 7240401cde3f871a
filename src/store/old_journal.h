// The journal that servers wrote before they had a database: a line that names the format, then
// records to the end of the file. It is read once, and imported (Records::Import).
//
//   "weft journal 1 0123456789abcdef\n"          the mark of this file: 16 random hex digits
//   mark | u32 payload bytes | first 8 bytes of the payload's SHA-256 | payload     (little-endian)
//   ...
//
// A program that is killed leaves whole records; a machine that loses power may leave a torn one,
// and a disk may change any. What is not right is passed over up to the next mark. Nobody who has a
// say in what a payload holds knows the mark, so no part of a payload is taken for a record.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "store/records.pb.h"
#include "store/records_types.h"

namespace weft::store {

// Journals had no more of these. Of more the oldest are left out.
inline constexpr size_t kMostOldSecrets = 8, kMostOldRequests = 4096, kMostOldPopularities = 8,
                        kMostOldPrefixes = 64;

// What the records come to, one applied after the other; bounded, whatever they are.
struct OldJournal {
  struct Request : KeyedRequest {
    std::vector<int32_t> token_ids;
    std::optional<uint32_t> generated_tokens;  // set: it has ended
  };

  std::string package_digest;
  std::optional<int64_t> stopped_at_s;
  std::vector<StoredSecrets> secrets;  // the latest last
  std::optional<pb::Placement> placement;
  std::vector<pb::Popularity> popularities;
  std::vector<StoredPrefix> kept_prefixes;
  std::deque<Request> requests;
  size_t good_bytes = 0;  // of the first line and of all records that are right
};

// Whether a file that begins so is a journal, of whatever version.
bool LooksLikeOldJournal(std::string_view beginning);
// kUnsupported: a journal of another version. kInvalidData: no journal at all.
Result<OldJournal> ReadOldJournal(ByteSpan file);

}  // namespace weft::store
